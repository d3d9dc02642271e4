package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// Cluster is a private Postgres server. Its methods may be called from several
// goroutines; those that start or stop the server take turns.
type Cluster struct {
	bin      Binaries
	opts     Options
	as       account
	folder   *folder
	password string

	mu      sync.Mutex // held while the server is started or stopped
	port    int        // never changes once Start has returned
	server  *process   // the latest postmaster, perhaps dead
	stopped bool       // Stop was called: the folder may be gone
}

// Start makes a cluster and returns when it accepts connections. The context
// bounds the start, not the life of the server.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	c, err := newCluster(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("start private Postgres: %w", err)
	}
	if err := c.create(ctx); err != nil {
		return nil, fmt.Errorf("start private Postgres: %w", errors.Join(err, c.Stop()))
	}
	return c, nil
}

func newCluster(ctx context.Context, opts Options) (*Cluster, error) {
	c := &Cluster{bin: opts.Binaries, opts: opts, password: rand.Text()}
	var err error
	if c.bin.Dir == "" {
		if c.bin, err = Find(ctx); err != nil {
			return nil, err
		}
	}
	if c.as, err = serverAccount(); err != nil {
		return nil, err
	}
	if c.folder, err = newFolder(opts, c.as); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Cluster) create(ctx context.Context) error {
	passwordFile, err := c.writePassword()
	if err != nil {
		return err
	}
	err = run(ctx, c.as, c.folder.path, c.bin.Path("initdb"),
		"--pgdata", c.dataDir(), "--username", "postgres", "--pwfile", passwordFile,
		"--auth-local", "trust", "--auth-host", "password",
		"--encoding", "UTF8", "--locale", "C", "--no-sync")
	if err := errors.Join(err, os.Remove(passwordFile)); err != nil {
		return err
	}
	return c.startOnFreePort(ctx)
}

// writePassword hands the password to initdb in a file: everybody on the
// machine can read arguments.
func (c *Cluster) writePassword() (string, error) {
	path := filepath.Join(c.folder.path, "password")
	if err := os.WriteFile(path, []byte(c.password+"\n"), 0o600); err != nil {
		return "", err
	}
	if c.as.switched {
		return path, os.Chown(path, c.as.uid, c.as.gid)
	}
	return path, nil
}

// startOnFreePort tries again when somebody took the port between our look at
// it and the server's bind.
func (c *Cluster) startOnFreePort(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		port, err := FreePort()
		if err != nil {
			return err
		}
		c.port = port
		if err := c.configure(); err != nil {
			return err
		}
		err = c.launch(ctx)
		if err == nil || ctx.Err() != nil || c.server == nil || c.server.running() || portIsFree(port) {
			return err
		}
	}
}

// configure appends: initdb's file holds only comments and defaults, and the
// last line of a name wins.
func (c *Cluster) configure() error {
	f, err := os.OpenFile(filepath.Join(c.dataDir(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	var text strings.Builder
	text.WriteString("\n# written by weir\n")
	for _, s := range c.settings() {
		text.WriteString(s.String())
	}
	_, err = f.WriteString(text.String())
	return errors.Join(err, f.Close())
}

// launch starts the postmaster and waits until it answers. c.mu is held.
func (c *Cluster) launch(ctx context.Context) error {
	log, err := os.OpenFile(c.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the server has its own descriptor by then
	cmd := exec.Command(c.bin.Path("postgres"), "-D", c.dataDir())
	cmd.Dir = c.folder.path
	cmd.Stdout, cmd.Stderr = log, log
	if c.server, err = startProcess(cmd, c.as); err != nil {
		return err
	}
	return c.waitReady(ctx)
}

// Dir is the cluster's private folder.
func (c *Cluster) Dir() string { return c.folder.path }

// Log is the path of the server's log.
func (c *Cluster) Log() string { return filepath.Join(c.folder.path, "postgres.log") }

// Port is the loopback TCP port. It stays the same over Restart.
func (c *Cluster) Port() int { return c.port }

// Major is the server's major version, e.g. 17.
func (c *Cluster) Major() int { return c.bin.Major }

// URL is a connection string for one database, over loopback TCP so that a
// proxy can be put between. The user is a superuser that may replicate.
func (c *Cluster) URL(database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword("postgres", c.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

func (c *Cluster) dataDir() string { return filepath.Join(c.folder.path, "data") }

// socketDir is empty, which means no socket, when its path would be too long
// for the kernel (108 bytes with ".s.PGSQL.65535" and a zero).
func (c *Cluster) socketDir() string {
	if len(c.folder.path) > 90 {
		return ""
	}
	return c.folder.path
}
