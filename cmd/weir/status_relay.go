package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/weir-relay/weir/relay"
)

// relayReport is what a running relay says of itself, as far as a person wants to know.
type relayReport struct {
	Owner  string `json:"owner"`
	Stream struct {
		Mode   string `json:"mode"`
		Reason string `json:"reason"`
	} `json:"stream"`
	Lanes []relay.LaneStatus `json:"lanes"`
}

// askRelay asks the relay that listens on address, nil where none answers.
func askRelay(ctx context.Context, address string) *relayReport {
	if address == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/status", nil)
	if err != nil {
		return nil
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	var report relayReport
	if response.StatusCode != http.StatusOK || json.NewDecoder(response.Body).Decode(&report) != nil {
		return nil
	}
	return &report
}

func (r *relayReport) print(w io.Writer) {
	if r == nil {
		fmt.Fprintln(w, "\nNo relay answers on http.listen.")
		return
	}
	mode := "polling, without a stream"
	if r.Stream.Mode != "" {
		mode = r.Stream.Mode
	}
	if r.Stream.Reason != "" {
		mode += ": " + r.Stream.Reason
	}
	fmt.Fprintf(w, "\nrelay %s: %s\n", printable(r.Owner), printable(mode))
	var rows [][]string
	for _, l := range r.Lanes {
		state := "delivering"
		if l.Paused != "" {
			state = "paused: " + l.Paused
		}
		rows = append(rows, []string{l.Name, string(l.Order), state,
			fmt.Sprint(l.Held), fmt.Sprint(l.Unsettled), fmt.Sprint(l.Ready), fmt.Sprint(l.Later)})
	}
	table(w, []string{"LANE", "ORDER", "", "HELD", "UNSETTLED", "READY", "LATER"}, rows)
}
