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
	for pattern, e := range map[string]endpoint{
		"POST /v1/billing/meter_events":            {version: 1, class: classMeterEvents, decode: decodeEventV1, handle: createEvent},
		"POST /v1/billing/meter_event_adjustments": {version: 1, handle: createAdjustmentV1},
		"POST /v1/billing/meters":                  {version: 1, handle: createMeter},
		"GET /v1/billing/meters":                   {version: 1, handle: listMeters},
		"GET /v1/billing/meters/{id}":              {version: 1, handle: getMeter},
		"POST /v1/billing/meters/{id}":             {version: 1, handle: updateMeter},
		"POST /v1/billing/meters/{id}/deactivate":  {version: 1, handle: deactivateMeter},
		"POST /v1/billing/meters/{id}/reactivate":  {version: 1, handle: reactivateMeter},

		"GET /v1/billing/meters/{id}/event_summaries": {version: 1, handle: listSummaries},

		"POST /v1/customers":     {version: 1, handle: createCustomer},
		"GET /v1/customers/{id}": {version: 1, handle: getCustomer},
		"GET /v1/account":        {version: 1, handle: getAccount},

		"POST /v2/billing/meter_events":            {version: 2, class: classMeterEvents, decode: decodeEventV2, handle: createEvent},
		"POST /v2/billing/meter_event_adjustments": {version: 2, handle: createAdjustmentV2},
		"POST /v2/billing/meter_event_session":     {version: 2, handle: createSession},
		"GET /v2/core/events":                      {version: 2, handle: listNotices},
		"GET /v2/core/events/{id}":                 {version: 2, handle: getNotice},

		"/": {version: 1, handle: unknownURL},
	} {
		s.route(mux, pattern, e)
	}
	mux.Handle("/_sandbox/", s.adminRoutes())
	mux.Handle(streamPath, s.streamRoutes())
	return byHost{api: mux, stream: s.streamRoutes()}
}

// streamRoutes lists the one endpoint of the stream host.
func (s *Sandbox) streamRoutes() http.Handler {
	mux := http.NewServeMux()
	s.route(mux, "POST "+streamPath, endpoint{version: 2, class: classStream, decode: decodeStream, handle: createStream, session: true})
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
