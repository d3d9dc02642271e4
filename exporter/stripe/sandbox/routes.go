package sandbox

import (
	"net"
	"net/http"
	"strings"
)

const streamPath = "/v2/billing/meter_event_stream"

// apiRoutes lists every endpoint of the API host.
func (s *Sandbox) apiRoutes() http.Handler {
	mux := http.NewServeMux()
	s.route(mux, "POST /v1/billing/meter_events", endpoint{version: 1, class: classMeterEvents, decode: decodeEventV1, handle: createEvent})
	s.route(mux, "/", endpoint{version: 1, handle: unknownURL})
	mux.Handle("/_sandbox/", s.adminRoutes())
	mux.Handle("POST "+streamPath, s.streamRoutes())
	return byHost{api: mux, stream: s.streamRoutes()}
}

// streamRoutes lists the one endpoint of the stream host.
func (s *Sandbox) streamRoutes() http.Handler {
	mux := http.NewServeMux()
	s.route(mux, "/", endpoint{version: 2, handle: unknownURL})
	return mux
}

func (s *Sandbox) route(mux *http.ServeMux, pattern string, e endpoint) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(&e, w, r) })
}

func unknownURL(c *call) answer { return errUnknownURL(c.request).answer() }

// byHost tells the two hosts apart that a client may have mapped to one address.
type byHost struct{ api, stream http.Handler }

func (h byHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.HasPrefix(host, "meter-events.") {
		h.stream.ServeHTTP(w, r)
		return
	}
	h.api.ServeHTTP(w, r)
}
