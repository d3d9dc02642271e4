package config

import (
	"regexp"
	"slices"
	"strings"
)

const (
	prefix       = "WEIR_"
	fileVariable = "WEIR_CONFIG" // the file to read
)

// ignored reports whether a WEIR_ variable is meant for something else than the settings.
func ignored(name string) bool {
	return strings.HasPrefix(name, "WEIR_TEST_") || // package pgtest
		name == "WEIR_POSTGRES_BIN" || // package postgres
		serviceLink.MatchString(name)
}

// serviceLink recognises what Kubernetes puts into every container for a Service called weir or weir-….
var serviceLink = regexp.MustCompile(`_SERVICE_(HOST|PORT)|_PORT(_\d+_(TCP|UDP|SCTP).*)?$`)

// environment picks out the WEIR_ variables that are set. An empty one is as good as unset: that is what
// container tools make of a variable that isn't there.
func environment(env []string) map[string]string {
	out := map[string]string{}
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, prefix) && !ignored(name) && value != "" {
			out[name] = value
		}
	}
	return out
}

// applyEnv sets what the variables say.
func (c *Config) applyEnv(env map[string]string) []error {
	settings := map[string]*field{}
	known := []string{fileVariable}
	for _, f := range c.fields() {
		for _, name := range variables(f.path) {
			settings[name] = f
			known = append(known, name)
		}
	}
	var names []string
	for name := range env {
		if name != fileVariable {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var errs []error
	for _, name := range names {
		from := Origin{"env", name}
		f, ok := settings[name]
		if !ok {
			errs = append(errs, &Error{from, "", "there is no such variable" + didYouMean(name, known)})
			continue
		}
		if set := c.origins[f.path]; set.Kind == "env" {
			errs = append(errs, &Error{from, f.path, "is also set by " + set.Place + ": keep one of them"})
			continue
		}
		if err := c.assign(f, env[name], from); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// variables are the names by which the environment sets a path: WEIR_ and the path in capitals. A lane's leave
// the level of its type out, and those of the lane stripe may leave WEIR_LANES_ out too. What is below meters
// has none, since event names may hold anything.
func variables(path string) []string {
	parts := strings.Split(path, ".")
	if parts[0] != "lanes" {
		return []string{variable(parts...)}
	}
	lane, rest := parts[1], parts[2:]
	if len(rest) > 1 {
		rest = rest[1:]
	}
	if len(rest) > 1 {
		return nil
	}
	names := []string{variable("lanes", lane, rest[0])}
	if lane == "stripe" {
		names = append(names, variable("stripe", rest[0]))
	}
	return names
}

func variable(parts ...string) string { return prefix + strings.ToUpper(strings.Join(parts, "_")) }
