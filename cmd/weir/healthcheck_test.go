package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// lesson 14
func TestHealthcheck(t *testing.T) {
	for name, c := range map[string]struct {
		broken string // the path that answers 503
		code   int
		says   string
	}{
		"ready and getting on": {"", exitOK, "ok\n"},
		"not ready yet":        {"/readyz", exitFailed, "lane stripe has not reached the database yet"},
		"stuck":                {"/healthz", exitFailed, "lane stripe has not reached the database yet"},
	} {
		t.Run(name, func(t *testing.T) {
			relay := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == c.broken {
					http.Error(w, "lane stripe has not reached the database yet", http.StatusServiceUnavailable)
				}
			}))
			defer relay.Close()
			var said strings.Builder
			env := []string{"WEIR_HTTP_LISTEN=" + strings.TrimPrefix(relay.URL, "http://")}
			code := run(t.Context(), []string{"healthcheck"}, nil, &said, &said, env)
			if code != c.code || !strings.Contains(said.String(), c.says) {
				t.Errorf("want exit %d and %q, got %d and %q", c.code, c.says, code, &said)
			}
		})
	}
}

// Without somebody to ask, the answer is no, and says what to do.
func TestHealthcheckOfNobody(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	for listen, want := range map[string]struct {
		code int
		says string
	}{
		strings.TrimPrefix(gone.URL, "http://"): {exitFailed, "nobody answers there"},
		"off":                                   {exitUsage, "http.listen is off"},
	} {
		var said strings.Builder
		code := run(t.Context(), []string{"healthcheck"}, nil, &said, &said, []string{"WEIR_HTTP_LISTEN=" + listen})
		if code != want.code || !strings.Contains(said.String(), want.says) {
			t.Errorf("%s: want exit %d and %q, got %d and %q", listen, want.code, want.says, code, &said)
		}
	}
}

func TestDialable(t *testing.T) {
	for listen, want := range map[string]string{
		"127.0.0.1:9464":   "127.0.0.1:9464",
		"0.0.0.0:9464":     "localhost:9464",
		":9464":            "localhost:9464",
		"[::]:9464":        "localhost:9464",
		"10.1.2.3:80":      "10.1.2.3:80",
		"relay.local:9464": "relay.local:9464",
	} {
		if got, err := dialable(listen); got != want || err != nil {
			t.Errorf("%s: want %s, got %s, %v", listen, want, got, err)
		}
	}
	for _, listen := range []string{"", "off", "9464"} {
		if got, err := dialable(listen); err == nil {
			t.Errorf("%q: want an error, got %s", listen, got)
		}
	}
}
