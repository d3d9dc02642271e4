package config

import (
	"reflect"
	"slices"
	"strings"
)

// field is a setting: its path, what its tags say, and where its value is.
type field struct {
	path  string
	def   string
	oneOf []string
	value reflect.Value
	owner string // the Go struct and field, by which Reference finds the comment
	name  string
}

// member is a field of a struct that can be set.
type member struct {
	key string
	reflect.StructField
	index int
}

// members lists the fields of a struct that can be set, in their order.
func members(t reflect.Type) []member {
	var out []member
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("yaml"); key != "" {
			out = append(out, member{key, t.Field(i), i})
		}
	}
	return out
}

// leaf is the setting that a member without members of its own is.
func leaf(owner reflect.Type, m member, path string, value reflect.Value) *field {
	return &field{
		path:  path,
		def:   m.Tag.Get("default"),
		oneOf: strings.Fields(m.Tag.Get("oneof")),
		value: value,
		owner: owner.Name(),
		name:  m.Name,
	}
}

// walk visits all settings below v, a struct, in their order; what is in maps, by name.
func walk(v reflect.Value, path string, visit func(*field)) {
	for _, m := range members(v.Type()) {
		child, at := v.Field(m.index), join(path, m.key)
		switch {
		case isLeaf(m.Type):
			visit(leaf(v.Type(), m, at, child))
		case m.Type.Kind() == reflect.Struct:
			walk(child, at, visit)
		default:
			names := make([]string, 0, child.Len())
			for _, k := range child.MapKeys() {
				names = append(names, k.String())
			}
			slices.Sort(names)
			for _, name := range names {
				walk(child.MapIndex(reflect.ValueOf(name)).Elem(), join(at, name), visit)
			}
		}
	}
}

// fields lists the settings of c.
func (c *Config) fields() []*field {
	var out []*field
	walk(reflect.ValueOf(c).Elem(), "", func(f *field) { out = append(out, f) })
	return out
}

// find answers the setting at path, nil where there is none.
func (c *Config) find(path string) *field {
	for _, f := range c.fields() {
		if f.path == path {
			return f
		}
	}
	return nil
}

// fill sets everything below v, a struct, to its default.
func fill(v reflect.Value) {
	walk(v, "", func(f *field) {
		if f.def == "" {
			return
		}
		if err := f.set(f.def); err != nil {
			panic("config: default of " + f.owner + "." + f.name + ": " + err.Error()) // a typing error in a tag
		}
	})
}

// element makes an entry of a map and enters it under name.
func element(m reflect.Value, name string) reflect.Value {
	if m.IsNil() {
		m.Set(reflect.MakeMap(m.Type()))
	}
	v := reflect.New(m.Type().Elem().Elem())
	fill(v.Elem())
	m.SetMapIndex(reflect.ValueOf(name), v)
	return v.Elem()
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
