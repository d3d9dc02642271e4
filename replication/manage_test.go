package replication

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

func TestCreateThenRun(t *testing.T) {
	r := setUp(t)
	r.insert("stripe", "a", 3)
	at, err := Create(t.Context(), r.config, r.ledger)
	if err != nil || at == 0 {
		t.Fatalf("create: %v, %v", at, err)
	}
	if _, err := Create(t.Context(), r.config, r.ledger); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("create again: %v, want one that says it is there already", err)
	}
	r.insert("stripe", "b", 1)
	r.start().streaming().counted()
	if s := r.stream.Status(); len(s.Recreations) != 0 || r.ledger.rebases() != 1 {
		t.Errorf("recreations %v, rebases %d: want none, the one of Create", s.Recreations, r.ledger.rebases())
	}
	r.stop()
}

func TestDrop(t *testing.T) {
	r := setUp(t).start().streaming()
	if err := Drop(t.Context(), r.config); !errors.Is(err, ErrActive) {
		t.Errorf("drop under a running relay: %v, want ErrActive", err)
	}
	r.stop()
	for range 2 { // the second finds nothing, which is what was wanted
		if err := Drop(t.Context(), r.config); err != nil {
			t.Errorf("drop: %v", err)
		}
	}
	if r.slot().Exists {
		t.Error("the slot is still there")
	}
}

func TestSomebodyElsesSlotIsNotDropped(t *testing.T) {
	r := setUp(t)
	r.exec(`SELECT pg_create_physical_replication_slot($1)`, r.config.Slot)
	r.atEnd(`SELECT pg_drop_replication_slot($1)`, r.config.Slot)
	demandPermanent(t, Drop(t.Context(), r.config), "another slot name")
	if !r.slot().Exists {
		t.Error("it was dropped")
	}
}

func TestRunOnlyOnce(t *testing.T) {
	r := setUp(t).start().streaming()
	demandPermanent(t, r.stream.Run(t.Context()), "another one")
	r.stop()
}

func TestInspect(t *testing.T) {
	r := setUp(t)
	if info := r.slot(); info != (SlotInfo{}) {
		t.Errorf("no slot: %+v", info)
	}
	r.start().streaming()
	r.insert("stripe", "a", 100)
	r.counted()
	info := r.slot()
	if !info.Exists || !info.Logical || !info.Active || info.ActivePID == 0 || info.Plugin != "pgoutput" || info.Temporary {
		t.Errorf("streaming: %+v", info)
	}
	if info.Confirmed == 0 || info.ServerLSN < info.Confirmed || info.LagBytes != int64(info.ServerLSN-info.Confirmed) || info.RetainedBytes <= 0 {
		t.Errorf("positions: %+v", info)
	}
	if info.WALStatus != "reserved" || info.Lost() {
		t.Errorf("WAL status: %+v", info)
	}
	r.stop()
	if info := r.slot(); info.Active || info.ActivePID != 0 {
		t.Errorf("stopped: %+v", info)
	}
}

// With DB set, Status tells of the slot and of how much the server has written.
func TestStatusTellsOfTheSlot(t *testing.T) {
	r := setUp(t)
	r.config.DB = r.pool
	r.start().streaming()
	r.exec(`CREATE TABLE beside ()`) // its commit writes what is inserted so far
	target := r.walPosition()
	r.eventually(func() error {
		if s := r.stream.Status(); !s.Slot.Active || s.ServerEnd < target || s.LastMessage.IsZero() || s.SlotAt.IsZero() {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
	r.stop()
}

// lesson 20: what poolers answer is told from what the server says.
func TestPoolerInBetween(t *testing.T) {
	for name, script := range map[string]func(*pgproto3.Backend){
		"refuses the parameter": func(b *pgproto3.Backend) {
			b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: protocolViolation, Message: "unsupported startup parameter: replication"})
		},
		"swallows the parameter": func(b *pgproto3.Backend) {
			b.Send(&pgproto3.AuthenticationOk{})
			b.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
			_ = b.Flush()
			if _, err := b.Receive(); err != nil { // is it a standby?
				return
			}
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 0")})
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
			_ = b.Flush()
			if _, err := b.Receive(); err != nil { // IDENTIFY_SYSTEM
				return
			}
			b.Send(&pgproto3.ErrorResponse{Severity: "ERROR", Code: syntaxError, Message: `syntax error at or near "IDENTIFY_SYSTEM"`})
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		},
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			go func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					backend := pgproto3.NewBackend(conn, conn)
					if _, err := backend.ReceiveStartupMessage(); err == nil {
						script(backend)
						_ = backend.Flush()
						_, _ = backend.Receive()
					}
					conn.Close()
				}
			}()
			r := newRig(t, "postgres://u@"+listener.Addr().String()+"/d?sslmode=disable", nil, "weir")
			r.start()
			demandPermanent(t, r.result(), "pooler")
		})
	}
}
