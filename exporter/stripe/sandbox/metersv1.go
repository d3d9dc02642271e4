package sandbox

import (
	"crypto/rand"
	"net/http"
	"time"
)

// meterObject is a meter as the API shows it.
type meterObject struct {
	ID                 string             `json:"id"`
	Object             string             `json:"object"`
	Created            int64              `json:"created"`
	CustomerMapping    customerMapping    `json:"customer_mapping"`
	DefaultAggregation defaultAggregation `json:"default_aggregation"`
	DisplayName        string             `json:"display_name"`
	EventName          string             `json:"event_name"`
	EventTimeWindow    *string            `json:"event_time_window"`
	Livemode           bool               `json:"livemode"`
	Status             string             `json:"status"`
	StatusTransitions  statusTransitions  `json:"status_transitions"`
	Updated            int64              `json:"updated"`
	ValueSettings      valueSettings      `json:"value_settings"`
}

type customerMapping struct {
	Key  string `json:"event_payload_key"`
	Type string `json:"type"`
}

type defaultAggregation struct {
	Formula string `json:"formula"`
}

type statusTransitions struct {
	DeactivatedAt *int64 `json:"deactivated_at"`
}

type valueSettings struct {
	Key string `json:"event_payload_key"`
}

func (m *meter) object(live bool) meterObject {
	o := meterObject{
		ID: m.ID, Object: "billing.meter", Created: m.created.Unix(), Updated: m.updated.Unix(), Livemode: live,
		CustomerMapping: customerMapping{m.CustomerKey, "by_id"}, DefaultAggregation: defaultAggregation{m.Formula},
		DisplayName: m.DisplayName, EventName: m.EventName, Status: m.Status, ValueSettings: valueSettings{m.ValueKey},
	}
	if m.EventTimeWindow != "" {
		window := m.EventTimeWindow
		o.EventTimeWindow = &window
	}
	if !m.deactivatedAt.IsZero() {
		at := m.deactivatedAt.Unix()
		o.StatusTransitions.DeactivatedAt = &at
	}
	return o
}

// createMeter serves POST /v1/billing/meters.
func createMeter(c *call) answer {
	p, err := c.form("display_name", "event_name", "event_time_window", "default_aggregation[formula]",
		"customer_mapping[event_payload_key]", "customer_mapping[type]", "value_settings[event_payload_key]")
	if err == nil {
		err = p.require("display_name", "event_name", "default_aggregation[formula]")
	}
	if err == nil && len(p["display_name"]) > 250 {
		err = errInvalid("display_name", "", "Invalid string: %s; must be at most 250 characters", shorten(p["display_name"]))
	}
	if err != nil {
		return err.answer()
	}
	w := c.world
	m := Meter{
		ID: idPrefix("mtr", w.live) + rand.Text(), EventName: p["event_name"], DisplayName: p["display_name"],
		Formula: p["default_aggregation[formula]"], EventTimeWindow: p["event_time_window"],
		CustomerKey: p["customer_mapping[event_payload_key]"], ValueKey: p["value_settings[event_payload_key]"],
	}
	if bad := m.validate(); bad != nil {
		return errInvalid("", "", "Invalid meter: %v", bad).answer()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if old := w.byName[m.EventName]; old != nil && old.Status == StatusActive {
		return errInvalid("event_name", "", "An active meter already exists for the event name %q", m.EventName).answer()
	}
	return object(w.addMeter(m, c.sandbox.Now()).object(w.live))
}

// getMeter serves GET /v1/billing/meters/{id}.
func getMeter(c *call) answer {
	return c.withMeter(func(m *meter, _ time.Time) *apiError { return nil })
}

// updateMeter serves POST /v1/billing/meters/{id}: only the display name can be changed.
func updateMeter(c *call) answer {
	p, err := c.form("display_name")
	if err != nil {
		return err.answer()
	}
	return c.withMeter(func(m *meter, now time.Time) *apiError {
		m.DisplayName, m.updated = or(p["display_name"], m.DisplayName), now
		return nil
	})
}

// deactivateMeter serves POST /v1/billing/meters/{id}/deactivate.
func deactivateMeter(c *call) answer {
	return c.withMeter(func(m *meter, now time.Time) *apiError {
		if m.Status == StatusInactive {
			return errInvalid("", "", "The meter %s is inactive already.", m.ID)
		}
		m.Status, m.updated, m.deactivatedAt = StatusInactive, now, now
		return nil
	})
}

// reactivateMeter serves POST /v1/billing/meters/{id}/reactivate.
func reactivateMeter(c *call) answer {
	w := c.world
	return c.withMeter(func(m *meter, now time.Time) *apiError {
		if m.Status == StatusActive {
			return errInvalid("", "", "The meter %s is active already.", m.ID)
		}
		if other := w.byName[m.EventName]; other != m && other.Status == StatusActive {
			return errInvalid("", "", "An active meter already exists for the event name %q", m.EventName)
		}
		m.Status, m.updated, m.deactivatedAt = StatusActive, now, time.Time{}
		w.byName[m.EventName] = m
		return nil
	})
}

// withMeter runs change on the meter that the path names and answers with it.
func (c *call) withMeter(change func(*meter, time.Time) *apiError) answer {
	w := c.world
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.byID[c.request.PathValue("id")]
	if m == nil {
		return errNotFound("billing meter", c.request.PathValue("id"), "id").answer()
	}
	if err := change(m, c.sandbox.Now()); err != nil {
		return err.answer()
	}
	return object(m.object(w.live))
}

// listMeters serves GET /v1/billing/meters, newest first.
func listMeters(c *call) answer {
	p, err := c.form("status", "limit", "starting_after", "ending_before")
	if err != nil {
		return err.answer()
	}
	if status := p["status"]; status != "" && status != StatusActive && status != StatusInactive {
		return errInvalid("status", "", "Invalid status: must be one of active or inactive").answer()
	}
	w := c.world
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []meterObject
	for i := len(w.meters) - 1; i >= 0; i-- {
		if m := w.meters[i]; p["status"] == "" || p["status"] == m.Status {
			all = append(all, m.object(w.live))
		}
	}
	return page(p, all, "/v1/billing/meters", func(o meterObject) string { return o.ID })
}

// form reads the parameters of the query and the body.
func (c *call) form(known ...string) (params, *apiError) {
	fields, err := parseForm(c.request.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	if c.request.Method == http.MethodPost {
		body, err := parseForm(string(c.body))
		if err != nil {
			return nil, err
		}
		fields = append(fields, body...)
	}
	return collect(fields, known...)
}
