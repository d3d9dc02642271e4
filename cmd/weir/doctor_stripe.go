package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-relay/weir/exporter/stripe"
)

// stripe asks Stripe about the key and the meters of each lane.
func (d *doctor) stripe(ctx context.Context) {
	for _, name := range slices.Sorted(maps.Keys(d.config.Lanes)) {
		lane := d.config.Lanes[name]
		check := "lane " + name
		if lane.Type != "stripe" {
			continue
		}
		exporter, err := d.app.stripeExporter(name, lane)
		if err != nil {
			d.add(check, levelFail, "correct the settings of the lane: weir config show says where each comes from",
				"%s", strings.TrimPrefix(err.Error(), check+": "))
			continue
		}
		d.askStripe(ctx, check, exporter)
	}
}

func (d *doctor) askStripe(ctx context.Context, check string, exporter *stripe.Exporter) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	found, err := exporter.Check(ctx)
	if err != nil {
		d.add(check, levelFail, "check the network and stripe.url", "Stripe couldn't be asked: %v", err)
		return
	}
	for _, f := range found {
		l := levelWarn
		if f.Severity == stripe.Broken {
			l = levelFail
		}
		subject := ""
		if f.Meter != "" {
			subject = "meter " + f.Meter + ": "
		}
		d.add(check, l, f.Hint, "%s%s", subject, f.Detail)
	}
	if len(found) == 0 {
		d.add(check, levelOK, "", "Stripe takes the key, in mode %s", exporter.Mode())
	}
}
