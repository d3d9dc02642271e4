package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weir-relay/weir/internal/pgtest"
)

// usage is a line of NDJSON.
func usage(ref, value string) string {
	return fmt.Sprintf(`{"tenant_key":"t1","subject_ref":%q,"mode":"test","mapping_version":"1","payload":{"customer":"cus_1","meter":"m","value":%q}}`, ref, value)
}

func countItems(t *testing.T, db *pgtest.DB) (n int) {
	t.Helper()
	if err := db.Pool().QueryRow(t.Context(), `SELECT count(*) FROM weir.items`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestEnqueue(t *testing.T) {
	c, db := onDatabase(t)
	c.stdin = usage("a", "1") + "\n" + usage("b", "2")
	c.run("enqueue").wants(exitOK, "read 2: inserted 2, already there 0, mismatched payload 0, bad 0")
	c.run("enqueue", "-").wants(exitOK, "read 2: inserted 0, already there 2")
	c.stdin = usage("a", "99") + "\n" + usage("c", "3")
	c.run("enqueue").wants(exitFindings, "line 1: is there already as item 1, with another payload", "inserted 1, already there 0, mismatched payload 1")
	if n := countItems(t, db); n != 3 {
		t.Errorf("%d items, want 3", n)
	}
	var got tally
	c.run("enqueue", "--json").json(&got)
	if got.Existing != 1 || got.Mismatched != 1 {
		t.Errorf("got %+v", got)
	}
}

// Whatever a line holds, it is reported with its number, and the good ones around it get in.
func TestEnqueueBadLines(t *testing.T) {
	c, db := onDatabase(t)
	input := []string{
		"\xef\xbb\xbf" + usage("first", "1") + "\r",
		"",
		"   \r",
		"not json",
		usage("trailing", "1") + " garbage",
		usage("two", "1") + usage("three", "1"),
		strings.Replace(usage("bytes", "1"), "cus_1", "cus_\xff", 1),
		`{"tenat_key":"x"}`,
		`[1,2]`,
		`null`,
		strings.Replace(usage("mode", "1"), `"test"`, `7`, 1),
		strings.Replace(usage("mode", "1"), `"test"`, `"prod"`, 1),
		strings.Replace(usage("nul", "1"), "cus_1", `cus_\u0000`, 1),
		strings.Replace(usage("overflow", "1"), `"value":"1"`, `"value":1e999999`, 1), // only Postgres finds this one
		`{"x":"` + strings.Repeat("y", maxRecord) + `"}`,
		usage("exact", "12345678901234567890.123456789"),
		usage("last", "1"),
	}
	if err := os.WriteFile("usage.ndjson", []byte(strings.Join(input, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	r := c.run("enqueue", "usage.ndjson", "--errors", "bad.ndjson").wants(exitFindings,
		"line 4: is not one JSON object", "line 5: is not one JSON object", "line 6: is not one JSON object",
		"line 7: is not valid UTF-8", `line 8: the key "tenat_key" isn't one of an item; did you mean tenant_key?`,
		"line 9: is a JSON array: need an object", "line 10: ", "line 11: mode is a number: need a string",
		`line 12: mode is "prod": use live or test`, "line 13: payload holds", "line 14: ", "line 15: is longer than 4.0 MiB",
		"read 15: inserted 3, already there 0, mismatched payload 0, bad 12")
	for _, line := range []string{"line 1:", "line 2:", "line 3:", "line 16:", "line 17:"} {
		if strings.Contains(r.stderr, line) {
			t.Errorf("%s is reported", line)
		}
	}
	if n := countItems(t, db); n != 3 {
		t.Errorf("%d items, want 3", n)
	}
	var value string
	if err := db.Pool().QueryRow(t.Context(), `SELECT payload->>'value' FROM weir.items WHERE subject_ref = 'exact'`).Scan(&value); err != nil || value != "12345678901234567890.123456789" {
		t.Errorf("value %s, %v", value, err)
	}

	text, err := os.ReadFile("bad.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	var bad struct {
		Line         int
		Error, Input string
	}
	if err := json.Unmarshal([]byte(lines[0]), &bad); err != nil || len(lines) != 12 || bad.Line != 4 || bad.Input != "not json" {
		t.Errorf("%d lines, the first %+v, %v", len(lines), bad, err)
	}
}

// A row that fails in Postgres takes none of its batch with it.
func TestEnqueueBisects(t *testing.T) {
	c, db := onDatabase(t)
	db.Exec(t, `ALTER TABLE weir.outbox ADD CONSTRAINT picky CHECK (subject_ref NOT IN ('r7', 'r8', 'r40'))`)
	var b strings.Builder
	for i := range 50 {
		fmt.Fprintln(&b, usage(fmt.Sprintf("r%d", i), "1"))
	}
	c.stdin = b.String()
	c.run("enqueue", "--batch", "20").wants(exitFindings, "line 8: ", "line 9: ", "line 41: ", "picky", "inserted 47", "bad 3")
	if n := countItems(t, db); n != 47 {
		t.Errorf("%d items, want 47", n)
	}
}

// A database that fails ends the command, and says how to go on.
func TestEnqueueStopsWhenTheDatabaseFails(t *testing.T) {
	c, db := onDatabase(t)
	db.Exec(t, `CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF NEW.subject_ref = 'r3' THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN NEW; END $$`)
	db.Exec(t, `CREATE TRIGGER fail BEFORE INSERT ON weir.outbox FOR EACH ROW EXECUTE FUNCTION fail()`)
	c.stdin = strings.Join([]string{usage("r1", "1"), usage("r2", "1"), usage("r3", "1"), usage("r4", "1")}, "\n")
	c.run("enqueue", "--batch", "2").wants(exitFailed, "2 items are in the outbox, up to line 2. Run the same command again")
	db.Exec(t, `DROP TRIGGER fail ON weir.outbox`)
	c.run("enqueue", "--batch", "2").wants(exitOK, "inserted 2, already there 2")
}

func TestEnqueueDefaults(t *testing.T) {
	c, db := onDatabase(t)
	c.stdin = `{"subject_ref":"a","payload":{}}` + "\n" + `{"subject_ref":"b","payload":{},"mode":"live"}`
	c.run("enqueue", "--tenant-key", "t", "--mode", "test", "--mapping-version", "9", "--exporter", "other", "--source", "s").wants(exitOK, "inserted 2")
	var modes string
	err := db.Pool().QueryRow(t.Context(), `SELECT string_agg(mode || exporter || mapping_version || source, ' ' ORDER BY id) FROM weir.items`).Scan(&modes)
	if err != nil || modes != "testother9s liveother9s" {
		t.Errorf("got %s, %v", modes, err)
	}
}

func TestEnqueueCSV(t *testing.T) {
	c, db := onDatabase(t)
	c.stdin = "\xef\xbb\xbf" + `tenant_key,subject_ref,mode,mapping_version,payload.customer,payload.value,order_key` + "\r\n" +
		`t1,"a, with a comma",test,1,cus_1,0.10000000000000000001,k` + "\r\n" +
		`t1,b,test,1,"cus_` + "\n" + `2",7,` + "\r\n" +
		`t1,c,test` + "\r\n" +
		`t1,d"quote,test,1,cus,1,` + "\r\n" +
		`t1,e,test,1,cus_` + "\xff" + `,1,` + "\r\n" +
		"\r\n" +
		`t1,f,test,1,cus_3,1,` + "\r\n" +
		`t1,"never closed,test,1,x,1,` + "\r\n" + "lost,lost\r\n"
	c.run("enqueue", "--format", "csv").wants(exitFindings,
		"line 5: has 3 columns, the header has 7", "line 6: ", "line 7: payload.customer is not valid UTF-8",
		"line 10: ", "takes everything up to line", "inserted 3", "bad 4")
	var got string
	err := db.Pool().QueryRow(t.Context(), `SELECT string_agg(concat_ws('|', subject_ref, payload->'value', order_key), ' ' ORDER BY id) FROM weir.items`).Scan(&got)
	if want := `a, with a comma|"0.10000000000000000001"|k b|"7" f|"1"`; err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestEnqueueRefusals(t *testing.T) {
	c := newCLI(t, "WEIR_DATABASE_URL=postgres://127.0.0.1:1/d")
	for name, tt := range map[string]struct {
		stdin string
		args  []string
		want  string
	}{
		"column":      {"tenat_key,payload\n", []string{"--format", "csv"}, "did you mean tenant_key?"},
		"twice":       {"mode,mode\n", []string{"--format", "csv"}, `"mode" twice`},
		"two ways":    {"payload,payload.a\n", []string{"--format", "csv"}, "both payload and payload.a"},
		"semicolons":  {"mode;payload\n", []string{"--format", "csv"}, "--delimiter"},
		"delimiter":   {"", []string{"--format", "csv", "--delimiter", "::"}, "need one character"},
		"format":      {"", []string{"--format", "xml"}, "need ndjson or csv"},
		"extension":   {"", []string{"usage.xml"}, "usage.xml"},
		"no file":     {"", []string{"gone.ndjson"}, "gone.ndjson"},
		"batch":       {"", []string{"--batch", "0"}, "--batch 0"},
		"errors file": {"", []string{"--errors", "no/such/folder"}, "--errors"},
	} {
		t.Run(name, func(t *testing.T) {
			c.t, c.stdin = t, tt.stdin
			c.run(append([]string{"enqueue"}, tt.args...)...).wants(exitUsage, tt.want)
		})
	}
}

// --dry-run needs no database.
func TestEnqueueDryRun(t *testing.T) {
	c := newCLI(t)
	c.stdin = usage("a", "1") + "\nnope\n"
	c.run("enqueue", "--dry-run").wants(exitFindings, "line 2: ", "read 2: valid 1, bad 1. Nothing was enqueued.")
}

// A quote that is never closed doesn't take all memory.
func TestEnqueueCSVBudget(t *testing.T) {
	c := newCLI(t)
	c.stdin = "subject_ref,payload\nok,{}\n\"open," + strings.Repeat("x,y\n", maxRecord/2)
	c.run("enqueue", "--dry-run", "--format", "csv", "--tenant-key", "t", "--mode", "test", "--mapping-version", "1").
		wants(exitFindings, "line 3: is longer than 4.0 MiB", "NOTHING BEHIND IT WAS READ", "valid 1")
}

func FuzzLines(f *testing.F) {
	f.Add([]byte(usage("a", "1")))
	f.Add([]byte("{}\n\r\n[]"))
	f.Fuzz(func(t *testing.T, input []byte) {
		l := newLines(strings.NewReader(string(input)))
		for {
			if _, err := l.next(); err != nil {
				return
			}
		}
	})
}

func FuzzCSV(f *testing.F) {
	f.Add([]byte("mode,payload.a\ntest,1\n\"x"))
	f.Fuzz(func(t *testing.T, input []byte) {
		r, err := newCSV(strings.NewReader(string(input)), ",")
		for err == nil {
			_, err = r.next()
		}
	})
}
