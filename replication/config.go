package replication

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"
)

// Config says which slot is read, and how.
type Config struct {
	// URL is a connection string for a direct connection to the server: replication doesn't go through
	// poolers. Of several hosts in it the primary is taken. The role needs REPLICATION, or what the provider
	// of the server has instead.
	URL string
	// Slot is the replication slot. Processes that share it elect one of them; it must not depend on the
	// host, or a moved process leaves its old slot behind to retain WAL. Defaults to weir.
	Slot string
	// Publication is the publication that the slot reads. Defaults to weir.
	Publication string
	// StatusInterval is how often the server is told the confirmed position, and how often DB is asked about
	// the slot. It is told more often where WalSenderTimeout demands it. Defaults to 10 seconds.
	StatusInterval time.Duration
	// WalSenderTimeout is wal_sender_timeout for this session: how long a server waits for a word from
	// weir before it gives the slot to another. The other way round weir waits twice as long. Defaults to
	// 20 seconds.
	WalSenderTimeout time.Duration
	// DB, if set, is asked about the slot every StatusInterval, for Status and for the fuse. A pool will do;
	// no replication connection is needed.
	DB DB
	// Fuse is how many bytes of WAL the slot may retain. Past it weir drops the slot, delivers by sweeping
	// for FuseRest, and begins anew. It needs DB. 0: no limit.
	Fuse int64
	// FuseRest is how long weir does without a slot after the fuse has blown. Defaults to 5 minutes.
	FuseRest time.Duration
	// NoFailover makes a slot that Postgres 17 and newer don't synchronise to standbys; before 17 there is no
	// other kind. Where synchronized_standby_slots is set, a slot that is synchronised hears of a commit only
	// once those standbys have it.
	NoFailover bool
	// BackoffMin and BackoffMax bound the pause before a lost connection is made anew; it doubles in
	// between. Default to 200 ms and 15 seconds.
	BackoffMin, BackoffMax time.Duration
	// FlushTimeout bounds the last checkpoint and status update at shutdown. Defaults to 5 seconds.
	FlushTimeout time.Duration
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// withDefaults fills in what is left out.
func (c Config) withDefaults() Config {
	fill(&c.Slot, "weir")
	fill(&c.Publication, "weir")
	fill(&c.StatusInterval, 10*time.Second)
	fill(&c.WalSenderTimeout, 20*time.Second)
	fill(&c.FuseRest, 5*time.Minute)
	fill(&c.BackoffMin, 200*time.Millisecond)
	fill(&c.BackoffMax, 15*time.Second)
	fill(&c.FlushTimeout, 5*time.Second)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Names that need no quoting, so that they can stand in replication commands, which take no parameters.
var (
	slotName        = regexp.MustCompile(`^[a-z0-9_]{1,63}$`)
	publicationName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)
)

// Validate checks the fields, alone and in pairs. Fields that are left out are taken at their defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case c.URL == "":
		return errors.New("replication: URL is missing: name the server's own address, not a pooler's")
	case !slotName.MatchString(c.Slot):
		return fmt.Errorf("replication: slot %q: use 1 to 63 of a-z, 0-9 and _", c.Slot)
	case !publicationName.MatchString(c.Publication):
		return fmt.Errorf("replication: publication %q: use 1 to 63 of a-z, 0-9 and _, not beginning with a digit", c.Publication)
	case c.StatusInterval < 10*time.Millisecond:
		return fmt.Errorf("replication: status interval %v: it must be at least 10ms", c.StatusInterval)
	case c.WalSenderTimeout < 100*time.Millisecond:
		return fmt.Errorf("replication: wal sender timeout %v: it must be at least 100ms; without one a dead process keeps the slot", c.WalSenderTimeout)
	case c.BackoffMin < 0 || c.BackoffMax < c.BackoffMin:
		return fmt.Errorf("replication: backoff from %v to %v: the first must be above zero and not above the second", c.BackoffMin, c.BackoffMax)
	case c.FlushTimeout < 0 || c.FuseRest < 0:
		return fmt.Errorf("replication: flush timeout %v, fuse rest %v: both must be above zero", c.FlushTimeout, c.FuseRest)
	case c.Fuse < 0:
		return fmt.Errorf("replication: fuse %d: it must be above zero, or 0 for no limit", c.Fuse)
	case c.Fuse > 0 && c.DB == nil:
		return errors.New("replication: fuse: without DB nobody knows how much the slot retains: set both or neither")
	}
	return nil
}

// statusEvery is how often the server is told the confirmed position: a third of its timeout at most, so
// that one late update never ends the stream.
func (c Config) statusEvery() time.Duration { return min(c.StatusInterval, c.WalSenderTimeout/3) }

// silence is how long nothing may be heard of a server that is asked for a reply every statusEvery.
func (c Config) silence() time.Duration { return 2 * c.WalSenderTimeout }
