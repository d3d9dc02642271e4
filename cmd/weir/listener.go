package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weir-relay/weir/relay"
)

// listener is where a running relay answers: /metrics, /healthz, /readyz, /status, and POST /audit.
type listener struct {
	socket net.Listener // nil: nobody may ask
	server *http.Server
}

func listen(address string, r *relay.Relay, registry *prometheus.Registry, log *slog.Logger) (*listener, error) {
	if address == "off" || address == "" {
		return &listener{}, nil
	}
	socket, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w: choose another address with http.listen, or off", address, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", answer(r.Health))
	mux.HandleFunc("GET /readyz", answer(r.Ready))
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, r.Status()) })
	mux.HandleFunc("POST /audit", func(w http.ResponseWriter, req *http.Request) {
		finding, err := r.Audit(req.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		writeJSON(w, map[string]any{
			"at": finding.At.String(), "drift": finding.Drift, "real": finding.Real.Nested(), "kept": finding.Kept.Nested(),
		})
	})
	log.Info("listening", "address", socket.Addr().String(), "paths", "/metrics /healthz /readyz /status")
	return &listener{socket, &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}, nil
}

// serve answers until close.
func (l *listener) serve() error {
	if l.socket == nil {
		return nil
	}
	if err := l.server.Serve(l.socket); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// close stops answering, and gives those who have asked a second.
func (l *listener) close() {
	if l.socket == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := l.server.Shutdown(ctx); err != nil {
		l.server.Close()
	}
}

// answer is a handler that says ok, or what is wrong with a 503.
func answer(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if err := check(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, err)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.Encode(v) //nolint:errcheck // the asker has gone
}
