// Package pgtest gives tests a real Postgres.
//
// A test binary has one server, started by the first test that asks and stopped
// by Main; each test has a database of its own on it, dropped with its
// replication slots when the test ends. A test that crashes servers asks for a
// private Cluster.
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
//	func TestX(t *testing.T) {
//		db := pgtest.Migrated(t)               // weir's schema; New(t): empty
//		db.Exec(t, "INSERT INTO …", …)
//		pgtest.Eventually(t, time.Second, func() error { … })
//	}
//
// Replication slots, roles and settings belong to the server, not to a database:
// tests name their slots apart (DB.Name is unique and fits a slot's name).
//
// WEIR_TEST_POSTGRES chooses the server:
//
//	auto    local if the server programs are installed, else docker (default)
//	local   a private cluster of package postgres, data in memory where possible
//	docker  a container; WEIR_TEST_IMAGE names its image (default postgres:17)
//	URL     postgres://… of a running server: superuser, wal_level=logical
//
// A server that can't be had fails the test: a suite that skips what it is for
// would pass everywhere.
package pgtest
