package sandbox

import "net/http"

// codeV2 is the code of the v2 single-event endpoint for problems that reports call otherwise.
func codeV2(code string) string {
	switch code {
	case codeInvalidValue, codeTooManyDigits:
		return "payload_invalid_value"
	case codeNoCustomer:
		return "payload_no_customer_defined"
	case codeNoValue:
		return "payload_no_value_defined"
	}
	return code
}

func (p problem) refuseV2() *apiError {
	return &apiError{status: http.StatusBadRequest, code: codeV2(p.code), message: p.message, shouldRetry: "false"}
}

func errDuplicateV2() *apiError {
	return &apiError{
		status: http.StatusBadRequest, code: codeDuplicate, shouldRetry: "false",
		message: "A meter event with a duplicate identifier has already been submitted.",
	}
}
