package reports

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/weir-relay/weir/exporter/stripe"
)

// Lane is a lane of type stripe that has an event destination.
type Lane struct {
	Name     string
	Exporter *stripe.Exporter
	Secret   string // of the event destination, whsec_…
}

const (
	// maxBody bounds what is read: a thin event has less than a kilobyte.
	maxBody = 64 << 10
	// readTimeout bounds how long a body may take to come.
	readTimeout = 10 * time.Second
	// workTimeout bounds the rest; Stripe waits a little longer.
	workTimeout = 15 * time.Second
	// atOnce bounds the reports that are worked on at a time: the connections belong to the lanes.
	atOnce = 2
)

// handler takes thin events from Stripe.
type handler struct {
	db    DB
	lanes map[string]Lane
	log   *slog.Logger
	turns chan struct{}
	said  atomic.Int64 // when a refusal that anybody can cause was last logged, in Unix seconds
}

// Handler answers POST /webhooks/stripe/<lane> for each of the lanes.
func Handler(db DB, lanes []Lane, log *slog.Logger) http.Handler {
	h := &handler{db: db, lanes: map[string]Lane{}, log: log, turns: make(chan struct{}, atOnce)}
	for _, l := range lanes {
		h.lanes[l.Name] = l
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /webhooks/stripe/{lane}", h.take)
	return mux
}

func (h *handler) take(w http.ResponseWriter, r *http.Request) {
	status, err := h.handle(w, r)
	if err == nil {
		w.WriteHeader(http.StatusOK)
		return
	}
	if status >= 500 || h.worth(time.Now()) {
		h.log.Warn("stripe: webhook refused", "lane", r.PathValue("lane"), "status", status, "error", err)
	}
	http.Error(w, http.StatusText(status), status) // the reason is for us, not for whoever asks
}

// worth reports whether a refusal that anybody can cause is worth a line in the log: one a minute is.
func (h *handler) worth(now time.Time) bool {
	last := h.said.Load()
	return now.Unix()-last >= 60 && h.said.CompareAndSwap(last, now.Unix())
}

// handle answers the status of a refusal, or nil once the report is committed, or has been, or isn't one.
func (h *handler) handle(w http.ResponseWriter, r *http.Request) (status int, err error) {
	lane, ok := h.lanes[r.PathValue("lane")]
	if !ok {
		return http.StatusNotFound, errors.New("there is no such lane with a webhook_secret")
	}
	body, status, err := read(w, r)
	if err != nil {
		return status, err
	}
	notice, err := lane.Exporter.ReadNotice(body, r.Header.Get("Stripe-Signature"), lane.Secret)
	if err != nil {
		return http.StatusBadRequest, err
	}
	if !notice.Reports() {
		return 0, nil // the destination sends more than it needs to
	}
	if notice.Live != (lane.Exporter.Mode() == stripe.Live) {
		h.log.Warn("stripe: a report of the other mode than the lane's key came, and was put aside", "lane", lane.Name, "event", notice.ID)
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), workTimeout)
	defer cancel()
	select {
	case h.turns <- struct{}{}:
		defer func() { <-h.turns }()
	case <-ctx.Done():
		return http.StatusServiceUnavailable, fmt.Errorf("too many reports at once: %w", context.Cause(ctx))
	}
	report, err := lane.Exporter.ErrorReport(ctx, notice.ID)
	if err != nil {
		return http.StatusBadGateway, err
	}
	if _, err := Apply(ctx, h.db, lane.Name, report, h.log); err != nil {
		return http.StatusServiceUnavailable, err
	}
	return 0, nil
}

// read reads a body that is neither too long nor too slow.
func read(w http.ResponseWriter, r *http.Request) (body []byte, status int, err error) {
	// A connection that can't have a deadline is bounded by its server's. It is taken off afterwards: a deadline that
	// passes while the report is worked on would end the request's context.
	connection := http.NewResponseController(w)
	connection.SetReadDeadline(time.Now().Add(readTimeout)) //nolint:errcheck
	if body, status, err = readBefore(w, r); err == nil {
		connection.SetReadDeadline(time.Time{}) //nolint:errcheck
	}
	return body, status, err
}

// readBefore reads a body before the deadline of its connection.
func readBefore(w http.ResponseWriter, r *http.Request) (body []byte, status int, err error) {
	body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, http.StatusRequestEntityTooLarge, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, http.StatusRequestTimeout, err
	case err != nil:
		return nil, http.StatusBadRequest, err
	}
	return body, 0, nil
}
