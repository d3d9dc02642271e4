package reports

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/weir-relay/weir/exporter/stripe"
	"github.com/weir-relay/weir/inbox"
	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/reconcile"
)

// DB is a *pgxpool.Pool.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Outcome is what became of a report.
type Outcome struct {
	First    bool    // it wasn't handled before
	Rejected []int64 // items
	Suspects int     // what could not be settled at once
}

// consumer names a lane in weir.inbox.
func consumer(lane string) string { return "stripe:" + lane }

// duplicate is the code of an event that is there already.
const duplicate = "duplicate_meter_event"

// Apply handles a report for the items of a lane, in one transaction.
func Apply(ctx context.Context, db DB, lane string, report *stripe.ErrorReport, log *slog.Logger) (out Outcome, err error) {
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		out = Outcome{}
		if out.First, err = inbox.First(ctx, tx, consumer(lane), report.ID); err != nil || !out.First {
			return err
		}
		var refusals []machine.Refusal
		var suspects []reconcile.Suspect
		for _, e := range report.Errors {
			if e.Code == duplicate {
				continue
			}
			for _, identity := range e.Named {
				refusals = append(refusals, machine.Refusal{Identity: identity, Cause: machine.Cause{Code: e.Code, Detail: e.Message}})
			}
			if rest := e.Count - int64(len(e.Named)+e.Foreign); rest > 0 {
				suspects = append(suspects, suspect(lane, report, e, nil, rest))
			}
		}
		if len(report.Errors) == 0 {
			suspects = append(suspects, suspect(lane, report, stripe.ReportedError{Code: "unknown", Message: report.Summary}, nil, 0))
		}
		if out.Rejected, err = machine.NewStore(tx, machine.DefaultPolicy()).Report(ctx, refusals); err != nil {
			return err
		}
		left, err := unsettled(ctx, tx, lane, report, log)
		if err != nil {
			return err
		}
		suspects = append(suspects, left...)
		out.Suspects = len(suspects)
		return reconcile.NoteSuspects(ctx, tx, suspects)
	})
	if err != nil {
		return Outcome{}, fmt.Errorf("apply report %s: %w", report.ID, err)
	}
	if out.First {
		log.Warn("stripe: an error report says that events failed which had been accepted", "lane", lane, "event", report.ID,
			"meter", report.Meter, "summary", report.Summary, "rejected", out.Rejected, "suspects", out.Suspects)
	}
	return out, nil
}

func suspect(lane string, r *stripe.ErrorReport, e stripe.ReportedError, identity *[32]byte, events int64) reconcile.Suspect {
	return reconcile.Suspect{
		Exporter: lane, Event: r.ID, Code: e.Code, Detail: e.Message, Meter: r.Meter, Identity: identity, Events: events,
		From: r.From, To: r.To,
	}
}

// unsettled answers the named items that are not rejected: those that weir doesn't know to be accepted, or that have been
// confirmed.
func unsettled(ctx context.Context, tx pgx.Tx, lane string, report *stripe.ErrorReport, log *slog.Logger) ([]reconcile.Suspect, error) {
	why := map[[32]byte]stripe.ReportedError{}
	var identities [][]byte
	for _, e := range report.Errors {
		for _, identity := range e.Named {
			if e.Code != duplicate {
				why[identity] = e
				identities = append(identities, identity[:])
			}
		}
	}
	if len(identities) == 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, `
SELECT o.identity, d.id, d.state
  FROM weir.outbox o
  JOIN weir.deliveries d ON d.id = o.id
 WHERE o.identity = ANY ($1::bytea[])
   AND d.state <> 'rejected'`, identities)
	if err != nil {
		return nil, fmt.Errorf("look at named items: %w", err)
	}
	var suspects []reconcile.Suspect
	var raw []byte
	var id int64
	var state machine.State
	_, err = pgx.ForEachRow(rows, []any{&raw, &id, &state}, func() error {
		identity := [32]byte(raw)
		if state == machine.Confirmed {
			log.Error("stripe: a report names an item that was confirmed by its sums; compare with weir reconcile", "item", id, "event", report.ID)
		}
		suspects = append(suspects, suspect(lane, report, why[identity], &identity, 1))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look at named items: %w", err)
	}
	return suspects, nil
}
