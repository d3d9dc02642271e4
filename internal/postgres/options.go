package postgres

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Options says how a private cluster is set up. The zero value is a durable
// server with logical decoding on.
type Options struct {
	// Binaries is the installation to run. Defaults to what Find finds.
	Binaries Binaries

	// Dir is the folder below which the cluster makes a folder of its own.
	// Defaults to /dev/shm if it has a gigabyte to spare, else os.TempDir().
	// In memory an fsync costs nothing: name a folder on a disk to measure one.
	Dir string

	// Keep leaves the folder in place at Stop, to be looked at.
	Keep bool

	// NoFsync turns fsync and full_page_writes off: quicker, and safe against a
	// crash of Postgres, but not against a crash of the machine.
	NoFsync bool

	// SharedBuffers is the setting of that name. Defaults to 128MB.
	SharedBuffers string

	// Settings are put last into postgresql.conf, so they win over all the above
	// and lose to Set.
	Settings map[string]string
}

// settings are in the order in which they are written; the last of a name wins.
func (c *Cluster) settings() []setting {
	list := []setting{
		{"listen_addresses", "127.0.0.1"},
		{"port", strconv.Itoa(c.port)},
		{"unix_socket_directories", c.socketDir()},
		{"wal_level", "logical"},
		{"max_replication_slots", "20"},
		{"max_wal_senders", "20"},
		{"max_connections", "200"},
		{"synchronous_commit", "on"},
		{"fsync", "on"},
		{"full_page_writes", "on"},
		{"shared_buffers", "128MB"},
		{"log_line_prefix", "%m [%p] %q%d %a "},
		{"timezone", "UTC"},
	}
	if c.opts.NoFsync {
		list = append(list, setting{"fsync", "off"}, setting{"full_page_writes", "off"})
	}
	if c.opts.SharedBuffers != "" {
		list = append(list, setting{"shared_buffers", c.opts.SharedBuffers})
	}
	for _, name := range slices.Sorted(maps.Keys(c.opts.Settings)) {
		list = append(list, setting{name, c.opts.Settings[name]})
	}
	return list
}

type setting struct{ name, value string }

// String is the setting's line in postgresql.conf, where, unlike in SQL, a
// backslash has to be doubled too.
func (s setting) String() string {
	return s.name + " = '" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(s.value) + "'\n"
}
