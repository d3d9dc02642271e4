package sandbox

import "fmt"

// Phase is when a problem with an event comes to light.
type Phase string

const (
	// Sync refuses the request with a 400.
	Sync Phase = "sync"
	// Async answers 200 and names the event in a later error report, or doesn't name it: reports hold samples.
	Async Phase = "async"
)

// StreamDuplicates is what becomes of an identifier that the stream has already accepted.
type StreamDuplicates string

const (
	// DropSilently keeps the first event and says nothing.
	DropSilently StreamDuplicates = "drop"
	// ReportDuplicates keeps the first event and names the second in an error report.
	ReportDuplicates StreamDuplicates = "report"
	// BillDuplicates counts both: the worst case that a client can be tested against.
	BillDuplicates StreamDuplicates = "bill"
)

// Behaviour holds one switch for each point on which Stripe's documentation is silent or contradicts itself.
// It concerns the single-event endpoints; the stream validates everything asynchronously.
type Behaviour struct {
	UnknownCustomer  Phase `json:"unknown_customer,omitempty"`  // Defaults to Async.
	ArchivedMeter    Phase `json:"archived_meter,omitempty"`    // Defaults to Sync.
	UnknownMeter     Phase `json:"unknown_meter,omitempty"`     // Defaults to Sync.
	InvalidValue     Phase `json:"invalid_value,omitempty"`     // Defaults to Sync.
	MissingKeys      Phase `json:"missing_keys,omitempty"`      // Customer or value key absent. Defaults to Sync.
	TimestampTooOld  Phase `json:"timestamp_too_old,omitempty"` // Defaults to Sync.
	TimestampTooNew  Phase `json:"timestamp_too_new,omitempty"` // Defaults to Sync.
	MaxDigits        int   `json:"max_digits,omitempty"`        // Significant digits in a value. Defaults to 15; negative: no limit.
	WholeNumbersOnly bool  `json:"whole_numbers_only,omitempty"`

	// ReuseCancelled lets the identifier of a cancelled event be used again inside the uniqueness window.
	ReuseCancelled bool `json:"reuse_cancelled,omitempty"`

	// StreamDuplicates defaults to DropSilently.
	StreamDuplicates StreamDuplicates `json:"stream_duplicates,omitempty"`

	// StreamRejectsBatch refuses a whole batch for one malformed event, instead of that event alone and afterwards.
	StreamRejectsBatch bool `json:"stream_rejects_batch,omitempty"`

	// StreamIdempotency makes the stream honour Idempotency-Key.
	StreamIdempotency bool `json:"stream_idempotency,omitempty"`

	// StreamLiveOnly refuses stream sessions made with a test key.
	StreamLiveOnly bool `json:"stream_live_only,omitempty"`
}

func (b Behaviour) withDefaults() Behaviour {
	b.UnknownCustomer = orPhase(b.UnknownCustomer, Async)
	for _, p := range []*Phase{&b.ArchivedMeter, &b.UnknownMeter, &b.InvalidValue, &b.MissingKeys, &b.TimestampTooOld, &b.TimestampTooNew} {
		*p = orPhase(*p, Sync)
	}
	if b.MaxDigits == 0 {
		b.MaxDigits = 15
	}
	if b.StreamDuplicates == "" {
		b.StreamDuplicates = DropSilently
	}
	return b
}

func orPhase(p, fallback Phase) Phase {
	if p == "" {
		return fallback
	}
	return p
}

func (b Behaviour) validate() error {
	for _, p := range []Phase{b.UnknownCustomer, b.ArchivedMeter, b.UnknownMeter, b.InvalidValue, b.MissingKeys, b.TimestampTooOld, b.TimestampTooNew} {
		if p != "" && p != Sync && p != Async {
			return fmt.Errorf("behaviour: phase %q: need %q or %q", p, Sync, Async)
		}
	}
	switch b.StreamDuplicates {
	case "", DropSilently, ReportDuplicates, BillDuplicates:
		return nil
	}
	return fmt.Errorf("behaviour: stream duplicates %q: need %q, %q or %q", b.StreamDuplicates, DropSilently, ReportDuplicates, BillDuplicates)
}

// phase says in which phase the single-event endpoints find the problem.
func (b Behaviour) phase(code string) Phase {
	switch code {
	case codeCustomerNotFound:
		return b.UnknownCustomer
	case codeArchivedMeter:
		return b.ArchivedMeter
	case codeNoMeter:
		return b.UnknownMeter
	case codeInvalidValue, codeTooManyDigits:
		return b.InvalidValue
	case codeNoCustomer, codeNoValue:
		return b.MissingKeys
	case codeTooOld:
		return b.TimestampTooOld
	case codeTooNew:
		return b.TimestampTooNew
	}
	return Sync
}
