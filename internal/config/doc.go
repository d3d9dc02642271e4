// Package config reads weir's settings: one YAML file, WEIR_* variables and flags.
//
// A setting is identified by its path, such as policy.lease. The structs in config.go are authoritative for
// which paths there are: their tags hold key, default and allowed words, their comments are the reference
// that Reference prints.
//
//	default ──▶ file ──▶ environment ──▶ flag ──▶ Config, and an Origin for each path
//	              │           │            │
//	              └───────────┴────────────┴──▶ unknown or unreadable: an *Error naming place and path
//
// # Invariants
//
//   - What is written later in the diagram wins.
//   - No key, variable or value is ignored: what isn't understood is an error that says what is.
//   - A secret leaves the package by Reveal only; printing and logging show it redacted.
//   - Load touches nothing but the file: whether a server or a key works is for weir doctor to find out.
//
// # Failure
//
// All problems are reported together, each with its place, so that one look is enough to mend them.
package config
