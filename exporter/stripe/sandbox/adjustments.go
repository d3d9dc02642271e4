package sandbox

import (
	"crypto/rand"
	"time"
)

// cancelWindow is how long after its receipt an event can be cancelled.
const cancelWindow = 24 * time.Hour

// adjustmentObject is an adjustment of either version; v1's has neither id nor created.
type adjustmentObject struct {
	ID        string       `json:"id,omitempty"`
	Object    string       `json:"object"`
	Cancel    cancelObject `json:"cancel"`
	Created   string       `json:"created,omitempty"`
	EventName string       `json:"event_name"`
	Livemode  bool         `json:"livemode"`
	Status    string       `json:"status"`
	Type      string       `json:"type"`
}

type cancelObject struct {
	Identifier string `json:"identifier"`
}

// createAdjustmentV1 serves POST /v1/billing/meter_event_adjustments.
func createAdjustmentV1(c *call) answer {
	p, err := c.form("event_name", "type", "cancel[identifier]")
	if err == nil {
		err = p.require("event_name", "type", "cancel[identifier]")
	}
	if err == nil {
		err = c.cancel(p["event_name"], p["type"], p["cancel[identifier]"])
	}
	if err != nil {
		return err.answer()
	}
	return object(adjustmentObject{
		Object: "billing.meter_event_adjustment", Cancel: cancelObject{p["cancel[identifier]"]},
		EventName: p["event_name"], Livemode: c.world.live, Status: "pending", Type: "cancel",
	})
}

// createAdjustmentV2 serves POST /v2/billing/meter_event_adjustments.
func createAdjustmentV2(c *call) answer {
	var in struct {
		Cancel    cancelObject `json:"cancel"`
		EventName string       `json:"event_name"`
		Type      string       `json:"type"`
	}
	if err := c.json(&in); err != nil {
		return err.answer()
	}
	if err := c.cancel(in.EventName, in.Type, in.Cancel.Identifier); err != nil {
		return err.answer()
	}
	return object(adjustmentObject{
		ID: idPrefix("mtr_evt_adj", c.world.live) + rand.Text(), Object: "v2.billing.meter_event_adjustment",
		Cancel: in.Cancel, Created: c.sandbox.Now().UTC().Format(timeV2),
		EventName: in.EventName, Livemode: c.world.live, Status: "pending", Type: "cancel",
	})
}

// cancel takes an event out of the usage. The identifier stays taken unless Behaviour.ReuseCancelled.
func (c *call) cancel(eventName, kind, identifier string) *apiError {
	switch {
	case kind != "cancel":
		return errInvalid("type", "", "Invalid type: must be cancel")
	case eventName == "":
		return errMissing("event_name")
	case identifier == "":
		return errMissing("cancel[identifier]")
	}
	w := c.world
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.events[identifier]
	switch {
	case e == nil || e.state != billed || e.series.meter.EventName != eventName:
		return errRefused("No event with identifier %s was found for event name %q.", identifier, eventName)
	case e.cancelled:
		return errRefused("The event with identifier %s has already been cancelled.", identifier)
	case c.sandbox.Now().Sub(time.Unix(0, e.acceptedAt)) > cancelWindow:
		return errRefused("The event with identifier %s was received more than 24 hours ago and can no longer be cancelled.", identifier)
	}
	e.cancelled = true
	w.counts.Cancelled++
	w.counts.Billed--
	if e.again() {
		w.counts.BilledAgain--
	}
	return nil
}
