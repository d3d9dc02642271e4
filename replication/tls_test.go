package replication

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"slices"
	"testing"
	"time"
)

// trickle is a connection whose writes arrive in pieces, each after a pause.
type trickle struct {
	net.Conn
	pause time.Duration
}

func (c *trickle) Write(b []byte) (int, error) {
	written := 0
	for piece := range slices.Chunk(b, 100) {
		<-time.After(c.pause)
		n, err := c.Conn.Write(piece)
		if written += n; err != nil {
			return written, err
		}
	}
	return written, nil
}

// A read deadline in the middle of a TLS record loses nothing either.
func TestMessagesInPiecesOverTLS(t *testing.T) {
	slow := &trickle{}
	connect := func(t *testing.T) (client, server net.Conn) {
		client, slow.Conn = net.Pipe()
		server = tls.Server(slow, &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}})
		client = tls.Client(client, &tls.Config{InsecureSkipVerify: true}) // the test is of deadlines
		done := make(chan error, 1)
		go func() { done <- server.(*tls.Conn).Handshake() }()
		if err := client.(*tls.Conn).Handshake(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		return client, server
	}
	playOver(t, connect, func(f *fake) {
		slow.pause = f.stream.config.statusEvery() * 3 / 2
		f.pass(deliveriesRelation(), beginMessage(), insertMessage("7", "stripe", "pending", nil, dueText, nil), commitMessage(beginning+0x100))
		if got, want := f.log.copy(), []string{"started", "  insert stripe pending", "commit"}; !slices.Equal(got, want) {
			t.Errorf("transcript %q, want %q", got, want)
		}
		if n := len(f.heard()); n < 8 {
			t.Errorf("%d status updates in between, want one for each piece", n)
		}
		slow.pause = 0
	})
}

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
}
