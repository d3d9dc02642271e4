package reports

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-relay/weir/exporter/stripe"
)

// Poller asks Stripe for the reports of each meter, where webhooks can't reach weir. Reports of events whose meter doesn't
// exist belong to no meter, so it can't ask for those: the sums show them.
type Poller struct {
	DB       DB
	Lane     string
	Exporter *stripe.Exporter
	// Every is the time between two questions about a meter: each counts as a read. Defaults to an hour.
	Every  time.Duration
	Logger *slog.Logger

	mu    sync.Mutex
	asked map[string]time.Time // by the meter's id
}

// Poll asks about the meters that are due, with at most so many questions, and answers how many it asked.
func (p *Poller) Poll(ctx context.Context, reads int) (made int, err error) {
	every := p.Every
	if every == 0 {
		every = time.Hour
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked == nil {
		p.asked = map[string]time.Time{}
	}
	oldest := time.Now()
	for _, at := range p.asked {
		if at.Before(oldest) {
			oldest = at
		}
	}
	if reads < 1 || len(p.asked) > 0 && time.Since(oldest) < every {
		return 0, nil
	}
	meters, err := p.Exporter.Meters(ctx)
	made = 1
	if err != nil {
		return made, fmt.Errorf("poll error reports: %w", err)
	}
	for _, m := range meters {
		if made >= reads {
			break
		}
		if at, ok := p.asked[m.ID]; ok && time.Since(at) < every {
			continue
		}
		read, err := p.ask(ctx, m.ID, reads-made)
		made += read
		if err != nil {
			return made, fmt.Errorf("poll error reports of meter %s: %w", m.Event, err)
		}
		p.asked[m.ID] = time.Now()
	}
	return made, nil
}

// ask reads a meter's reports back to a page that holds nothing new, and handles the new ones, the oldest first: after a
// crash, what is left is on the pages that are read first.
func (p *Poller) ask(ctx context.Context, meter string, pages int) (read int, err error) {
	var fresh []*stripe.ErrorReport
	read, err = p.Exporter.ErrorReports(ctx, meter, pages, func(page []*stripe.ErrorReport) (more bool, err error) {
		unknown, err := p.unknown(ctx, page)
		fresh = append(fresh, unknown...)
		return len(unknown) > 0, err
	})
	if err != nil {
		return read, err
	}
	for _, r := range slices.Backward(fresh) {
		if r.Live != (p.Exporter.Mode() == stripe.Live) {
			continue
		}
		if len(r.Errors) == 0 && read < pages {
			// A list may leave the data out.
			read++
			if r, err = p.Exporter.ErrorReport(ctx, r.ID); err != nil {
				return read, err
			}
		}
		if _, err := Apply(ctx, p.DB, p.Lane, r, p.Logger); err != nil {
			return read, err
		}
	}
	return read, nil
}

// unknown answers those of the reports that have not been handled.
func (p *Poller) unknown(ctx context.Context, page []*stripe.ErrorReport) ([]*stripe.ErrorReport, error) {
	ids := make([]string, len(page))
	for i, r := range page {
		ids[i] = r.ID
	}
	rows, err := p.DB.Query(ctx, `
SELECT message_id FROM weir.inbox WHERE consumer = $1 AND message_id = ANY ($2::text[])`, consumer(p.Lane), ids)
	if err != nil {
		return nil, fmt.Errorf("look for reports: %w", err)
	}
	known, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look for reports: %w", err)
	}
	return slices.DeleteFunc(page, func(r *stripe.ErrorReport) bool { return slices.Contains(known, r.ID) }), nil
}
