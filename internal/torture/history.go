package torture

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"github.com/weir-relay/weir/machine"
)

// version is one version of a row of weir.deliveries, and the transaction that wrote it.
type version struct {
	commit time.Time // by the server's clock
	lsn    pglogrepl.LSN
	insert bool

	id              int64
	exporter        string
	state           machine.State
	from            machine.State
	token, attempts int64
	next            time.Time // next_attempt_at
	first           time.Time // first_attempt_at; zero: none
	expires         time.Time // lease_expires_at; zero: none
	owner           string
	providerRef     string
	lastError       string
	reason          string // quarantine_reason
}

func (v *version) String() string {
	return fmt.Sprintf("%s %v item %d: %s -> %s token=%d attempts=%d owner=%s first=%s next=%s expires=%s ref=%s reason=%s error=%q",
		clock(v.commit), v.lsn, v.id, v.from, v.state, v.token, v.attempts, v.owner, clock(v.first), clock(v.next), clock(v.expires),
		v.providerRef, v.reason, v.lastError)
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("15:04:05.000000")
}

// history is every version of every row, in the order of the commits. It comes from a slot and a publication of
// the harness's own, so that what weir overwrites is seen too.
type history struct {
	world *world
	slot  string

	mu        sync.Mutex
	relations map[uint32]*pglogrepl.RelationMessage
	end       pglogrepl.LSN        // of the last transaction that was read
	rows      map[int64][]*version // by id
	deletes   int
}

func newHistory(ctx context.Context, w *world) (*history, error) {
	h := &history{world: w, slot: "torture_" + w.database, relations: map[uint32]*pglogrepl.RelationMessage{}, rows: map[int64][]*version{}}
	for _, sql := range []string{
		`CREATE PUBLICATION torture FOR TABLE weir.deliveries`,
		`SELECT pg_create_logical_replication_slot('` + h.slot + `', 'pgoutput')`,
	} {
		if _, err := w.db().Exec(ctx, sql); err != nil {
			return nil, fmt.Errorf("history: %w", err)
		}
	}
	return h, nil
}

// read reads what has been committed since the last time.
func (h *history) read(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	rows, err := h.world.db().Query(ctx, `
SELECT data FROM pg_logical_slot_get_binary_changes($1, NULL, NULL, 'proto_version', '1', 'publication_names', 'torture')`, h.slot)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	var begin *pglogrepl.BeginMessage
	var open []*version
	var data []byte
	_, err = pgx.ForEachRow(rows, []any{&data}, func() error {
		message, err := pglogrepl.Parse(data)
		if err != nil {
			return err
		}
		switch m := message.(type) {
		case *pglogrepl.RelationMessage:
			h.relations[m.RelationID] = m
		case *pglogrepl.BeginMessage:
			begin, open = m, nil
		case *pglogrepl.InsertMessage:
			open = append(open, h.version(m.RelationID, m.Tuple, begin, true))
		case *pglogrepl.UpdateMessage:
			open = append(open, h.version(m.RelationID, m.NewTuple, begin, false))
		case *pglogrepl.DeleteMessage:
			h.deletes++
		case *pglogrepl.CommitMessage:
			// After a crash the server may tell again what it told before.
			if m.TransactionEndLSN > h.end {
				h.end = m.TransactionEndLSN
				for _, v := range open {
					h.rows[v.id] = append(h.rows[v.id], v)
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}

func (h *history) version(relation uint32, tuple *pglogrepl.TupleData, begin *pglogrepl.BeginMessage, insert bool) *version {
	v := &version{commit: begin.CommitTime, lsn: begin.FinalLSN, insert: insert}
	for i, c := range tuple.Columns {
		if c.DataType != pglogrepl.TupleDataTypeText {
			continue
		}
		text := string(c.Data)
		switch h.relations[relation].Columns[i].Name {
		case "id":
			v.id = number(text)
		case "exporter":
			v.exporter = text
		case "state":
			v.state = machine.State(text)
		case "from_state":
			v.from = machine.State(text)
		case "lease_token":
			v.token = number(text)
		case "attempts":
			v.attempts = number(text)
		case "next_attempt_at":
			v.next = moments(text)
		case "first_attempt_at":
			v.first = moments(text)
		case "lease_expires_at":
			v.expires = moments(text)
		case "lease_owner":
			v.owner = text
		case "provider_ref":
			v.providerRef = text
		case "last_error":
			v.lastError = text
		case "quarantine_reason":
			v.reason = text
		}
	}
	return v
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err) // the column is an integer
	}
	return n
}

// moments reads a timestamptz as a server in UTC writes it.
func moments(text string) time.Time {
	t, err := time.Parse("2006-01-02 15:04:05.999999Z07", strings.TrimSpace(text))
	if err != nil {
		panic(err) // the column is a timestamptz
	}
	return t
}
