package replication

import (
	"errors"
	"fmt"
)

// DecodeError is a message that can't be read as what it should be. It ends the stream, inside a
// *PermanentError; nothing is skipped. Test with errors.As.
type DecodeError struct {
	Message string // the pgoutput message
	Field   string // the part of it
	Need    string
	Got     string
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("pgoutput %s: %s: need %s, got %s", e.Message, e.Field, e.Need, e.Got)
}

// PermanentError is one that trying again doesn't mend: credentials, privileges, configuration, a message
// that can't be decoded. Run returns no other kind. Test with errors.As.
//
// Weir delivers without the doorbell, by sweeping, so whoever called Run decides: refuse to start (a wrong
// password is a mistake of the person who is watching right now), or go on without it, loudly, and call
// Run again from time to time. Calling Run again is always allowed; it is also what gives up a slot that
// has come to retain more than the fuse allows while nobody streams.
type PermanentError struct {
	Err  error
	Hint string // what to do next
}

func (e *PermanentError) Error() string {
	return fmt.Sprintf("replication: %v: %s", e.Err, e.Hint)
}

func (e *PermanentError) Unwrap() error { return e.Err }

func permanent(err error, hint string) error { return &PermanentError{Err: err, Hint: hint} }

// ErrActive says that somebody else streams from the slot. Drop and Create answer it; Run waits instead.
// Test with errors.Is.
var ErrActive = errors.New("the slot is in use")

// Why a session ended. Each leads to another one.
var (
	errSilent   = errors.New("nothing heard from the server although it owes replies")
	errStopping = errors.New("the server waits for this stream to end, since it shuts down")
	errEnded    = errors.New("the server ended the stream")
	errLedger   = errors.New("ledger")
	// Postgres 18 and newer skip a publication that they can't see, and only warn: the changes would be missed.
	errUnpublished = errors.New("the server skips the publication")
	errFuse        = errors.New("the slot retains more write-ahead log than the fuse allows")
)
