package machine

// Cost says what a failed attempt counts for.
type Cost uint8

const (
	// Counted: the attempt counts towards the policy's Attempts.
	Counted Cost = iota
	// Waived: the attempt doesn't count, since its failure says nothing about the item: an outage of the
	// provider, or its wish for fewer calls. The horizon runs all the same, since the item may have arrived.
	Waived
	// Unsent: the request provably never reached the provider, or was refused before it was looked at. The
	// claim is undone: the attempt doesn't count, and the horizon doesn't start with it.
	Unsent
)
