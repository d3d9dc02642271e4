package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-relay/weir/exporter/stripe/sandbox"
	"github.com/weir-relay/weir/internal/pgtest"
)

// output is a buffer that one goroutine writes and another reads.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func TestSandbox(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var stdout, stderr output
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"sandbox", "--json", "--listen", "127.0.0.1:0", "--meter", "m:sum", "--key", "sk_test_abc"},
			strings.NewReader(""), &stdout, &stderr, nil)
	}()
	var address string
	pgtest.Eventually(t, 10*time.Second, func() bool {
		address = regexp.MustCompile(`WEIR_STRIPE_URL=(\S+) WEIR_STRIPE_KEY=sk_test_abc`).FindString(stderr.String())
		return address != ""
	})
	base, _, _ := strings.Cut(strings.TrimPrefix(address, "WEIR_STRIPE_URL="), " ")
	form := url.Values{"event_name": {"m"}, "identifier": {"i1"}, "payload[stripe_customer_id]": {"cus_1"}, "payload[value]": {"3"}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/billing/meter_events", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Authorization", "Bearer sk_test_abc")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("HTTP %d", answer.StatusCode)
	}
	stop()
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d: %s", got, stderr.String())
	}
	var totals sandbox.Totals
	if err := json.Unmarshal([]byte(stdout.String()), &totals); err != nil || totals.Billed != 1 || totals.BilledAgain != 0 {
		t.Errorf("got %+v, %v", totals, err)
	}
}

func TestSandboxRefusals(t *testing.T) {
	c := newCLI(t)
	c.run("sandbox", "--key", "pk_x").wants(exitUsage, "sk_test_")
	c.run("sandbox", "--fault", "{").wants(exitUsage, "--fault {")
	c.run("sandbox", "--fault", `{"actoin":{}}`).wants(exitUsage, "actoin")
	c.run("sandbox", "--fault", `{"action":{"kind":"explode"}}`).wants(exitUsage, "explode")
	c.run("sandbox", "--faults", "gone.json").wants(exitUsage, "gone.json")
	c.run("sandbox", "--concurrency", "500").wants(exitUsage, "concurrency")
	c.run("sandbox", "--meter", "m:avg").wants(exitUsage, "formula")
	c.run("sandbox", "--listen", "127.0.0.1:-1").wants(exitFailed, "--listen")
}
