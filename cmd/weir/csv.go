package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weir-relay/weir/outbox"
)

// payloadPrefix begins the names of the columns that make the payload.
const payloadPrefix = "payload."

// table of CSV: a header, then a record an item.
type csvReader struct {
	in      *csv.Reader
	budget  *budget
	columns []string
	ended   bool
}

// newCSV reads the header. What is wrong with it is wrong with the whole file.
func newCSV(in io.Reader, delimiter string) (*csvReader, error) {
	comma, n := utf8.DecodeRuneInString(delimiter)
	if n != len(delimiter) || comma == '"' || comma == '\r' || comma == '\n' || comma == utf8.RuneError {
		return nil, usagef("--delimiter %q: need one character, such as a comma or a semicolon", delimiter)
	}
	b := &budget{in: in, left: maxRecord}
	r := &csvReader{in: csv.NewReader(b), budget: b}
	r.in.Comma = comma
	r.in.FieldsPerRecord = -1
	header, err := r.in.Read()
	if errors.Is(err, io.EOF) {
		r.ended = true
		return r, nil
	}
	if err != nil {
		return nil, usagef("read the header of the CSV: %v", err)
	}
	header[0] = strings.TrimPrefix(header[0], utf8BOM)
	r.columns = header
	return r, r.checkHeader()
}

func (r *csvReader) checkHeader() error {
	if len(r.columns) == 1 && strings.ContainsAny(r.columns[0], ";\t|,") {
		return usagef("the header is the one column %q: name what separates the columns with --delimiter", r.columns[0])
	}
	keys := itemKeys()
	for i, c := range r.columns {
		switch {
		case slices.Contains(r.columns[:i], c):
			return usagef("the header names the column %q twice", c)
		case c == payloadPrefix:
			return usagef("the header has the column %q: write the key behind the dot", c)
		case !strings.HasPrefix(c, payloadPrefix) && !slices.Contains(keys, c):
			return usageError{unknownKey(c, "column")}
		case strings.HasPrefix(c, payloadPrefix) && slices.Contains(r.columns, "payload"):
			return usagef("the header has both payload and %s: use one way to write the payload", c)
		}
	}
	return nil
}

func (r *csvReader) next() (record, error) {
	if r.ended {
		return record{}, io.EOF
	}
	r.budget.left = maxRecord
	fields, err := r.in.Read()
	var syntax *csv.ParseError
	switch {
	case errors.Is(err, errBudget):
		r.ended = true
		line, _ := r.in.FieldPos(0)
		return record{line: line, err: fmt.Errorf("is longer than %s, probably since a quote isn't closed: NOTHING BEHIND IT WAS READ", bytesText(maxRecord))}, nil
	case errors.As(err, &syntax):
		text := syntax.Err.Error()
		if syntax.Line > syntax.StartLine {
			text += fmt.Sprintf(": the quote that it opens takes everything up to line %d", syntax.Line)
		}
		return record{line: syntax.StartLine, err: errors.New(text)}, nil
	case err != nil:
		return record{}, err
	}
	line, _ := r.in.FieldPos(0)
	rec := record{line: line, input: r.text(fields)}
	rec.item, rec.err = r.item(fields)
	return rec, nil
}

// item makes an item of a record. An empty cell is as good as none.
func (r *csvReader) item(fields []string) (outbox.Item, error) {
	if len(fields) != len(r.columns) {
		return outbox.Item{}, fmt.Errorf("has %d columns, the header has %d", len(fields), len(r.columns))
	}
	keys, payload := map[string]any{}, map[string]string{}
	for i, c := range r.columns {
		value := fields[i]
		key, inPayload := strings.CutPrefix(c, payloadPrefix)
		switch {
		case !utf8.ValidString(value):
			return outbox.Item{}, fmt.Errorf("%s is not valid UTF-8", c)
		case value == "":
		case inPayload:
			payload[key] = value
		case c == "payload":
			if !json.Valid([]byte(value)) {
				return outbox.Item{}, errors.New("payload is not JSON")
			}
			keys[c] = json.RawMessage(value)
		default:
			keys[c] = value
		}
	}
	if len(payload) > 0 {
		keys["payload"] = payload
	}
	text, err := json.Marshal(keys)
	if err != nil {
		return outbox.Item{}, err
	}
	var it outbox.Item
	return it, problem(json.Unmarshal(text, &it))
}

// text is a record as CSV.
func (r *csvReader) text(fields []string) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	w.Comma = r.in.Comma
	w.Write(fields) //nolint:errcheck // into memory
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}

// errBudget says that one record has taken too much.
var errBudget = errors.New("the record is too long")

// budget bounds what is read for one record: a quote that is never closed would take all memory.
type budget struct {
	in   io.Reader
	left int
}

func (b *budget) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errBudget
	}
	n, err := b.in.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
