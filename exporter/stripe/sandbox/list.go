package sandbox

import (
	"slices"
	"strconv"
)

// listObject is a page of a v1 list.
type listObject[T any] struct {
	Object  string `json:"object"`
	Data    []T    `json:"data"`
	HasMore bool   `json:"has_more"`
	URL     string `json:"url"`
}

const (
	defaultPage = 10
	maxPage     = 100
)

// pageSize reads "limit".
func (p params) pageSize() (int, *apiError) {
	if p["limit"] == "" {
		return defaultPage, nil
	}
	n, bad := strconv.Atoi(p["limit"])
	if bad != nil {
		return 0, errInvalid("limit", "parameter_invalid_integer", "Invalid integer: %s", shorten(p["limit"]))
	}
	if n < 1 || n > maxPage {
		return 0, errInvalid("limit", "", "Invalid limit: %d; must be between 1 and %d", n, maxPage)
	}
	return n, nil
}

// page cuts one page out of all, by limit and either of the two cursors.
func page[T any](p params, all []T, url string, id func(T) string) answer {
	limit, err := p.pageSize()
	if err != nil {
		return err.answer()
	}
	find := func(param string) (int, *apiError) {
		i := slices.IndexFunc(all, func(v T) bool { return id(v) == p[param] })
		if i < 0 {
			return 0, errInvalid(param, "resource_missing", "No such object: '%s'", p[param])
		}
		return i, nil
	}
	out := listObject[T]{Object: "list", URL: url}
	switch {
	case p["starting_after"] != "" && p["ending_before"] != "":
		return errInvalid("starting_after", "", "You cannot parameterize both starting_after and ending_before.").answer()
	case p["ending_before"] != "":
		end, err := find("ending_before")
		if err != nil {
			return err.answer()
		}
		begin := max(0, end-limit)
		out.Data, out.HasMore = all[begin:end], begin > 0
	default:
		begin := 0
		if p["starting_after"] != "" {
			i, err := find("starting_after")
			if err != nil {
				return err.answer()
			}
			begin = i + 1
		}
		end := min(len(all), begin+limit)
		out.Data, out.HasMore = all[begin:end], end < len(all)
	}
	if out.Data == nil {
		out.Data = []T{}
	}
	return object(out)
}
