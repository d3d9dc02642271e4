package main

import (
	"net/url"
	"strconv"
	"time"
)

// item is one fact to report. All peers carry the same fields and send the same request.
type item struct {
	Number     int64  `json:"number"` // unique in a turn
	Identifier string `json:"identifier"`
	Customer   string `json:"customer"`
	Meter      string `json:"meter"`
	Timestamp  int64  `json:"timestamp"` // Unix seconds
}

// meter is the name of the items' meter.
const meter = "requests"

// customers is how many customers the items are spread over.
const customers = 1000

func newItem(number int64) item {
	n := strconv.FormatInt(number, 10)
	return item{number, "item_" + n, "cus_" + strconv.FormatInt(number%customers, 10), meter, time.Now().Unix()}
}

// newItems has n items from number first on.
func newItems(first int64, n int) []item {
	items := make([]item, n)
	for i := range items {
		items[i] = newItem(first + int64(i))
	}
	return items
}

// form is the item as Stripe's meter event. Its value is the item's number, by which the receiver knows it
// whatever identifier the peer gave it.
func (it item) form() url.Values {
	return url.Values{
		"event_name":                  {it.Meter},
		"identifier":                  {it.Identifier},
		"timestamp":                   {strconv.FormatInt(it.Timestamp, 10)},
		"payload[stripe_customer_id]": {it.Customer},
		"payload[value]":              {strconv.FormatInt(it.Number, 10)},
	}
}
