package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-relay/weir/exporter/stripe/sandbox"
	"github.com/weir-relay/weir/machine"
)

// row is how an item stands at the end.
type row struct {
	id         int64
	identifier string
	state      machine.State
	attempts   int
	lastError  string
	reason     string
}

// check holds what weir did against what happened. It ends with the relays' stop in order, which is checked too.
func (w *world) check(ctx context.Context) {
	if w.history != nil {
		if err := w.history.read(ctx); err != nil {
			w.fail("harness: %w", err)
			return
		}
	}
	rows, err := w.rows(ctx)
	if err != nil {
		w.fail("harness: %w", err)
		return
	}
	w.checkItems(rows)
	w.checkLedger(rows)
	if w.history != nil {
		for _, r := range rows {
			w.checkHistory(r.identifier, w.history.rows[r.id])
		}
		w.checkOrder(rows)
	}
	if !w.failed() {
		w.checkAudit(ctx)
	}
	w.checkStop(ctx)
	w.checkLogs()
}

func (w *world) rows(ctx context.Context) (map[string]row, error) {
	found, err := w.db().Query(ctx, `SELECT id, identifier, state, attempts, coalesce(last_error, ''), coalesce(quarantine_reason, '') FROM weir.items`)
	if err != nil {
		return nil, err
	}
	rows := map[string]row{}
	var r row
	_, err = pgx.ForEachRow(found, []any{&r.id, &r.identifier, &r.state, &r.attempts, &r.lastError, &r.reason}, func() error {
		rows[r.identifier] = r
		return nil
	})
	return rows, err
}

// checkItems holds what was committed against the rows and the ledger.
func (w *world) checkItems(rows map[string]row) {
	for identifier, it := range w.truth.committed {
		r, ok := rows[identifier]
		if !ok {
			w.fail("item %s was committed and is not there", it.Ref)
			continue
		}
		entry, _ := w.provider.Entry(identifier)
		if why := w.misplaced(it, r, entry); why != "" {
			w.fail("item %d (%s, %s) is %s, billed %d times, received %d times, last error %q, reason %q: %s",
				r.id, it.Ref, it.Flaw, r.state, entry.Billed, entry.Received, r.lastError, r.reason, why)
		}
	}
	for identifier, it := range w.truth.undone {
		if _, also := w.truth.committed[identifier]; also {
			continue
		}
		if _, there := rows[identifier]; there {
			w.fail("item %s was rolled back and is there", it.Ref)
		}
		if _, sent := w.provider.Entry(identifier); sent {
			w.fail("item %s was rolled back and was sent", it.Ref)
		}
	}
	for identifier, r := range rows {
		if _, known := w.truth.committed[identifier]; !known {
			w.fail("item %d is there and nobody committed it", r.id)
		}
	}
}

// misplaced says why an item must not stand where it does, "" where it may.
func (w *world) misplaced(it Item, r row, entry sandbox.Entry) string {
	switch {
	case entry.Billed > 1:
		return "billed twice"
	case it.Flaw != sound && entry.Received > 0 && (it.Flaw != tooOld || w.lost(r) == 0):
		// Of what may have been sent in time, the provider is asked again: it alone knows.
		return "it was not fit to be sent, and was"
	case it.Flaw == staged && (r.state != machine.Quarantined || r.reason != string(staged)):
		return "its producer staged it"
	}
	switch r.state {
	case machine.Accepted, machine.Confirmed:
		if it.Flaw != sound || entry.Billed != 1 {
			return "accepted, and not billed"
		}
	case machine.Uncertain:
		return w.certain(r, entry)
	case machine.Quarantined:
		if it.Flaw == sound || r.reason != string(it.Flaw) {
			return fmt.Sprintf("there is no such reason; its flaw is %q", it.Flaw)
		}
	default:
		return "it has not come to rest, or was refused without cause"
	}
	return ""
}

// certain says why an uncertain item need not be, "" where its reason is true: an attempt may have arrived, and
// no further one was allowed.
func (w *world) certain(r row, entry sandbox.Entry) string {
	versions, lost := w.history.rows[r.id], w.lost(r)
	if entry.Received == 0 && lost == 0 {
		return "no attempt can have arrived"
	}
	last := versions[len(versions)-1]
	switch past := !last.first.IsZero() && last.commit.Sub(last.first) > w.plan.Horizon-backoffCap*5/4-lease; {
	case strings.HasPrefix(r.lastError, "attempts exhausted"), strings.Contains(r.lastError, "allowed (attempts)"):
		if r.attempts < w.plan.Attempts {
			return "there were attempts left"
		}
	case strings.HasPrefix(r.lastError, "horizon reached"), strings.Contains(r.lastError, "allowed (horizon)"), strings.HasPrefix(r.lastError, "past_horizon"):
		if !past {
			return "the horizon was far"
		}
	case strings.Contains(r.lastError, "an earlier attempt may have been taken"):
		if lost == 0 && entry.Received < 2 {
			return "there was no earlier attempt"
		}
	default:
		return "nobody knows why"
	}
	return ""
}

// lost is how many claims of an item had an outcome that nobody wrote down.
func (w *world) lost(r row) int {
	n := 0
	versions := w.history.rows[r.id]
	for i := 1; i < len(versions); i++ {
		if versions[i].state == machine.Leased && versions[i-1].state == machine.Leased {
			n++
		}
	}
	return n
}

// checkLedger holds what was sent against what was committed.
func (w *world) checkLedger(rows map[string]row) {
	totals := w.provider.Totals()
	if totals.BilledAgain != 0 {
		w.fail("%d items were billed again", totals.BilledAgain)
	}
	for entry := range w.provider.Entries() {
		it, ok := w.truth.committed[entry.Identifier]
		if !ok {
			w.fail("%s was sent, and nobody committed it", entry.Identifier)
			continue
		}
		if entry.Billed > 0 && (entry.Customer != it.Customer || entry.Meter != it.Meter || entry.Value != fmt.Sprint(it.Value)) {
			w.fail("item %s was billed as %s %s %s, need %s %s %d", it.Ref, entry.Customer, entry.Meter, entry.Value, it.Customer, it.Meter, it.Value)
		}
	}
	states := map[machine.State]int{}
	for _, r := range rows {
		states[r.state]++
	}
	w.journal.note("%d items committed, %d billed, %d requests: %v", len(w.truth.committed), totals.Billed, totals.Received, states)
}

// checkAudit has the relay that streams count for itself.
func (w *world) checkAudit(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for _, r := range w.relays {
		if !r.streams(ctx) {
			continue
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.listen+"/audit", nil)
		if err != nil {
			w.fail("harness: %w", err)
			return
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			w.fail("audit: %w", err)
			return
		}
		defer response.Body.Close()
		var finding struct{ Drift int64 }
		if err := json.NewDecoder(response.Body).Decode(&finding); err != nil || response.StatusCode != http.StatusOK || finding.Drift != 0 {
			w.fail("audit: %s, drift %d (%v)", response.Status, finding.Drift, err)
		}
		return
	}
}

// checkStop stops the relays in order. The last one leaves nothing leased and nothing that the server was not told.
func (w *world) checkStop(ctx context.Context) {
	for _, r := range w.relays {
		if err := r.stop(); err != nil {
			w.fail("stop relay %d: %w", r.index, err)
		}
	}
	if w.failed() {
		return
	}
	var leased int
	if err := w.db().QueryRow(ctx, `SELECT count(*) FROM weir.deliveries WHERE state = 'leased'`).Scan(&leased); err != nil || leased > 0 {
		w.fail("%d items are leased after the last relay stopped (%v)", leased, err)
	}
	if len(w.relays) > 1 {
		return // another one may have taken the slot over just now
	}
	var told bool
	err := w.db().QueryRow(ctx, `
SELECT s.confirmed_flush_lsn = c.lsn
  FROM pg_replication_slots s
  JOIN weir.checkpoints c ON c.slot = s.slot_name
 WHERE s.slot_name = $1`, w.slot()).Scan(&told)
	if err != nil || !told {
		w.fail("after the stop the server has not been told what the checkpoint has (%v)", err)
	}
}

// checkLogs looks for what must never be said.
func (w *world) checkLogs() {
	for _, r := range w.relays {
		text, err := os.ReadFile(filepath.Join(w.dir, filepath.Base(r.logFile.Name())))
		if err != nil {
			w.fail("harness: %w", err)
			continue
		}
		for _, word := range []string{"DATA RACE", "panic:", "fatal error:", "the exporter panicked", "is not weir's"} {
			if strings.Contains(string(text), word) {
				w.fail("relay %d said %q", r.index, word)
			}
		}
	}
}
