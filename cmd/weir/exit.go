package main

import (
	"errors"
	"fmt"

	"github.com/weir-relay/weir/internal/config"
)

// The exit codes, as weir help says them.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 2
	exitFindings = 3
)

// usageError is a mistake on the command line that shows only while the command runs.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// findingsError ends a command that has done its work and has already told what it found.
type findingsError struct{ count int }

func (e *findingsError) Error() string { return fmt.Sprintf("%d findings", e.count) }

// findings is the error of n findings, nil for none.
func findings(n int) error {
	if n == 0 {
		return nil
	}
	return &findingsError{n}
}

// exitCode is what err means to the shell.
func (a *app) exitCode(err error) int {
	var usage usageError
	var setting *config.Error
	var found *findingsError
	switch {
	case !a.began, errors.As(err, &usage), errors.As(err, &setting):
		return exitUsage
	case errors.As(err, &found):
		return exitFindings
	}
	return exitFailed
}
