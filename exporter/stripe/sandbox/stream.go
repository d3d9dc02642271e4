package sandbox

import "time"

// createStream serves POST /v2/billing/meter_event_stream: 200 and {} for every well-formed batch. What is wrong with
// an event appears in an error report, if it becomes one of the samples.
func createStream(c *call) answer {
	w, now := c.world, c.sandbox.Now()
	if w.cfg.Behaviour.StreamRejectsBatch {
		for i := range c.events {
			if err := c.events[i].checkShape(); err != nil {
				return err.answer()
			}
		}
	}
	w.mu.Lock()
	for i := range c.events {
		w.stream(&c.events[i], c.arrived, now)
	}
	w.mu.Unlock()
	return object(struct{}{})
}

// stream takes one event of a batch. It needs mu.
func (w *world) stream(in *incoming, arrived, now time.Time) {
	if err := in.checkShape(); err != nil {
		w.drop(in, problem{codeInvalidValue, err.message, err.param}, now)
		return
	}
	if w.taken(in.identifier, now) {
		switch w.cfg.Behaviour.StreamDuplicates {
		case DropSilently:
			return
		case ReportDuplicates:
			w.drop(in, problem{codeDuplicate, "A meter event with a duplicate identifier has already been submitted.", "identifier"}, now)
			return
		}
	}
	c := w.check(in, now)
	w.accept(&c, arrived, now)
}

// drop reports an event that can't even be kept: it is malformed, or its identifier is another's. It needs mu.
func (w *world) drop(in *incoming, p problem, now time.Time) {
	m := w.byName[in.eventName]
	if m == nil {
		m = w.stray(in.eventName)
	}
	w.report(m, in.identifier, p, now)
}
