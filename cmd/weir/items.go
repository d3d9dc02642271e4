package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-relay/weir/machine"
)

// item is a row of weir.items, and the time at which the server looked.
type item struct {
	ID                 int64           `json:"id"`
	State              machine.State   `json:"state"`
	Exporter           string          `json:"exporter"`
	TenantKey          string          `json:"tenant_key"`
	SubjectKind        string          `json:"subject_kind"`
	SubjectRef         string          `json:"subject_ref"`
	DestinationAccount string          `json:"destination_account"`
	Mode               string          `json:"mode"`
	MappingVersion     string          `json:"mapping_version"`
	Identifier         string          `json:"identifier"`
	Payload            json.RawMessage `json:"payload"`
	OrderKey           *string         `json:"order_key,omitempty"`
	Source             *string         `json:"source,omitempty"`
	Traceparent        *string         `json:"traceparent,omitempty"`
	InsertedAt         time.Time       `json:"inserted_at"`
	FromState          *string         `json:"from_state,omitempty"`
	Attempts           int             `json:"attempts"`
	NextAttemptAt      time.Time       `json:"next_attempt_at"`
	FirstAttemptAt     *time.Time      `json:"first_attempt_at,omitempty"`
	LeaseOwner         *string         `json:"lease_owner,omitempty"`
	LeaseExpiresAt     *time.Time      `json:"lease_expires_at,omitempty"`
	LeaseToken         int64           `json:"lease_token"`
	ProviderRef        *string         `json:"provider_ref,omitempty"`
	AcceptedAt         *time.Time      `json:"accepted_at,omitempty"`
	ConfirmedAt        *time.Time      `json:"confirmed_at,omitempty"`
	LastError          *string         `json:"last_error,omitempty"`
	QuarantineReason   *string         `json:"quarantine_reason,omitempty"`
	AbandonedAt        *time.Time      `json:"abandoned_at,omitempty"`
	AbandonedBy        *string         `json:"abandoned_by,omitempty"`
	AbandonReason      *string         `json:"abandon_reason,omitempty"`
	Now                time.Time       `json:"-"`
}

// reason is why the item isn't on its way, "" where there is nothing to say.
func (it *item) reason() string {
	switch {
	case it.AbandonReason != nil:
		return "abandoned: " + *it.AbandonReason
	case it.LastError != nil:
		return *it.LastError
	case it.QuarantineReason != nil:
		return *it.QuarantineReason
	}
	return ""
}

// selection says which items are meant. The zero value means all.
type selection struct {
	ids       []int64
	states    []string
	attention bool   // only those that wait for a person
	abandoned bool   // the abandoned ones too
	exporter  string // "" for any
	tenant    string // "" for any
	mapping   string // "" for any
	reason    string // quarantine_reason; "" for any
	code      string // what last_error begins with; "" for any
	after     int64  // only ids above
	before    int64  // only ids below; 0 for no bound
	oldest    bool   // oldest first, else newest first
	limit     int
}

// open and attention have indexes of their own; the plan uses them where the selection allows it.
const selectSQL = `
SELECT i.*, clock_timestamp() AS now
  FROM weir.deliveries d
  JOIN weir.items i USING (id)
 WHERE (NOT $1 OR d.attention)
   AND (NOT $2 OR d.open)
   AND ($3::bigint[] IS NULL OR d.id = ANY ($3))
   AND ($4::text[] IS NULL OR d.state = ANY ($4))
   AND ($5 OR d.abandoned_at IS NULL)
   AND ($6 = '' OR d.exporter = $6)
   AND ($7 = '' OR i.tenant_key = $7)
   AND ($8 = '' OR i.mapping_version = $8)
   AND ($9 = '' OR d.quarantine_reason = $9)
   AND ($10 = '' OR starts_with(d.last_error, $10))
   AND d.id > $11
   AND ($12 = 0 OR d.id < $12)
 ORDER BY d.id %s
 LIMIT $13`

// items reads those that s means, s.limit at most.
func items(ctx context.Context, db *pgxpool.Pool, s selection) ([]*item, error) {
	direction := "DESC"
	if s.oldest {
		direction = "ASC"
	}
	rows, err := db.Query(ctx, fmt.Sprintf(selectSQL, direction), s.attention || s.waits(), s.open(), s.ids, s.states,
		s.abandoned || s.ids != nil, s.exporter, s.tenant, s.mapping, s.reason, s.code, s.after, s.before, s.limit)
	if err != nil {
		return nil, fmt.Errorf("read items: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[item])
	if err != nil {
		return nil, fmt.Errorf("read items: %w", err)
	}
	return found, nil
}

// open reports whether all the states that s names are open ones.
func (s selection) open() bool {
	for _, state := range s.states {
		if !machine.State(state).Open() {
			return false
		}
	}
	return len(s.states) > 0
}

// waits reports whether all that s means wait for a person.
func (s selection) waits() bool {
	for _, state := range s.states {
		switch machine.State(state) {
		case machine.Uncertain, machine.Rejected, machine.Quarantined:
		default:
			return false
		}
	}
	return len(s.states) > 0 && !s.abandoned && s.ids == nil
}
