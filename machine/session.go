package machine

// SessionParameters are the server settings of connections that run the store's statements. All of
// these find their rows by key. A plan made while the tables were small must not be kept while they grow, and
// planning each time costs as much as running: so plans are generic, and only by index.
//
// Fences need to see the newest commit, whatever the database or the role has for its default isolation.
func SessionParameters() map[string]string {
	return map[string]string{
		"default_transaction_isolation": "read committed",
		"plan_cache_mode":               "force_generic_plan",
		"enable_seqscan":                "off",
		"enable_hashjoin":               "off",
		"enable_mergejoin":              "off",
		"enable_bitmapscan":             "off",
		"jit":                           "off",
		"timezone":                      "UTC",
	}
}
