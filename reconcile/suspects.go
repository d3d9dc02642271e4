package reconcile

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-relay/weir/machine"
)

// Suspect is what an error report of the provider says and what could not be settled at once.
type Suspect struct {
	Exporter string
	Event    string // id of the report
	Code     string
	Detail   string
	Meter    string    // the provider's id of the meter
	Identity *[32]byte // of the item that is named, nil where none is
	Events   int64     // how many failed
	From, To time.Time // when the provider looked at them; zero where it doesn't say
}

const suspectSQL = `
INSERT INTO weir.suspects (exporter, event_id, code, detail, meter, identity, events, from_at, to_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`

// NoteSuspects writes suspects down, in the transaction that handles their report.
func NoteSuspects(ctx context.Context, tx pgx.Tx, suspects []Suspect) error {
	for i := range suspects {
		s := &suspects[i]
		var identity []byte
		if s.Identity != nil {
			identity = s.Identity[:]
		}
		cause := machine.Cause{Code: s.Code, Detail: s.Detail}.String()
		_, err := tx.Exec(ctx, suspectSQL, s.Exporter, s.Event, machine.Cause{Code: s.Code}.String(), cause, s.Meter, identity,
			max(s.Events, 0), orNull(s.From), orNull(s.To))
		if err != nil {
			return fmt.Errorf("note suspect: %w", err)
		}
	}
	return nil
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Where the item that is named has come to be accepted meanwhile, it is rejected now: the report came before weir knew of
// the acceptance.
const overdueSQL = `
SELECT s.identity, s.detail
  FROM weir.suspects s
  JOIN weir.outbox o ON o.identity = s.identity
  JOIN weir.deliveries d ON d.id = o.id
 WHERE s.exporter = $1
   AND s.settled_at IS NULL
   AND d.state = 'accepted'`

// Those that are named are settled once their items are at rest, or gone; those that aren't, once nothing of their time
// waits for evidence any more: then whatever failed has been found, or confirmed.
const settleSQL = `
UPDATE weir.suspects s
   SET settled_at = clock_timestamp()
 WHERE s.exporter = $1
   AND s.settled_at IS NULL
   AND CASE WHEN s.identity IS NOT NULL
            THEN NOT EXISTS (
                 SELECT FROM weir.outbox o
                   JOIN weir.deliveries d ON d.id = o.id
                  WHERE o.identity = s.identity
                    AND d.state NOT IN ('rejected', 'confirmed'))
            ELSE s.reported_at < $2
             AND NOT EXISTS (
                 SELECT FROM weir.deliveries d
                  WHERE d.accepted_at IS NOT NULL
                    AND d.confirmed_at IS NULL
                    AND d.state = 'accepted'
                    AND d.exporter = $1
                    AND d.accepted_at <= s.reported_at)
       END`

// settleSuspects applies what could not be applied when the report came. limit is the settle delay ago.
func (r *Reconciler) settleSuspects(ctx context.Context, limit time.Time) error {
	rows, err := r.config.DB.Query(ctx, overdueSQL, r.config.Exporter)
	if err != nil {
		return fmt.Errorf("read suspects: %w", err)
	}
	var refusals []machine.Refusal
	var identity []byte
	var detail string
	_, err = pgx.ForEachRow(rows, []any{&identity, &detail}, func() error {
		code, text, _ := strings.Cut(detail, ": ")
		refusals = append(refusals, machine.Refusal{Identity: [32]byte(identity), Cause: machine.Cause{Code: code, Detail: text}})
		return nil
	})
	if err != nil {
		return fmt.Errorf("read suspects: %w", err)
	}
	if len(refusals) > 0 {
		ids, err := machine.NewStore(r.config.DB, machine.DefaultPolicy()).Report(ctx, refusals)
		if err != nil {
			return fmt.Errorf("apply a late report: %w", err)
		}
		r.config.Logger.Warn("items were accepted whose failure the provider had reported before: they are rejected now", "items", ids)
	}
	if _, err := r.config.DB.Exec(ctx, settleSQL, r.config.Exporter, limit); err != nil {
		return fmt.Errorf("settle suspects: %w", err)
	}
	return nil
}

// named answers the codes of the reports that name items which are not settled yet.
func (r *Reconciler) named(ctx context.Context) (map[[32]byte]string, error) {
	rows, err := r.config.DB.Query(ctx, `
SELECT identity, code FROM weir.suspects WHERE exporter = $1 AND settled_at IS NULL AND identity IS NOT NULL`, r.config.Exporter)
	if err != nil {
		return nil, fmt.Errorf("read suspects: %w", err)
	}
	out := map[[32]byte]string{}
	var identity []byte
	var code string
	_, err = pgx.ForEachRow(rows, []any{&identity, &code}, func() error {
		out[[32]byte(identity)] = code
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read suspects: %w", err)
	}
	return out, nil
}
