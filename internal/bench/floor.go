package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/weir-relay/weir/machine"
)

// floor is the least that can bring a committed item to the provider: one goroutine that reads the log,
// claims each new item alone, and posts it. No batches, no order, no outcome.
type floor struct {
	stream *pgconn.PgConn
	conn   *pgx.Conn
	store  *machine.Store
	client *http.Client
	target string

	status  time.Time // when the next one is due
	at      pglogrepl.LSN
	pending []int64 // of the open transaction
}

// openFloor connects, with a temporary slot of its own.
func (s *server) openFloor(ctx context.Context, address string) (_ *floor, err error) {
	f := &floor{client: &http.Client{}, target: "http://" + address + "/v1/billing/meter_events"}
	defer func() {
		if err != nil {
			f.close(ctx)
		}
	}()
	if f.conn, err = s.connect(ctx, machine.SessionParameters()); err != nil {
		return nil, err
	}
	f.store = machine.NewStore(f.conn, machine.DefaultPolicy())
	config, err := pgconn.ParseConfig(s.url)
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["replication"] = "database"
	if f.stream, err = pgconn.ConnectConfig(ctx, config); err != nil {
		return nil, err
	}
	made, err := pglogrepl.CreateReplicationSlot(ctx, f.stream, slot+"_floor", "pgoutput",
		pglogrepl.CreateReplicationSlotOptions{Temporary: true, Mode: pglogrepl.LogicalReplication})
	if err != nil {
		return nil, fmt.Errorf("create the floor's slot: %w", err)
	}
	if f.at, err = pglogrepl.ParseLSN(made.ConsistentPoint); err != nil {
		return nil, err
	}
	return f, pglogrepl.StartReplication(ctx, f.stream, slot+"_floor", f.at, pglogrepl.StartReplicationOptions{
		PluginArgs: []string{"proto_version '1'", "publication_names 'weir'"},
	})
}

func (f *floor) close(ctx context.Context) {
	if f.stream != nil {
		f.stream.Close(ctx) //nolint:errcheck // its slot is temporary
	}
	if f.conn != nil {
		f.conn.Close(ctx) //nolint:errcheck // nothing is under way
	}
	f.client.CloseIdleConnections()
}

// run delivers n items.
func (f *floor) run(ctx context.Context, n int) error {
	for sent := 0; sent < n; {
		if !time.Now().Before(f.status) {
			f.status = time.Now().Add(5 * time.Second)
			if err := pglogrepl.SendStandbyStatusUpdate(ctx, f.stream, pglogrepl.StandbyStatusUpdate{WALWritePosition: f.at}); err != nil {
				return err
			}
		}
		message, err := f.stream.ReceiveMessage(ctx)
		if err != nil {
			return err
		}
		data, ok := message.(*pgproto3.CopyData)
		if !ok {
			return fmt.Errorf("the floor's stream: unexpected %T", message)
		}
		if data.Data[0] != pglogrepl.XLogDataByteID {
			continue
		}
		xlog, err := pglogrepl.ParseXLogData(data.Data[1:])
		if err != nil {
			return err
		}
		if !f.heard(xlog.WALData) {
			continue
		}
		for _, id := range f.pending {
			if err := f.deliver(ctx, id); err != nil {
				return err
			}
		}
		sent += len(f.pending)
		f.pending = f.pending[:0]
	}
	return nil
}

// heard takes the ids out of inserts, and says whether their transaction has committed.
func (f *floor) heard(b []byte) (committed bool) {
	switch b[0] {
	case 'I':
		// relation, 'N', number of columns, then the first of them: 't', length, the id as text.
		const length = 1 + 4 + 1 + 2 + 1
		n := int(binary.BigEndian.Uint32(b[length:]))
		var id int64
		for _, digit := range b[length+4 : length+4+n] {
			id = id*10 + int64(digit-'0')
		}
		f.pending = append(f.pending, id)
	case 'C':
		f.at = pglogrepl.LSN(binary.BigEndian.Uint64(b[10:]))
		return true
	}
	return false
}

// deliver claims an item and posts it. The log tells of a commit before everybody sees it, so the first
// claim may come too early.
func (f *floor) deliver(ctx context.Context, id int64) error {
	for {
		items, err := f.store.Claim(ctx, machine.Claimer{Exporter: referenceLane, Owner: "floor"}, []int64{id})
		if err != nil {
			return err
		}
		if len(items) == 1 {
			return f.post(ctx, &items[0])
		}
	}
}

func (f *floor) post(ctx context.Context, it *machine.Item) error {
	form := url.Values{
		"event_name":                  {"requests"},
		"identifier":                  {it.Identifier()},
		"payload[stripe_customer_id]": {"cus_floor"},
		"payload[value]":              {"1"},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, f.target, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+secretKey)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := f.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status + ": " + string(answer))
	}
	return err
}
