package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Status is what is needed here of /status.
type Status struct {
	Stream struct {
		Mode     string
		LagBytes uint64 `json:"lag_bytes"`
	} `json:"stream"`
}

// Status asks the relay how it stands.
func (r *Relay) Status(ctx context.Context) (s Status, err error) {
	body, err := r.get(ctx, "/status")
	if err != nil {
		return s, err
	}
	defer body.Close()
	return s, json.NewDecoder(body).Decode(&s)
}

// Metric asks the relay for the sum of a metric over the series whose labels contain label, "" for all.
func (r *Relay) Metric(ctx context.Context, name, label string) (sum float64, err error) {
	body, err := r.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' || !strings.Contains(rest, label) {
			continue
		}
		v, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		sum += v
	}
	return sum, lines.Err()
}

func (r *Relay) get(ctx context.Context, path string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.listen+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return nil, fmt.Errorf("ask the relay for %s: %s", path, response.Status)
	}
	return response.Body, nil
}
