// Package conformance keeps the stand-in of package sandbox from drifting into fiction: its tests hold it against
// stripe-mock, which Stripe makes from the OpenAPI description of its own API.
//
// stripe-mock is authoritative for shapes: paths, parameters, status codes, keys and JSON types of what it shares with
// the stand-in. It knows no behaviour: nothing is stored, no identifier is recognised, and it has no v2 endpoint of
// meters. For those the stand-in follows Stripe's documentation and reports of its users.
//
//	exporter ──▶ stripe-mock   every request fits the description
//	exporter ──▶ stand-in      and is answered the same way
//	request  ──▶ both          status, keys and types agree
//
// # Failure
//
// The tests install stripe-mock with go install, at a fixed version. Where that can't be had, as on a machine without
// a network, they are skipped, and say why. WEIR_TEST_STRIPE_MOCK names a program that is there already.
package conformance
