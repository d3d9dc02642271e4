package machine

// SessionParameters are the server settings of connections that run the store's statements. All of
// these find their rows by key. A plan made while the tables were small must not be kept while they grow, and
// planning each time costs as much as running: so plans are generic, and only by index.
//
// Pages cost nothing and entries of an index much, so that the plan which reads the fewest rows wins. Otherwise, while most items are open,
// the primary key looks cheaper than the index of the open ones, being in the table's own order; and once those
// are settled, a sweep under such a plan reads them all.
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
		"seq_page_cost":                 "0",
		"random_page_cost":              "0",
		"cpu_index_tuple_cost":          "1",
		"jit":                           "off",
		"timezone":                      "UTC",
	}
}
