package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// apply sets what the file's text says.
func (c *Config) apply(text []byte) []error {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return []error{&Error{Origin{"file", c.file}, "", strings.TrimPrefix(err.Error(), "yaml: ")}}
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return []error{&Error{Origin{"file", c.file}, "", "holds more than one YAML document: keep one, and remove the line ---"}}
	}
	r := reader{config: c}
	r.group(document.Content[0], reflect.ValueOf(c).Elem(), "")
	return r.errs
}

// reader walks the file's nodes and the structs side by side.
type reader struct {
	config *Config
	errs   []error
}

func (r *reader) place(n *yaml.Node) Origin {
	return Origin{"file", fmt.Sprintf("%s:%d", r.config.file, n.Line)}
}

func (r *reader) refuse(n *yaml.Node, path, problem string) {
	r.errs = append(r.errs, &Error{r.place(n), path, problem})
}

// group reads a mapping into v: a struct, whose keys are known, or a map, whose keys are names.
func (r *reader) group(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return // everything below it is commented out
	}
	if n.Kind != yaml.MappingNode {
		r.refuse(n, path, "holds "+kind(n)+" where keys are expected")
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := join(path, key.Value)
		if first, ok := seen[key.Value]; ok {
			r.refuse(key, at, fmt.Sprintf("stands here for the second time, after line %d: keep one", first))
			continue
		}
		seen[key.Value] = key.Line
		if v.Kind() == reflect.Map {
			r.entry(key, value, v, at)
		} else {
			r.member(key, value, v, at)
		}
	}
}

// entry reads one name of a map.
func (r *reader) entry(key, value *yaml.Node, m reflect.Value, path string) {
	if m.Type() == reflect.TypeFor[map[string]*Lane]() && !laneName.MatchString(key.Value) {
		r.refuse(key, path, fmt.Sprintf("%q is no name of a lane: use a to z, 0 to 9 and _, beginning with a letter, at most 63", key.Value))
		return
	}
	r.group(value, element(m, key.Value), path)
}

// laneName is what the schema allows in weir.outbox.exporter.
var laneName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// member reads one key of a struct.
func (r *reader) member(key, value *yaml.Node, v reflect.Value, path string) {
	var keys []string
	for _, m := range members(v.Type()) {
		if m.key == key.Value {
			if isLeaf(m.Type) {
				r.leaf(value, leaf(v.Type(), m, path, v.Field(m.index)))
			} else {
				r.group(value, v.Field(m.index), path)
			}
			return
		}
		keys = append(keys, m.key)
	}
	hint := didYouMean(key.Value, keys)
	if hint == "" {
		hint = "; known here: " + strings.Join(keys, ", ")
	}
	r.refuse(key, path, "there is no such key"+hint)
}

func (r *reader) leaf(n *yaml.Node, f *field) {
	at := r.place(n)
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if words, ok := sequence(n); ok && f.value.Type() == reflect.TypeFor[Words]() {
		if err := r.config.assign(f, words, at); err != nil {
			r.errs = append(r.errs, err)
		}
		return
	}
	switch {
	case n.Kind != yaml.ScalarNode:
		r.refuse(n, f.path, "holds "+kind(n)+" where one value is expected")
	case n.Value == "" && n.Tag == "!!null":
		r.refuse(n, f.path, "has no value: give one, or remove the line")
	default:
		// The text as it is written: 'type: null' means the word.
		if err := r.config.assign(f, n.Value, at); err != nil {
			r.errs = append(r.errs, err)
		}
	}
}

// sequence is a list of plain values, with commas between them; "" where it has none.
func sequence(n *yaml.Node) (words string, ok bool) {
	var list []string
	for _, item := range n.Content {
		if item.Kind != yaml.ScalarNode {
			return "", false
		}
		list = append(list, item.Value)
	}
	return strings.Join(list, ","), n.Kind == yaml.SequenceNode
}

func kind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "keys"
	}
	return fmt.Sprintf("the value %q", n.Value)
}
