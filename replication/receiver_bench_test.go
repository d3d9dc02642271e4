package replication

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// counting is a handler that does as little as one can.
type counting struct{ changes, commits int }

func (c *counting) Started()        {}
func (c *counting) Begin(time.Time) {}
func (c *counting) Change(*Change)  { c.changes++ }
func (c *counting) Commit(LSN)      { c.commits++ }
func (c *counting) Idle(LSN)        {}
func (c *counting) Stopped()        {}

// BenchmarkReceive is what one message costs from the socket to the handler, in transactions of the given
// number of changes.
func BenchmarkReceive(b *testing.B) {
	for name, size := range map[string]int{"single changes": 1, "bulk": 1000} {
		b.Run(name, func(b *testing.B) { benchmarkReceive(b, size) })
	}
}

func benchmarkReceive(b *testing.B, size int) {
	client, server := loopback(b)
	frame := func(m raw) []byte {
		m = xlogData(time.Now(), m)
		return raw{'d'}.int32(4 + len(m)).bytes(string(m))
	}
	transaction := frame(beginMessage())
	for range size {
		transaction = append(transaction, frame(updateMessage("1234567", "stripe", "leased", "pending", dueText, leaseText))...)
	}
	transaction = append(transaction, frame(commitMessage(beginning+0x100))...)

	go func() { // the answers to nobody
		scratch := make([]byte, 4096)
		for {
			if _, err := server.Read(scratch); err != nil {
				return
			}
		}
	}()
	handler := &counting{}
	s := New(Config{Logger: slog.New(slog.DiscardHandler)}, handler, &memory{durable: beginning})
	done := make(chan error, 1)
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		w := newWire(client, pgproto3.NewFrontend(client, client), s.config)
		done <- s.receive(context.Background(), w, func() {}, beginning)
	}()
	if _, err := server.Write(frame(deliveriesRelation())); err != nil {
		b.Fatal(err)
	}
	rounds := max(1, b.N/size)
	for range rounds {
		if _, err := server.Write(transaction); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := server.Write(raw{'c'}.int32(4)); err != nil { // CopyDone
		b.Fatal(err)
	}
	if err := <-done; !errors.Is(err, errEnded) {
		b.Fatal(err)
	}
	b.StopTimer()
	if handler.changes != rounds*size || handler.commits != rounds {
		b.Fatalf("%d changes in %d transactions, want %d in %d", handler.changes, handler.commits, rounds*size, rounds)
	}
	b.ReportMetric(float64(handler.changes)/b.Elapsed().Seconds(), "changes/s")
}

func loopback(b *testing.B) (client, server net.Conn) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	if client, err = net.Dial("tcp", listener.Addr().String()); err != nil {
		b.Fatal(err)
	}
	if server, err = listener.Accept(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}
