// Package model holds a formal model of the machine and its delivery protocol, in Promela, and the test that
// keeps it running. README.md explains it.
package model
