package bench

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	h := newHistogram()
	for i := 1; i <= 1000; i++ {
		h.add(time.Duration(i) * time.Millisecond)
	}
	h.add(-time.Second) // a clock that was set back
	h.add(time.Hour)
	d := h.summary()
	near := func(got, want float64) bool { return got > want*0.998 && got < want*1.002 }
	if d.Count != 1002 || !near(d.P50, 500) || !near(d.P99, 991) || !near(d.Max, 600_000) {
		t.Errorf("got %+v", d)
	}
}

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}} {
		if got := median(test.values); got != test.want {
			t.Errorf("median of %v: got %v, want %v", test.values, got, test.want)
		}
	}
}

func TestStatements(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	write := func(text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	write("weir|LOG:  statement: SELECT 'before it was opened'\n")
	log, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.close()
	write(`weir-bench|LOG:  execute <unnamed>: 
	SELECT 'the bench itself'
weir|LOG:  execute stmtcache_1: 
	UPDATE weir.checkpoints
	   SET lsn = $1
weir|DETAIL:  parameters: $1 = '0/1'
|LOG:  checkpoint starting: time
weir|LOG:  statement: -- ping
weir|LOG:  execute stmtcache_2: SELECT active FROM pg_replication_slots
`)
	got, err := log.statements()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"UPDATE weir.checkpoints SET lsn = $1", "-- ping", "SELECT active FROM pg_replication_slots"}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i, purpose := range []purpose{forCheckpoint, forOther, forStatus} {
		if purposeOf(got[i]) != purpose {
			t.Errorf("%q: got purpose %d, want %d", got[i], purposeOf(got[i]), purpose)
		}
	}
}

func TestFloorReads(t *testing.T) {
	var f floor
	insert := []byte{
		'I', 0, 0, 0x40, 0x01, // relation
		'N', 0, 2, // two columns
		't', 0, 0, 0, 4, '1', '7', '2', '9',
		't', 0, 0, 0, 1, 'x',
	}
	commit := append([]byte{'C', 0}, make([]byte, 24)...)
	commit[17] = 9 // end LSN
	for _, b := range [][]byte{{'B'}, insert, {'R'}} {
		if f.heard(b) {
			t.Errorf("%q ends no transaction", b[0])
		}
	}
	if !f.heard(commit) || f.at != 9 || !reflect.DeepEqual(f.pending, []int64{1729}) {
		t.Errorf("got LSN %v, pending %v", f.at, f.pending)
	}
}
