package config

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
)

// The comments of config.go are the reference, so that there is one text and not two that drift apart.
//
//go:embed config.go
var source string

// Reference is the table of all settings, in Markdown.
func Reference() string {
	c := &Config{}
	root := reflect.ValueOf(c).Elem()
	fill(root)
	element(root.FieldByName("Lanes"), "<lane>")
	stripe := reflect.ValueOf(&c.Lanes["<lane>"].Stripe).Elem()
	element(stripe.FieldByName("Meters"), "<event_name>")
	element(stripe.FieldByName("Mapping").FieldByName("Features"), "<feature>")

	meanings := comments()
	var b strings.Builder
	b.WriteString("| Key | Environment | Default | Meaning |\n| --- | --- | --- | --- |\n")
	for _, f := range c.fields() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.path, code(strings.Join(variables(f.path), " ")), code(f.def), meanings[f.owner+"."+f.name])
	}
	return b.String()
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

// comments are what stands above the fields in config.go, by Struct.Field.
func comments() map[string]string {
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		panic("config: config.go doesn't parse: " + err.Error()) // it was compiled
	}
	out := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if s, ok := spec.Type.(*ast.StructType); ok {
			for _, f := range s.Fields.List {
				for _, name := range f.Names {
					out[spec.Name.Name+"."+name.Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
				}
			}
		}
		return false
	})
	return out
}
