package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-relay/weir/outbox"
)

// enqueueOptions are what the flags of enqueue say.
type enqueueOptions struct {
	format    string
	delimiter string
	errors    string
	dryRun    bool
	example   bool
	batch     int
	defaults  outbox.Item
}

func (a *app) enqueueCommand() *cobra.Command {
	var o enqueueOptions
	c := &cobra.Command{
		Use:   "enqueue [FILE|-]",
		Short: "Put items from NDJSON or CSV into the outbox",
		Long: `Put items into the outbox: NDJSON, one item a line, or CSV with a header.

Keys and columns are tenant_key, subject_kind, subject_ref, exporter, destination_account,
mode, mapping_version, payload, order_key, source, traceparent and quarantine_reason. In CSV
a column such as payload.customer makes the key customer of the payload, always a string, so
that no digit of a number is lost.

Each item is identified by its first seven keys. Running the same file again, after a crash or
by mistake, changes nothing: what is there already is recognised. A bad line is reported
with its number and holds nothing else up.`,
		Example: `  weir enqueue usage.ndjson
  weir enqueue usage.csv --mode live --mapping-version 2025-01 --errors bad.ndjson
  psql -c "COPY (…) TO STDOUT" | weir enqueue - --dry-run`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name := "-"
			if len(args) > 0 {
				name = args[0]
			}
			if o.example && (len(args) > 0 || o.format != "") {
				return usagef("--example brings its own items: leave the file and --format away")
			}
			return a.enqueue(c.Context(), name, o)
		},
	}
	flags := c.Flags()
	flags.StringVar(&o.format, "format", "", "ndjson or csv (default: by the file's extension, else ndjson)")
	flags.StringVar(&o.delimiter, "delimiter", ",", "what separates the columns of CSV")
	flags.StringVar(&o.errors, "errors", "", "write the bad lines to this `file` too, as NDJSON")
	flags.BoolVar(&o.dryRun, "dry-run", false, "only check the lines, without a database")
	flags.BoolVar(&o.example, "example", false, "enqueue made-up usage of 50 customers, instead of a file")
	flags.IntVar(&o.batch, "batch", 1000, "how many items one transaction takes")
	d := &o.defaults
	flags.StringVar(&d.TenantKey, "tenant-key", "", "tenant_key of the lines that have none")
	flags.StringVar(&d.SubjectKind, "subject-kind", "", "subject_kind of the lines that have none (default: usage)")
	flags.StringVar(&d.Exporter, "exporter", "", "exporter of the lines that have none (default: stripe)")
	flags.StringVar(&d.DestinationAccount, "destination-account", "", "destination_account of the lines that have none")
	flags.StringVar(&d.Mode, "mode", "", "mode of the lines that have none: live or test")
	flags.StringVar(&d.MappingVersion, "mapping-version", "", "mapping_version of the lines that have none")
	flags.StringVar(&d.Source, "source", "", "source of the lines that have none")
	return c
}

func (a *app) enqueue(ctx context.Context, name string, o enqueueOptions) error {
	if o.batch < 1 || o.batch > 10000 {
		return usagef("--batch %d: need 1 to 10000", o.batch)
	}
	input, size, err := a.open(ctx, name, o)
	if err != nil {
		return err
	}
	defer input.Close()
	bar := a.progress(size)
	defer bar.Close()
	records, err := o.reader(name, io.TeeReader(input, bar))
	if err != nil {
		return err
	}
	t := &tally{bar: bar, stderr: a.stderr}
	if o.errors != "" {
		file, err := os.Create(o.errors)
		if err != nil {
			return usagef("--errors: %v", err)
		}
		defer file.Close()
		t.file = json.NewEncoder(file)
		t.file.SetEscapeHTML(false)
	}
	var sink sink = discard{t}
	if !o.dryRun {
		pool, err := a.pool(ctx)
		if err != nil {
			return err
		}
		defer pool.Close()
		sink = &loader{pool, t}
	}
	err = pump(ctx, records, o, sink, t)
	bar.Close() //nolint:errcheck // it only draws
	if err != nil && (t.Inserted > 0 || t.Existing > 0) {
		err = fmt.Errorf("%w\n%d items are in the outbox, up to line %d. Run the same command again: what is there already is recognised", err, t.Inserted+t.Existing, t.upTo)
	}
	if err == nil {
		err = t.failed // the file of --errors couldn't be written
	}
	if err != nil {
		return err
	}
	if err := a.emit(t, func(w io.Writer) { t.print(w, o.dryRun) }); err != nil {
		return err
	}
	return findings(int(t.Mismatched + t.Bad))
}

// open opens the input, and answers its size where it has one, else -1.
func (a *app) open(ctx context.Context, name string, o enqueueOptions) (io.ReadCloser, int64, error) {
	if o.example {
		usage, err := a.example(ctx, o.dryRun, o.defaults)
		return io.NopCloser(usage), -1, err
	}
	if name == "-" {
		return io.NopCloser(a.stdin), -1, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, 0, usageError{err}
	}
	size := int64(-1)
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	return file, size, nil
}

// reader chooses how the input is read.
func (o *enqueueOptions) reader(name string, input io.Reader) (reader, error) {
	format := o.format
	if format == "" {
		switch strings.ToLower(filepath.Ext(name)) {
		case ".csv":
			format = "csv"
		case ".ndjson", ".jsonl", ".json", "":
			format = "ndjson"
		default:
			return nil, usagef("%s: say what it is with --format ndjson or --format csv", name)
		}
	}
	switch format {
	case "ndjson":
		return newLines(input), nil
	case "csv":
		return newCSV(input, o.delimiter)
	}
	return nil, usagef("--format %q: need ndjson or csv", format)
}

// pump moves the records into the sink, batch by batch.
func pump(ctx context.Context, records reader, o enqueueOptions, into sink, t *tally) error {
	const bytes = 8 << 20 // of payloads in one batch
	var batch []record
	var held int
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := into.put(ctx, batch)
		batch, held = nil, 0
		return err
	}
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		r, err := records.next()
		if errors.Is(err, io.EOF) {
			return flush()
		}
		if err != nil {
			return errors.Join(fmt.Errorf("read: %w", err), flush())
		}
		t.Read++
		if r.err == nil {
			r.complete(o.defaults)
			r.err = r.item.Validate()
		}
		if r.err != nil {
			t.bad(r, r.err)
			continue
		}
		batch = append(batch, r)
		held += len(r.input)
		if len(batch) >= o.batch || held >= bytes {
			if err := flush(); err != nil {
				return err
			}
		}
	}
}
