package sandbox

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Values of "type" in an error body.
const (
	typeInvalidRequest = "invalid_request_error"
	typeIdempotency    = "idempotency_error"
	typeAPI            = "api_error"
	typeSessionExpired = "temporary_session_expired"
)

// Codes of a refused event. Most exist only in error reports and in v2 bodies; v1 bodies seldom carry a code.
const (
	codeArchivedMeter    = "archived_meter"
	codeNoMeter          = "no_meter"
	codeCustomerNotFound = "meter_event_customer_not_found"
	codeNoCustomer       = "meter_event_no_customer_defined"
	codeNoValue          = "meter_event_value_not_found"
	codeInvalidValue     = "meter_event_invalid_value"
	codeTooManyDigits    = "meter_event_value_too_many_digits"
	codeTooOld           = "timestamp_too_far_in_past"
	codeTooNew           = "timestamp_in_future"
	codeDuplicate        = "duplicate_meter_event"
)

// apiError is an answer that refuses.
type apiError struct {
	status  int
	kind    string // "type" in the body; empty leaves it out
	code    string
	message string
	param   string

	reason      string        // Stripe-Rate-Limited-Reason
	retryAfter  time.Duration // Retry-After; zero leaves it out
	shouldRetry string        // Stripe-Should-Retry; empty leaves it out

	// validation marks refusals that come before execution: Stripe doesn't keep them under the Idempotency-Key.
	validation bool
}

func (e *apiError) Error() string { return strconv.Itoa(e.status) + " " + e.message }

func (e *apiError) answer() answer {
	b := append(make([]byte, 0, 256), `{"error":{`...)
	if e.code != "" {
		b = append(appendField(b, "code", e.code), ',')
		b = append(appendField(b, "doc_url", "https://stripe.com/docs/error-codes/"+dashed(e.code)), ',')
	}
	b = appendField(b, "message", e.message)
	if e.param != "" {
		b = appendField(append(b, ','), "param", e.param)
	}
	if e.kind != "" {
		b = appendField(append(b, ','), "type", e.kind)
	}
	return answer{
		status: e.status, body: append(b, '}', '}'), keep: !e.validation,
		reason: e.reason, retryAfter: e.retryAfter, shouldRetry: e.shouldRetry,
	}
}

// errInvalid refuses a parameter.
func errInvalid(param, code, format string, args ...any) *apiError {
	return &apiError{
		status: http.StatusBadRequest, kind: typeInvalidRequest, code: code, param: param,
		message: fmt.Sprintf(format, args...), shouldRetry: "false", validation: true,
	}
}

func errMissing(param string) *apiError {
	return errInvalid(param, "parameter_missing", "Missing required param: %s.", param)
}

func errUnknownParam(param string) *apiError {
	return errInvalid(param, "parameter_unknown", "Received unknown parameter: %s", param)
}

// errRefused refuses an event during execution. v1 bodies carry no code then.
func errRefused(format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, kind: typeInvalidRequest, message: fmt.Sprintf(format, args...), shouldRetry: "false"}
}

func errDuplicate(identifier string) *apiError {
	return errRefused("An event already exists with identifier %s.", identifier)
}

func errNotFound(object, id, param string) *apiError {
	return &apiError{
		status: http.StatusNotFound, kind: typeInvalidRequest, code: "resource_missing", param: param,
		message: fmt.Sprintf("No such %s: '%s'", object, id), shouldRetry: "false", validation: true,
	}
}

func errUnknownURL(r *http.Request) *apiError {
	return &apiError{
		status: http.StatusNotFound, kind: typeInvalidRequest, shouldRetry: "false", validation: true,
		message: fmt.Sprintf("Unrecognized request URL (%s: %s). The sandbox serves Stripe's metering endpoints only.", r.Method, r.URL.Path),
	}
}

func errNoKey() *apiError {
	return &apiError{
		status: http.StatusUnauthorized, kind: typeInvalidRequest, shouldRetry: "false", validation: true,
		message: "You did not provide an API key. You need to provide your API key in the Authorization header, " +
			"using Bearer auth (e.g. 'Authorization: Bearer YOUR_SECRET_KEY').",
	}
}

func errBadKey(secret string) *apiError {
	return &apiError{
		status: http.StatusUnauthorized, kind: typeInvalidRequest, shouldRetry: "false", validation: true,
		message: "Invalid API Key provided: " + redact(secret),
	}
}

func errForbidden(secret string) *apiError {
	return &apiError{
		status: http.StatusForbidden, kind: typeInvalidRequest, shouldRetry: "false", validation: true,
		message: fmt.Sprintf("The provided key '%s' does not have the required permissions for this endpoint.", redact(secret)),
	}
}

func errNoAccess(secret, account string) *apiError {
	return &apiError{
		status: http.StatusForbidden, kind: typeInvalidRequest, code: "account_invalid", shouldRetry: "false", validation: true,
		message: fmt.Sprintf("The provided key '%s' does not have access to account '%s' (or that account does not exist). "+
			"Application access may have been revoked.", redact(secret), account),
	}
}

func errInternal() *apiError {
	return &apiError{
		status: http.StatusInternalServerError, kind: typeAPI,
		message: "An error occurred internally with this request. It is not known whether it took effect.",
	}
}

func errRateLimit(reason string, retryAfter time.Duration) *apiError {
	return &apiError{
		status: http.StatusTooManyRequests, kind: typeInvalidRequest, code: "rate_limit", validation: true,
		reason: reason, retryAfter: retryAfter,
		message: "Request rate limit exceeded. You can learn more about rate limits here https://stripe.com/docs/rate-limits.",
	}
}

func errLockTimeout() *apiError {
	return &apiError{
		status: http.StatusTooManyRequests, kind: typeInvalidRequest, code: "lock_timeout", shouldRetry: "true", validation: true,
		message: "This object cannot be accessed right now because another API request or Stripe process is currently accessing it.",
	}
}

func errConflict(version int) *apiError {
	e := &apiError{
		status: http.StatusConflict, kind: typeInvalidRequest, shouldRetry: "true", validation: true,
		message: "Too many concurrent requests for this customer and meter. Send one at a time.",
	}
	if version == 2 {
		e.code = "too_many_concurrent_requests"
	}
	return e
}

func errKeyInUse(key string) *apiError {
	return &apiError{
		status: http.StatusConflict, kind: typeIdempotency, code: "idempotency_key_in_use", shouldRetry: "true", validation: true,
		message: "There is currently another in-progress request using this Idempotent Key: " + key + ". Please try again later.",
	}
}

func errKeyMismatch(key string) *apiError {
	return &apiError{
		status: http.StatusBadRequest, kind: typeIdempotency, shouldRetry: "false", validation: true,
		message: fmt.Sprintf("Keys for idempotent requests can only be used with the same parameters they were first used with. "+
			"Try using a key other than '%s' if you meant to execute a different request.", key),
	}
}
