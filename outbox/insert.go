package outbox

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

type scan func(columns ...any) error

// The items travel as one JSON text: every driver can send it, and it is one round trip for any number.
//
// The snapshot of the statement hides the row of a transaction that committed while INSERT waited for it.
// Such an item is not in the answer, and a second run finds the row.
//
// LIMIT 1 keeps LATERAL a look-up by index for each item that was there. As a plain join, it could be
// planned, and cached, as a scan of the whole outbox.
const insert = `
WITH given AS MATERIALIZED (
    SELECT g.*, decode(g.hash, 'hex') AS identity
      FROM jsonb_to_recordset($1::text::jsonb) AS g (
           n int, hash text, tenant_key text, subject_kind text, subject_ref text, exporter text,
           destination_account text, mode text, mapping_version text, payload jsonb,
           order_key text, source text, traceparent text, quarantine_reason text)
), inserted AS (
    INSERT INTO weir.outbox (tenant_key, subject_kind, subject_ref, exporter, destination_account, mode,
                             mapping_version, payload, order_key, source, traceparent, quarantine_reason)
    SELECT tenant_key, subject_kind, subject_ref, exporter, destination_account, mode,
           mapping_version, payload, order_key, source, traceparent, quarantine_reason
      FROM given
     ORDER BY n
        ON CONFLICT DO NOTHING
 RETURNING id, identity, payload
)
SELECT g.n, coalesce(i.id, o.id), i.id IS NULL, coalesce(i.payload, o.payload) <> g.payload
  FROM given g
  LEFT JOIN inserted i USING (identity)
  LEFT JOIN LATERAL (
       SELECT id, payload
         FROM weir.outbox
        WHERE i.id IS NULL AND identity = g.identity
        LIMIT 1) o ON true
 WHERE i.id IS NOT NULL OR o.id IS NOT NULL
 ORDER BY g.n`

// runs bounds the runs of insert. Each further one means that an item came or went meanwhile.
const runs = 10

// line is an item as insert reads it.
type line struct {
	N    int    `json:"n"`
	Hash string `json:"hash"`
	Item
	// DestinationAccount hides the item's, whose "" would be left out and so become NULL.
	DestinationAccount string `json:"destination_account"`
}

// enqueue runs insert until each item has its id.
func enqueue(items []Item, run func(given string, each func(scan) error) error) ([]Receipt, error) {
	lines, err := encode(items)
	if err != nil {
		return nil, err
	}
	var mismatched []Mismatch
	receipts := make([]Receipt, len(items))
	seen := make(map[int64]bool, len(items))
	answer := func(scan scan) error {
		var n int
		var id int64
		var existing, mismatch bool
		if err := scan(&n, &id, &existing, &mismatch); err != nil {
			return err
		}
		identifier := "weir_" + lines[n].Hash
		receipts[n] = Receipt{id, identifier, existing || seen[id]}
		seen[id] = true
		if mismatch {
			mismatched = append(mismatched, Mismatch{n, id, lines[n].SubjectRef, identifier})
		}
		return nil
	}
	missing := lines
	for range runs {
		if len(missing) == 0 {
			break
		}
		given, err := json.Marshal(missing)
		if err != nil {
			return nil, fmt.Errorf("enqueue: %w", err)
		}
		if err := run(string(given), answer); err != nil {
			return nil, fmt.Errorf("enqueue: %w", err)
		}
		missing = slices.DeleteFunc(slices.Clone(missing), func(l line) bool { return receipts[l.N].ID != 0 })
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("enqueue: item %d (%s) conflicts with one that cannot be seen, in %d runs: repeat the transaction",
			missing[0].N, missing[0].SubjectRef, runs)
	}
	if mismatched != nil {
		slices.SortFunc(mismatched, func(a, b Mismatch) int { return a.Index - b.Index })
		return receipts, fmt.Errorf("enqueue: %w", &PayloadMismatchError{mismatched})
	}
	return receipts, nil
}

// encode checks items and gives them their hashes.
func encode(items []Item) ([]line, error) {
	lines := make([]line, len(items))
	for n, it := range items {
		it = it.withDefaults()
		payload, err := it.check()
		if err != nil {
			return nil, fmt.Errorf("enqueue: item %d: %w", n, err)
		}
		it.Payload = payload
		hash := it.identity()
		lines[n] = line{n, hex.EncodeToString(hash[:]), it, it.DestinationAccount}
	}
	return lines, nil
}
