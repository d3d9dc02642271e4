package replication

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// The SQLSTATEs that mean something here.
const (
	protocolViolation  = "08P01"
	undefinedDatabase  = "3D000"
	insufficientRights = "42501"
	syntaxError        = "42601"
	undefinedObject    = "42704"
	limitExceeded      = "53400"
	notInState         = "55000"
	objectInUse        = "55006"
)

// hints are the SQLSTATEs that trying again doesn't mend. All others, and all that isn't an answer of the
// server, are tried again.
var hints = []struct{ state, hint string }{
	{"28", "correct the user and password in the replication URL, or allow it in pg_hba.conf"},
	{undefinedDatabase, "correct the database in the replication URL"},
	{insufficientRights, "give the role the attribute REPLICATION, or the provider's role for it (rds_replication, …)"},
	{limitExceeded, "raise max_replication_slots, or drop slots that nobody reads"},
	{protocolViolation, "a pooler may stand between: point the replication URL straight at the server"},
}

// classify makes a *PermanentError of what trying again doesn't mend, and leaves the rest as it is.
func classify(err error) error {
	var known *PermanentError
	if errors.As(err, &known) {
		return known
	}
	var broken *DecodeError
	if errors.As(err, &broken) {
		return permanent(err, "nothing was skipped and items are found by sweeping; if this server is newer than weir, "+
			"upgrade weir; else drop the slot (`weir slot drop`): weir makes a new one and counts anew")
	}
	if errors.Is(err, errLedger) {
		return err // its SQLSTATEs are of another connection
	}
	state := sqlState(err)
	for _, h := range hints {
		if state != "" && state[:min(len(state), len(h.state))] == h.state {
			return permanent(err, h.hint)
		}
	}
	return err
}

func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}
