package relay

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/machine"
)

// mute is a database that takes statements and never answers.
type mute struct{ asked, gaveUp int }

func (m *mute) Query(ctx context.Context, _ string, _ ...any) (pgx.Rows, error) {
	m.asked++
	<-ctx.Done()
	m.gaveUp++
	return nil, ctx.Err()
}

func (m *mute) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	_, err := m.Query(ctx, sql, args...)
	return pgconn.CommandTag{}, err
}

// lesson "hangs": no statement of a lane waits for ever, so that a connection that is silently dead is left and
// another one tried.
func TestStatementsAreBounded(t *testing.T) {
	accepted := settlement{item: machine.Item{ID: 1, Token: 1}, outcome: exporter.Outcome{Kind: exporter.Accepted}}
	for name, run := range map[string]func(ctx context.Context, l *Lane) error{
		"claim by wake": func(ctx context.Context, l *Lane) error {
			l.agenda.now(wake{id: 1})
			_, err := l.claim(ctx, 1)
			return err
		},
		"claim by sweep": func(ctx context.Context, l *Lane) error {
			l.agenda.sweep()
			_, err := l.claim(ctx, 1)
			return err
		},
		"settle": func(ctx context.Context, l *Lane) error {
			var batch settles
			batch.add(&accepted, l.store.Policy())
			_, err := l.settler.attempt(ctx, &batch)
			return err
		},
		"look for who is next in line": func(ctx context.Context, l *Lane) error {
			l.order = machine.PerKey
			l.wakeSuccessors(ctx, []settlement{accepted})
			return context.DeadlineExceeded // it answers by a sweep
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := &mute{}
				l := loose(t, &scripted{limits: exporter.Limits{Calls: 1, Batch: 1, Timeout: time.Second}})
				l.store = machine.NewStore(db, machine.DefaultPolicy())
				began := time.Now()
				err := run(t.Context(), l)
				if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > statementTimeout {
					t.Errorf("ended after %v with %v, want its deadline after %v", took, err, statementTimeout)
				}
				if db.asked == 0 || db.asked != db.gaveUp {
					t.Errorf("%d statements, %d of them given up", db.asked, db.gaveUp)
				}
			})
		})
	}
}
