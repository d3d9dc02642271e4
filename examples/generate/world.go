package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// meter is a meter and what one record of it reports.
type meter struct {
	name     string
	features []string
	value    func(*rand.Rand) string
}

var meters = []meter{
	{"api_requests", []string{"search", "export", "webhooks"}, func(r *rand.Rand) string { return strconv.Itoa(1 + r.IntN(500)) }},
	{"tokens_used", []string{"chat", "summaries"}, func(r *rand.Rand) string { return strconv.Itoa(200 + r.IntN(40_000)) }},
	{"storage_gb_hours", []string{"files", "backups"}, func(r *rand.Rand) string { return decimal(1+r.IntN(250_000), 3) }},
	{"seat_minutes", []string{"editor", "viewer"}, func(r *rand.Rand) string { return decimal(5+r.IntN(600)*5, 1) }},
}

// decimal is n / 10^places without trailing zeros.
func decimal(n, places int) string {
	digits := fmt.Sprintf("%0*d", places+1, n)
	whole, rest := digits[:len(digits)-places], strings.TrimRight(digits[len(digits)-places:], "0")
	if rest == "" {
		return whole
	}
	return whole + "." + rest
}

// tenant is a customer: what the producer calls it, what Stripe calls it, and what it uses.
type tenant struct {
	key      string
	customer string
	meters   []int
}

func makeTenants(r *rand.Rand) []tenant {
	first := []string{"amber", "birch", "cobalt", "delta", "ember", "fjord", "granite", "harbor", "indigo", "juniper"}
	second := []string{"analytics", "freight", "health", "labs", "studio"}
	var tenants []tenant
	for _, f := range first {
		for _, s := range second {
			used := r.Perm(len(meters))[:1+r.IntN(len(meters))]
			slices.Sort(used)
			tenants = append(tenants, tenant{"t_" + f + "_" + s, "cus_" + id(r, 14), used})
		}
	}
	return tenants
}

// id is the random part of an id as Stripe's look.
func id(r *rand.Rand, n int) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(b)
}

// busy picks a customer: a few have much of the usage, as everywhere.
func busy(r *rand.Rand) int {
	return r.IntN(1 + r.IntN(customers))
}
