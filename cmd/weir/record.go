package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/weir-relay/weir/internal/config"
	"github.com/weir-relay/weir/outbox"
)

// record is one item of the input, or what is wrong with it.
type record struct {
	line  int // where it begins, counted from 1
	item  outbox.Item
	err   error
	input string // as it was read
}

// reader yields the records of an input, then io.EOF. Any other error ends the input.
type reader interface {
	next() (record, error)
}

// complete fills in what the line leaves out.
func (r *record) complete(defaults outbox.Item) {
	for _, f := range []struct{ value, fallback *string }{
		{&r.item.TenantKey, &defaults.TenantKey},
		{&r.item.SubjectKind, &defaults.SubjectKind},
		{&r.item.Exporter, &defaults.Exporter},
		{&r.item.DestinationAccount, &defaults.DestinationAccount},
		{&r.item.Mode, &defaults.Mode},
		{&r.item.MappingVersion, &defaults.MappingVersion},
		{&r.item.Source, &defaults.Source},
	} {
		if *f.value == "" {
			*f.value = *f.fallback
		}
	}
}

// maxRecord bounds what one item may take in the input.
const maxRecord = 4 << 20

// utf8BOM is what some programs put before UTF-8.
const utf8BOM = "\xef\xbb\xbf"

// lines reads NDJSON. It holds one line at a time, and none that is longer than maxRecord.
type lines struct {
	in   *bufio.Reader
	line int
}

func newLines(in io.Reader) *lines { return &lines{in: bufio.NewReaderSize(in, 64<<10)} }

func (l *lines) next() (record, error) {
	for {
		text, long, err := l.read()
		if err != nil {
			return record{}, err
		}
		l.line++
		if l.line == 1 {
			text = bytes.TrimPrefix(text, []byte(utf8BOM))
		}
		text = bytes.TrimSpace(text)
		if len(text) == 0 && !long {
			continue
		}
		r := record{line: l.line, input: string(text)}
		switch {
		case long:
			r.input = ""
			r.err = fmt.Errorf("is longer than %s", bytesText(maxRecord))
		case !utf8.Valid(text):
			r.input = ""
			r.err = errors.New("is not valid UTF-8")
		default:
			r.err = problem(json.Unmarshal(text, &r.item))
		}
		return r, nil
	}
}

// read answers the next line. One that is too long is passed over.
func (l *lines) read() (text []byte, long bool, err error) {
	for {
		part, err := l.in.ReadSlice('\n')
		if len(text)+len(part) > maxRecord {
			long, text = true, nil
		}
		if !long {
			text = append(text, part...)
		}
		switch {
		case err == nil:
			return text, long, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && (long || len(text) > 0):
			return text, long, nil
		default:
			return nil, false, err
		}
	}
}

// problem says what is wrong with a line in the words of those who write it.
func problem(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntax):
		return fmt.Errorf("is not one JSON object: at byte %d: %w", syntax.Offset, syntax)
	case errors.As(err, &kind) && kind.Field == "":
		return fmt.Errorf("is a JSON %s: need an object", kind.Value)
	case errors.As(err, &kind):
		return fmt.Errorf("%s is a %s: need a string", kind.Field[strings.LastIndexByte(kind.Field, '.')+1:], kind.Value)
	}
	// encoding/json has no type for this one.
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return unknownKey(strings.Trim(name, `"`), "key")
	}
	return err
}

// unknownKey refuses a key or column that an item doesn't have.
func unknownKey(name, what string) error {
	keys := itemKeys()
	if near := config.Nearest(name, keys); near != "" {
		return fmt.Errorf("the %s %q isn't one of an item; did you mean %s?", what, name, near)
	}
	return fmt.Errorf("the %s %q isn't one of an item: there are %s", what, name, strings.Join(keys, ", "))
}

// itemKeys are the names of an item's fields in JSON.
func itemKeys() []string {
	var keys []string
	t := reflect.TypeFor[outbox.Item]()
	for i := range t.NumField() {
		key, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		keys = append(keys, key)
	}
	return keys
}
