package stripe

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
)

// stub answers a meter list with one meter, and the account; "" keeps that from the key.
func stub(id string, live bool) http.HandlerFunc {
	flag := map[bool]string{true: "true", false: "false"}[live]
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1/account" && id == "":
			answers(403, refusal("", "The provided key does not have the required permissions"))(w, r)
			return
		case r.URL.Path == "/v1/account":
			answers(200, `{"id":"`+id+`","object":"account"}`)(w, r)
			return
		}
		answers(200, `{"object":"list","has_more":false,"data":[{"id":"mtr_1","object":"billing.meter","event_name":"tokens","status":"active","livemode":`+flag+`}]}`)(w, r)
	}
}

func TestCheckAccountAndMode(t *testing.T) {
	tests := []struct {
		name string
		own  string
		live bool
		code string
	}{
		{"ours", "acct_1", false, ""},
		{"another's", "acct_2", false, "account_mismatch"},
		{"untold", "", false, "account_unknown"},
		{"live meters for a test key", "acct_1", true, "livemode_mismatch"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := newServer(t, stub(tt.own, tt.live))
			findings, err := newExporter(t, server.URL, func(c *Config) { c.Account = "acct_1" }).Check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if tt.code == "" && len(findings) > 0 || tt.code != "" && (len(findings) != 1 || findings[0].Code != tt.code || (findings[0].Severity == Broken) != (tt.own != "")) {
				t.Errorf("findings %v, want %q", findings, tt.code)
			}
		})
	}
}

func TestCheckCannotAsk(t *testing.T) {
	for name, serve := range map[string]http.HandlerFunc{
		"500": answers(500, refusal("", "An unknown error occurred")), "html": answers(200, html), "cut": cuts("", false),
	} {
		findings, err := newExporter(t, newServer(t, serve).URL, nil).Check(t.Context())
		if err == nil || findings != nil || !strings.Contains(err.Error(), "read meters") || strings.Contains(err.Error(), "sk_test_weir") {
			t.Errorf("%s: findings %v, error %v: want an error that names the step", name, findings, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newExporter(t, "http://stripe.invalid", nil).Check(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's", err)
	}
}
