package sandbox

import (
	"net/url"
	"slices"
	"strconv"
	"time"
)

// getNotice serves GET /v2/core/events/{id}: the thin event with its data.
func getNotice(c *call) answer {
	id, oldest := c.request.PathValue("id"), c.sandbox.Now().Add(-noticeLife)
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	for _, n := range c.world.notices {
		if n.ID == id && n.at.After(oldest) {
			return object(n)
		}
	}
	return errNotFound("event", id, "id").answer()
}

// noticePage is a page of a v2 list.
type noticePage struct {
	Data     []*notice `json:"data"`
	Next     *string   `json:"next_page_url"`
	Previous *string   `json:"previous_page_url"`
}

const defaultPageV2 = 20

// listNotices serves GET /v2/core/events, latest first. "page" is the id of the last event of the page before.
func listNotices(c *call) answer {
	query := c.request.URL.Query()
	objectID, after := query.Get("object_id"), query.Get("page")
	limit := defaultPageV2
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxPage {
			return errInvalid("limit", "", "Invalid limit: %s; must be between 1 and %d", shorten(text), maxPage).answer()
		}
		limit = n
	}
	types := query["types[]"]
	for i := 0; query.Has("types[" + strconv.Itoa(i) + "]"); i++ {
		types = append(types, query.Get("types["+strconv.Itoa(i)+"]"))
	}
	if objectID == "" && len(types) == 0 {
		return errMissing("object_id").answer()
	}
	found := c.world.noticesOf(objectID, types, c.sandbox.Now().Add(-noticeLife))
	if after != "" {
		i := slices.IndexFunc(found, func(n *notice) bool { return n.ID == after })
		if i < 0 {
			return errInvalid("page", "", "Invalid page: %s", shorten(after)).answer()
		}
		found = found[i+1:]
	}
	out := noticePage{Data: found}
	if len(found) > limit {
		out.Data = found[:limit]
		next := url.Values{"limit": {strconv.Itoa(limit)}, "page": {out.Data[limit-1].ID}}
		if objectID != "" {
			next.Set("object_id", objectID)
		}
		for _, t := range types {
			next.Add("types[]", t)
		}
		link := c.request.URL.Path + "?" + next.Encode()
		out.Next = &link
	}
	return object(out)
}

// noticesOf selects events, latest first.
func (w *world) noticesOf(objectID string, types []string, oldest time.Time) []*notice {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := []*notice{}
	for i := len(w.notices) - 1; i >= 0; i-- {
		n := w.notices[i]
		if objectID != "" && (n.Related == nil || n.Related.ID != objectID) ||
			len(types) > 0 && !slices.Contains(types, n.Type) || !n.at.After(oldest) {
			continue
		}
		found = append(found, n)
	}
	return found
}
