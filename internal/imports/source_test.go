package imports

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// environment lists the packages that may read the process's environment.
var environment = map[string]string{
	"cmd/weir":                "main hands it to what reads the settings",
	"internal/postgres":       "WEIR_POSTGRES_BIN, and what the server's programs inherit",
	"internal/pgtest":         "WEIR_TEST_POSTGRES: go test hands no arguments to the packages it tests",
	"internal/pgtest/prepare": "the same",
}

// reads are the functions of package os that look at the environment or change it.
var reads = []string{"Getenv", "LookupEnv", "Environ", "ExpandEnv", "Setenv", "Unsetenv", "Clearenv"}

// What a package does depends on what it is given: not on the environment, and not on having been imported.
func TestSource(t *testing.T) {
	for _, p := range packages(t, "./...") {
		name := strings.TrimPrefix(p.ImportPath, module)
		for _, file := range p.GoFiles {
			fset := token.NewFileSet()
			tree, err := parser.ParseFile(fset, filepath.Join(p.Dir, file), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(tree, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					if n.Recv == nil && n.Name.Name == "init" {
						t.Errorf("%v: init(): importing a package does nothing", fset.Position(n.Pos()))
					}
				case *ast.SelectorExpr:
					of, ok := n.X.(*ast.Ident)
					if ok && of.Name == "os" && slices.Contains(reads, n.Sel.Name) && environment[name] == "" {
						t.Errorf("%v: os.%s: take what it says as an argument; only cmd/weir looks", fset.Position(n.Pos()), n.Sel.Name)
					}
				}
				return true
			})
		}
	}
}
