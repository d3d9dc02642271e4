package checkpoint

import (
	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/replication"
)

// trailLength bounds the steps that are kept for audits. The position of a temporary slot is known some
// milliseconds after the log has passed it.
const trailLength = 1 << 18

// trail answers which counts a position had, also when the stream is past it already: while an audit
// runs, it keeps the last steps, which can be taken back. The Book's mutex guards it.
type trail struct {
	audits int    // that run; 0: nothing is kept
	limit  int    // of steps
	steps  []step // in the log's order
	cutAt  replication.LSN
	marks  []mark // positions that the stream has yet to reach
}

// step is what one transaction changed in one count.
type step struct {
	end      replication.LSN
	exporter string
	state    machine.State
	n        int64
}

// mark is a question that waits for the stream.
type mark struct {
	at     replication.LSN
	answer chan machine.Counts
}

// add keeps a step.
func (t *trail) add(s step) {
	if t.audits == 0 {
		return
	}
	if len(t.steps) == t.limit {
		half := len(t.steps) / 2
		t.cutAt = t.steps[half-1].end
		t.steps = append(t.steps[:0], t.steps[half:]...)
	}
	t.steps = append(t.steps, s)
}

// before answers the marks that lie before next, when the counts are about to be those at next.
func (t *trail) before(next replication.LSN, counts machine.Counts) {
	kept := t.marks[:0]
	for _, m := range t.marks {
		if m.at < next {
			m.answer <- counts.Clone()
		} else {
			kept = append(kept, m)
		}
	}
	t.marks = kept
}

// ask answers the counts at a position, now or once the stream has reached it. now is the position of
// counts. The channel is closed where the position is older than the trail.
func (t *trail) ask(at, now replication.LSN, counts machine.Counts) <-chan machine.Counts {
	answer := make(chan machine.Counts, 1)
	switch {
	case at > now:
		t.marks = append(t.marks, mark{at, answer})
	case at < t.cutAt:
		close(answer)
	default:
		then := counts.Clone()
		for _, s := range t.steps {
			if s.end > at {
				then.Add(s.exporter, s.state, -s.n)
			}
		}
		answer <- then
	}
	return answer
}

// cut forgets what was before at: no question can be answered across it.
func (t *trail) cut(at replication.LSN) {
	for _, m := range t.marks {
		close(m.answer)
	}
	t.marks, t.steps, t.cutAt = nil, nil, at
}
