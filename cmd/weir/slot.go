package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-relay/weir/checkpoint"
	"github.com/weir-relay/weir/internal/config"
	"github.com/weir-relay/weir/replication"
)

// slotReport is what the server says of the slot.
type slotReport struct {
	Name          string     `json:"name"`
	Exists        bool       `json:"exists"`
	Active        bool       `json:"active"`
	ActivePID     int32      `json:"active_pid,omitempty"`
	WALStatus     string     `json:"wal_status,omitempty"`
	Confirmed     string     `json:"confirmed,omitempty"` // LSN
	LagBytes      int64      `json:"lag_bytes"`
	RetainedBytes int64      `json:"retained_bytes"`
	SafeBytes     *int64     `json:"safe_bytes,omitempty"`
	InactiveSince *time.Time `json:"inactive_since,omitempty"`
	Invalidation  string     `json:"invalidation,omitempty"`
	Lost          bool       `json:"lost"`
	Failover      bool       `json:"failover"`
}

func reportSlot(name string, i replication.SlotInfo) slotReport {
	r := slotReport{
		Name: name, Exists: i.Exists, Active: i.Active, ActivePID: i.ActivePID, WALStatus: i.WALStatus,
		LagBytes: i.LagBytes, RetainedBytes: i.RetainedBytes, SafeBytes: i.SafeBytes, InactiveSince: i.InactiveSince,
		Invalidation: i.Invalidation, Lost: i.Lost(), Failover: i.Failover,
	}
	if i.Confirmed > 0 {
		r.Confirmed = i.Confirmed.String()
	}
	return r
}

func (r *slotReport) print(w io.Writer) {
	switch {
	case !r.Exists:
		fmt.Fprintf(w, "slot %s: not there; the relay makes it when it starts\n", r.Name)
		return
	case r.Lost:
		fmt.Fprintf(w, "slot %s: LOST (%s %s); the relay makes a new one when it starts, and nothing is lost\n", r.Name, r.WALStatus, r.Invalidation)
		return
	case r.Active:
		fmt.Fprintf(w, "slot %s: read by process %d", r.Name, r.ActivePID)
	default:
		fmt.Fprintf(w, "slot %s: NOT READ by anything", r.Name)
		if r.InactiveSince != nil {
			fmt.Fprintf(w, " since %s", r.InactiveSince.UTC().Format(time.RFC3339))
		}
	}
	fmt.Fprintf(w, "; %s behind, keeps %s of log (%s)\n", bytesText(r.LagBytes), bytesText(r.RetainedBytes), r.WALStatus)
}

func (a *app) slotCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "slot",
		Short: "Look at the replication slot, make it, drop it",
		Args:  unknownCommand,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.slotStatusCommand(), a.slotCreateCommand(), a.slotDropCommand())
	return c
}

func (a *app) slotStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Say what the server knows of the slot",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			pool, err := a.pool(c.Context())
			if err != nil {
				return err
			}
			defer pool.Close()
			name := a.loaded.Replication.Slot
			info, err := replication.Inspect(c.Context(), pool, name)
			if err != nil {
				return err
			}
			r := reportSlot(name, info)
			return a.emit(r, r.print)
		},
	}
}

func (a *app) slotCreateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "create",
		Short: "Make the slot ahead of the relay's first start",
		Long: `Make the slot and count what is there. The relay does so by itself; ahead of a first
start it saves that start the wait: the server waits until every transaction that is running
has ended.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			pool, err := a.pool(c.Context())
			if err != nil {
				return err
			}
			defer pool.Close()
			book := checkpoint.NewBook(pool, a.logger(a.loaded))
			at, err := replication.Create(c.Context(), a.replication(a.loaded), book)
			if err != nil {
				return err
			}
			name := a.loaded.Replication.Slot
			return a.emit(map[string]any{"slot": name, "lsn": at.String()}, func(w io.Writer) {
				fmt.Fprintf(w, "made slot %s at %v. The server keeps its log from here on until a relay reads it.\n", name, at)
			})
		},
	}
}

func (a *app) slotDropCommand() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "drop",
		Short: "Drop the slot, so that the server keeps no log for it",
		Long: `Drop the slot. No item is lost: the table is what counts, and a relay that starts makes
a new one. Do it when weir is taken out of service: a slot that nobody reads makes the server
keep its log until the disk is full. Without --yes it only shows the slot.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			pool, err := a.pool(c.Context())
			if err != nil {
				return err
			}
			defer pool.Close()
			name := a.loaded.Replication.Slot
			info, err := replication.Inspect(c.Context(), pool, name)
			if err != nil {
				return err
			}
			if yes {
				if err := a.drop(c.Context(), info); err != nil {
					return err
				}
			}
			r := reportSlot(name, info)
			return a.emit(map[string]any{"dropped": yes && info.Exists, "slot": r}, func(w io.Writer) {
				switch {
				case !info.Exists:
					fmt.Fprintf(w, "slot %s: not there\n", name)
				case yes:
					fmt.Fprintf(w, "dropped slot %s, which kept %s of log\n", name, bytesText(info.RetainedBytes))
				default:
					r.print(w)
					fmt.Fprintln(w, "Nothing was changed. Add --yes to drop it.")
				}
			})
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "do it")
	return c
}

func (a *app) drop(ctx context.Context, info replication.SlotInfo) error {
	if !info.Exists {
		return nil
	}
	return replication.Drop(ctx, a.replication(a.loaded))
}

// replication is how the slot is reached.
func (a *app) replication(c *config.Config) replication.Config {
	return replication.Config{
		URL:              c.Database.ReplicationURL.Reveal(),
		Slot:             c.Replication.Slot,
		Publication:      c.Replication.Publication,
		StatusInterval:   c.Replication.StatusInterval,
		WalSenderTimeout: c.Replication.WALSenderTimeout,
		Logger:           a.logger(c),
	}
}
