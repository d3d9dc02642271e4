package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	sdk "github.com/stripe/stripe-go/v82"

	"github.com/weir-relay/weir/machine"
)

// The types of the events by which Stripe reports that events which it had accepted failed afterwards.
const (
	ErrorReportType = "v1.billing.meter.error_report_triggered"
	NoMeterType     = "v1.billing.meter.no_meter_found"
)

// Notice is a thin event, as a webhook brings it: it says that something happened, not what.
type Notice struct {
	ID   string
	Type string
	Live bool
}

// Reports says whether the notice is of an error report.
func (n Notice) Reports() bool { return n.Type == ErrorReportType || n.Type == NoMeterType }

// ErrUnsigned says that a notice isn't Stripe's: its signature is missing, wrong, or too old. Test with errors.Is.
var ErrUnsigned = errors.New("stripe: the signature doesn't prove that Stripe sent this")

// ReadNotice reads a thin event and checks its signature against the secret of the event destination, whsec_….
func (e *Exporter) ReadNotice(payload []byte, signature, secret string) (Notice, error) {
	if secret == "" {
		return Notice{}, errors.New("stripe: read event: no secret is configured to check it against")
	}
	thin, err := e.client.ParseThinEvent(payload, signature, secret)
	switch {
	case errors.Is(err, sdk.ErrWebhookNotSigned), errors.Is(err, sdk.ErrWebhookInvalidHeader), errors.Is(err, sdk.ErrWebhookNoValidSignature), errors.Is(err, sdk.ErrWebhookTooOld):
		return Notice{}, fmt.Errorf("%w: %s", ErrUnsigned, clean(err.Error()))
	case err != nil:
		return Notice{}, fmt.Errorf("stripe: read event: %s", clean(err.Error()))
	case thin.ID == "" || thin.Type == "":
		return Notice{}, errors.New("stripe: read event: it has no id, or no type")
	}
	return Notice{thin.ID, thin.Type, thin.Livemode}, nil
}

// ErrorReport says which events failed after Stripe had accepted them.
type ErrorReport struct {
	ID       string // of the event that brought it
	Type     string
	Live     bool
	Meter    string    // the meter's id, "" where it has none
	From, To time.Time // when Stripe looked at them; zero where it doesn't say
	Summary  string
	Errors   []ReportedError
}

// ReportedError is the events that failed for one reason. Stripe names some of them only.
type ReportedError struct {
	Code    string
	Message string // of the first sample
	Count   int64
	Named   [][32]byte // identities of items
	Foreign int        // samples that name no item
}

// noticeBody is an event with its data. The SDK's own reading of it panics where a field is null, so every part that may
// be missing is a pointer here.
type noticeBody struct {
	sdk.APIResource
	ID      string `json:"id"`
	Type    string `json:"type"`
	Live    bool   `json:"livemode"`
	Related *struct {
		ID string `json:"id"`
	} `json:"related_object"`
	Data *noticeData `json:"data"`
}

type noticeData struct {
	Summary string     `json:"developer_message_summary"`
	Start   *time.Time `json:"validation_start"`
	End     *time.Time `json:"validation_end"`
	Reason  *struct {
		Count json.Number   `json:"error_count"`
		Types []*noticeKind `json:"error_types"`
	} `json:"reason"`
}

type noticeKind struct {
	Code    string          `json:"code"`
	Count   json.Number     `json:"error_count"`
	Samples []*noticeSample `json:"sample_errors"`
}

type noticeSample struct {
	Message string `json:"error_message"`
	Request *struct {
		Identifier     string `json:"identifier"`
		IdempotencyKey string `json:"idempotency_key"` // in older versions
	} `json:"request"`
}

// ErrorReport asks for an event and reads it. Where Stripe refuses, the error is a *RefusedError.
func (e *Exporter) ErrorReport(ctx context.Context, id string) (*ErrorReport, error) {
	var body noticeBody
	if err := e.getV2(ctx, "read event "+id, sdk.FormatURLPath("/v2/core/events/%s", id), &body); err != nil {
		return nil, err
	}
	if body.ID != id {
		return nil, fmt.Errorf("stripe: read event %s: the answer is event %q", id, clip([]byte(body.ID)))
	}
	return body.report(), nil
}

// noticePage is a page of events, the latest first.
type noticePage struct {
	sdk.APIResource
	Data []noticeBody `json:"data"`
	Next *string      `json:"next_page_url"`
}

// ErrorReports asks for the error reports of a meter, the latest first, and hands each page to do, until do answers false
// or so many pages have been read. It answers how many that were. Reports of events without a meter can't be asked for.
func (e *Exporter) ErrorReports(ctx context.Context, meter string, pages int, do func([]*ErrorReport) (more bool, err error)) (read int, err error) {
	path := "/v2/core/events?" + url.Values{"object_id": {meter}, "limit": {"100"}}.Encode()
	for path != "" && read < pages {
		var page noticePage
		read++
		if err := e.getV2(ctx, "list events of meter "+meter, path, &page); err != nil {
			return read, err
		}
		path = ""
		if page.Next != nil {
			path = *page.Next
		}
		var reports []*ErrorReport
		for i := range page.Data {
			n := Notice{page.Data[i].ID, page.Data[i].Type, page.Data[i].Live}
			if n.Reports() && n.ID != "" {
				reports = append(reports, page.Data[i].report())
			}
		}
		if more, err := do(reports); err != nil || !more {
			return read, err
		}
	}
	return read, nil
}

// getV2 makes a GET of the API's second version. The SDK's errors of that tell no status: the HTTP layer does.
func (e *Exporter) getV2(ctx context.Context, step, path string, into sdk.LastResponseSetter) (err error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	ctx, call := observe(ctx)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("stripe: %s: panic in the SDK: %s", step, clean(fmt.Sprint(p)))
		}
	}()
	params := &sdk.V2CoreEventRetrieveParams{}
	params.Context = ctx
	if e.cfg.Connect {
		params.SetStripeAccount(e.cfg.Account)
	}
	service := e.client.V2CoreEvents
	err = service.B.Call(http.MethodGet, path, service.Key, params, into)
	if err != nil && call.status >= 400 {
		return fmt.Errorf("%s: %w", step, &RefusedError{call.status, clean(err.Error())})
	}
	if err != nil {
		return asked(step, err)
	}
	return nil
}

// report reads what there is; what is missing stays empty.
func (n *noticeBody) report() *ErrorReport {
	r := &ErrorReport{ID: n.ID, Type: n.Type, Live: n.Live}
	if n.Related != nil {
		r.Meter = n.Related.ID
	}
	if n.Data == nil {
		return r
	}
	r.Summary = clean(n.Data.Summary)
	if n.Data.Start != nil {
		r.From = *n.Data.Start
	}
	if n.Data.End != nil {
		r.To = *n.Data.End
	}
	if n.Data.Reason == nil {
		return r
	}
	rest := integer(n.Data.Reason.Count)
	for _, k := range n.Data.Reason.Types {
		if k != nil {
			kind := k.read()
			rest -= kind.Count
			r.Errors = append(r.Errors, kind)
		}
	}
	if rest > 0 {
		r.Errors = append(r.Errors, ReportedError{Code: "unknown", Count: rest})
	}
	return r
}

func (k *noticeKind) read() ReportedError {
	out := ReportedError{Code: slug(k.Code), Count: integer(k.Count)}
	if out.Code == "" {
		out.Code = "unknown"
	}
	for _, s := range k.Samples {
		if s == nil {
			continue
		}
		if out.Message == "" {
			out.Message = clean(s.Message)
		}
		identity, ours := [32]byte{}, false
		if s.Request != nil {
			if identity, ours = named(s.Request.Identifier); !ours {
				identity, ours = named(s.Request.IdempotencyKey)
			}
		}
		if ours {
			out.Named = append(out.Named, identity)
		} else {
			out.Foreign++
		}
	}
	return out
}

// named is the identity behind an identifier, or behind an Idempotency-Key, which begins with one: Stripe's
// documentation doesn't say which of the two a report names.
func named(text string) (identity [32]byte, ours bool) {
	identifier, _, _ := strings.Cut(text, "-")
	return machine.ParseIdentifier(identifier)
}

func integer(n json.Number) int64 {
	i, err := n.Int64()
	if err != nil {
		return 0
	}
	return max(i, 0)
}
