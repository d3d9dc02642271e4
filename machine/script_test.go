package machine

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// script is one transcript being replayed.
type script struct {
	*fixture
	policy Policy
	ids    map[string]int64 // by the items' names
	held   map[string]Item  // last claims, by worker and name
}

func (s *script) setPolicy(t *testing.T, words []string) {
	t.Helper()
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		d, err := time.ParseDuration(value)
		switch name {
		case "attempts":
			s.policy.Attempts, err = strconv.Atoi(value)
		case "horizon":
			s.policy.Horizon = d
		case "lease":
			s.policy.Lease = d
		default:
			err = fmt.Errorf("unknown field")
		}
		if err != nil {
			t.Fatalf("policy %s: %v", word, err)
		}
	}
}

// run performs one command. Its words are said with each case.
func (s *script) run(command string, words []string) (string, error) {
	word := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	ctx := s.Context()
	switch command {
	case "enqueue": // ITEM [MAPPING]
		s.ids[word(0)] = s.stage(s.pool, intent{ref: word(0), mapping: word(1)})
		return s.show(word(0))
	case "stage": // ITEM REASON
		s.ids[word(0)] = s.stage(s.pool, intent{ref: word(0), quarantine: word(1)})
		return s.show(word(0))
	case "claim": // WORKER ITEM…
		ids := make([]int64, len(words)-1)
		for i, name := range words[1:] {
			ids[i] = s.ids[name]
		}
		return s.took(word(0))(s.Claim(ctx, Claimer{Exporter: "stripe", Owner: word(0)}, ids))
	case "sweep": // WORKER LIMIT
		limit, err := strconv.Atoi(word(1))
		if err != nil {
			return "", err
		}
		return s.took(word(0))(s.Sweep(ctx, Claimer{Exporter: "stripe", Owner: word(0)}, 0, limit))
	case "pass": // DURATION ITEM…
		d, err := time.ParseDuration(word(0))
		if err != nil {
			return "", err
		}
		for _, name := range words[1:] {
			s.pass(s.ids[name], d)
		}
		return "", nil
	case "accept", "retry", "doubt", "reject", "quarantine": // WORKER ITEM …
		item, ok := s.held[word(0)+" "+word(1)]
		if !ok {
			return "", errors.New("that worker never held it")
		}
		return s.settle(command, item, word(2), word(3))
	case "recover": // EVENT ITEM TOKEN
		token, err := strconv.ParseInt(word(2), 10, 64)
		if err != nil {
			return "", err
		}
		return s.told(word(1), s.Recover(ctx, Ref{s.ids[word(1)], token}, Event("recover-"+word(0)), operator))
	case "requeue": // ITEM MAPPING
		return s.told(word(0), s.Requeue(ctx, s.ids[word(0)], word(1), operator))
	case "abandon": // ITEM EXPECTED
		return s.told(word(0), s.Abandon(ctx, s.ids[word(0)], State(word(1)), operator))
	case "confirm": // ITEM
		return s.wrote(Confirmed)(s.Confirm(ctx, []int64{s.ids[word(0)]}))
	case "report": // ITEM CODE
		return s.wrote(Rejected)(s.Report(ctx, []Refusal{{s.identity(s.ids[word(0)]), Cause{Code: word(1)}}}))
	case "remove": // KEEP [accepted]
		keep, err := time.ParseDuration(word(0))
		if err != nil {
			return "", err
		}
		n, err := s.Remove(ctx, Retention{Keep: keep, Accepted: word(1) == "accepted"}, 0, 1000)
		return fmt.Sprintf("%d removed", n), err
	case "show": // ITEM
		return s.show(word(0))
	case "operations":
		return strings.Join(s.operations(), "; "), nil
	}
	return "", errors.New("no such command")
}

func (s *script) settle(event string, item Item, word, cost string) (string, error) {
	ctx, cause := s.Context(), Cause{Code: word}
	switch event {
	case "accept": // [REF]
		return s.wrote(Accepted)(s.Accept(ctx, []Acceptance{{item.Ref(), word}}))
	case "doubt": // CODE
		return s.wrote(Uncertain)(s.Doubt(ctx, []Failure{{item.Ref(), cause}}))
	case "reject": // CODE
		return s.wrote(Rejected)(s.Reject(ctx, []Failure{{item.Ref(), cause}}))
	case "quarantine": // REASON
		return s.wrote(Quarantined)(s.Quarantine(ctx, []Hold{{item.Ref(), cause, item.FirstAttempt}}))
	}
	delay, err := time.ParseDuration(word) // DELAY [COST]
	if err != nil {
		return "", err
	}
	p := Postponement{Ref: item.Ref(), Cause: Cause{Code: "http_503"}, Delay: delay, First: item.FirstAttempt}
	p.Cost = map[string]Cost{"": Counted, "waived": Waived, "unsent": Unsent}[cost]
	left, err := s.Retry(ctx, []Postponement{p})
	if err != nil || len(left) == 0 {
		return "stale", err
	}
	return string(left[0].State), nil
}

// took remembers a worker's claims and says what it may do with them.
func (s *script) took(worker string) func([]Item, error) (string, error) {
	return func(items []Item, err error) (string, error) {
		if err != nil || len(items) == 0 {
			return "nothing", err
		}
		var all []string
		for _, it := range items {
			s.held[worker+" "+it.SubjectRef] = it
			line := fmt.Sprintf("%s token %d attempt %d", it.SubjectRef, it.Token, it.Attempts)
			if it.FirstAttempt {
				line += " first"
			}
			if why := it.Exhausted(s.policy); why != "" {
				line += " exhausted by " + why
			}
			all = append(all, line)
		}
		return strings.Join(all, ", "), nil
	}
}

func (s *script) wrote(state State) func([]int64, error) (string, error) {
	return func(ids []int64, err error) (string, error) {
		if err != nil || len(ids) == 0 {
			return "stale", err
		}
		return string(state), nil
	}
}

func (s *script) told(name string, err error) (string, error) {
	var mismatch *StateMismatchError
	switch {
	case err == nil:
		return s.show(name)
	case errors.Is(err, ErrMappingChanged):
		return "mapping changed", nil
	case errors.Is(err, ErrNotFound):
		return "not found", nil
	case errors.As(err, &mismatch):
		line := fmt.Sprintf("mismatch: %s token %d", mismatch.Current, mismatch.Token)
		if mismatch.Abandoned {
			line += " abandoned"
		}
		return line, nil
	}
	return "", err
}

// show says where an item stands, and what of its row matters there.
func (s *script) show(name string) (string, error) {
	var there bool
	err := s.pool.QueryRow(s.Context(), `SELECT true FROM weir.items WHERE id = $1`, s.ids[name]).Scan(&there)
	if errors.Is(err, pgx.ErrNoRows) {
		return "gone", nil
	}
	sights, lookErr := s.Look(s.Context(), []int64{s.ids[name]})
	if err := errors.Join(err, lookErr); err != nil {
		return "", err
	}
	d := s.row(s.ids[name])
	line := fmt.Sprintf("%s token %d attempts %d", d.State, d.Token, d.Attempts)
	if d.From != None {
		line = fmt.Sprintf("%s from %s token %d attempts %d", d.State, d.From, d.Token, d.Attempts)
	}
	// Rounded up, so that a slow machine answers the same.
	if due := sights[0].DueIn; d.State.Open() && due > 0 {
		line += " due in " + (due + 5*time.Second - 1).Truncate(5*time.Second).String()
	}
	for _, note := range []struct {
		there bool
		text  string
	}{
		{d.FirstAttemptAt != nil, "horizon runs"},
		{d.Owner != "", "by " + d.Owner},
		{d.ProviderRef != "", "ref " + d.ProviderRef},
		{d.Reason != "", "reason " + d.Reason},
		{d.LastError != "", "error " + d.LastError},
		{d.AbandonedAt != nil, "abandoned by " + d.AbandonedBy + ": " + d.AbandonedReason},
	} {
		if note.there {
			line += ", " + note.text
		}
	}
	return line, nil
}
