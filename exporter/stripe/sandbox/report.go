package sandbox

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// window gathers the asynchronous refusals of one meter until it closes and becomes an error report.
type window struct {
	meter *meter
	start time.Time
	total int
	kinds []*kindOfError // in order of first occurrence
}

type kindOfError struct {
	code    string
	count   int
	samples []sample
}

type sample struct{ message, identifier string }

// report puts a refused event into its meter's window. It needs mu.
func (w *world) report(m *meter, identifier string, p problem, now time.Time) {
	open := w.problems[m]
	if open == nil {
		open = &window{meter: m, start: now}
		w.problems[m] = open
	}
	open.total++
	var kind *kindOfError
	for _, k := range open.kinds {
		if k.code == p.code {
			kind = k
		}
	}
	if kind == nil {
		kind = &kindOfError{code: p.code}
		open.kinds = append(open.kinds, kind)
	}
	kind.count++
	if len(kind.samples) < w.cfg.ReportSamples {
		kind.samples = append(kind.samples, sample{p.message, strings.Clone(identifier)})
	}
}

// closeWindows turns the windows whose time is over (all of them if force) into thin events and posts them.
func (s *Sandbox) closeWindows(force bool) {
	now := s.Now()
	for _, w := range s.allWorlds() {
		w.mu.Lock()
		for m, open := range w.problems {
			if !force && now.Sub(open.start) < w.cfg.ReportInterval {
				continue
			}
			delete(w.problems, m)
			n := w.notice(open, now)
			w.notices = append(w.notices, n)
			s.courier.post(s.cfg.Webhooks, n, now)
		}
		w.mu.Unlock()
	}
}

// Event types that reports have.
const (
	typeErrorReport = "v1.billing.meter.error_report_triggered"
	typeNoMeter     = "v1.billing.meter.no_meter_found"
)

// reportData is the data of both event types.
type reportData struct {
	Summary string       `json:"developer_message_summary"`
	Reason  reportReason `json:"reason"`
	Start   string       `json:"validation_start"`
	End     string       `json:"validation_end"`
}

type reportReason struct {
	Count int           `json:"error_count"`
	Types []reportError `json:"error_types"`
}

type reportError struct {
	Code    string         `json:"code"`
	Count   int            `json:"error_count"`
	Samples []reportSample `json:"sample_errors"`
}

type reportSample struct {
	Message string        `json:"error_message"`
	Request reportRequest `json:"request"`
}

type reportRequest struct {
	Identifier string `json:"identifier"`
}

func (open *window) data(end time.Time) json.RawMessage {
	d := reportData{
		Summary: fmt.Sprintf("There is %d invalid event", open.total),
		Reason:  reportReason{Count: open.total},
		Start:   open.start.UTC().Format(timeV2),
		End:     end.UTC().Format(timeV2),
	}
	if open.total != 1 {
		d.Summary = fmt.Sprintf("There are %d invalid events", open.total)
	}
	for _, k := range open.kinds {
		e := reportError{Code: k.code, Count: k.count}
		for _, s := range k.samples {
			e.Samples = append(e.Samples, reportSample{s.message, reportRequest{s.identifier}})
		}
		d.Reason.Types = append(d.Reason.Types, e)
	}
	raw, err := json.Marshal(d)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return raw
}
