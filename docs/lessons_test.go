// Package docs holds weir's documents. It has only tests, which compare them with the code.
package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	root    = ".."
	lessons = 25 // those with a number
)

var (
	heading  = regexp.MustCompile(`(?m)^## (?:(\d+)\. )?(.+)$`)
	testName = regexp.MustCompile("`([a-z/0-9]+)\\.(Test\\w+)`")
	numbered = regexp.MustCompile(`\blessons? (\d+(?:(?:, | and )\d+)*)`)
	named    = regexp.MustCompile(`\blesson "([^"]+)"`)
	number   = regexp.MustCompile(`\d+`)
)

// section is one lesson: what cites it, and the tests that hold it.
type section struct {
	key   string   // its number, or its name
	tests []string // folder.TestName
}

// sections reads lessons.md.
func sections(t *testing.T) []section {
	t.Helper()
	text, err := os.ReadFile("lessons.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []section
	found := heading.FindAllSubmatchIndex(text, -1)
	for i, at := range found {
		end := len(text)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		s := section{key: string(text[at[4]:at[5]])}
		if at[2] >= 0 {
			s.key = string(text[at[2]:at[3]])
		}
		body := string(text[at[1]:end])
		for _, part := range []string{"\nReports: ", "\nHere: ", "\nHeld by: "} {
			if strings.Count(body, part) != 1 {
				t.Errorf("lesson %s: need one line that begins with %q", s.key, strings.TrimSpace(part))
			}
		}
		_, tests, _ := strings.Cut(body, "\nHeld by: ")
		for _, name := range testName.FindAllStringSubmatch(tests, -1) {
			s.tests = append(s.tests, name[1]+"."+name[2])
		}
		all = append(all, s)
	}
	return all
}

// cited reads the tests of the whole tree: what each one cites in its comment or its body, and where
// anything is cited at all.
func cited(t *testing.T) (by map[string][]string, where map[string]string) {
	t.Helper()
	by, where = map[string][]string{}, map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != root:
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "lessons_test.go":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		for _, key := range keys(string(text)) {
			where[key] = name
		}
		return tests(path, text, func(test, text string) {
			test = filepath.ToSlash(filepath.Dir(name)) + "." + test
			by[test] = append(by[test], keys(text)...)
			if by[test] == nil {
				by[test] = []string{}
			}
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return by, where
}

// tests tells of each top-level function of a file by name, with its comment and its body.
func tests(path string, text []byte, tell func(name, text string)) error {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, path, text, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil {
			continue
		}
		from := f.Pos()
		if f.Doc != nil {
			from = f.Doc.Pos()
		}
		// A citation may stand behind the brace, in the function's first line, or in its last.
		tell(f.Name.Name, string(text[files.Position(from).Offset:files.Position(f.End()).Offset]))
	}
	return nil
}

// keys are the lessons that a text cites.
func keys(text string) []string {
	var all []string
	for _, list := range numbered.FindAllStringSubmatch(text, -1) {
		all = append(all, number.FindAllString(list[1], -1)...)
	}
	for _, name := range named.FindAllStringSubmatch(text, -1) {
		all = append(all, name[1])
	}
	return all
}

func TestLessonsAreHeld(t *testing.T) {
	all := sections(t)
	by, where := cited(t)
	listed := map[string]bool{}
	for i, s := range all {
		if i < lessons && s.key != fmt.Sprint(i+1) {
			t.Errorf("section %d is lesson %s: the numbers stand in their order", i+1, s.key)
		}
		if listed[s.key] {
			t.Errorf("lesson %s is there twice", s.key)
		}
		listed[s.key] = true
		if len(s.tests) == 0 {
			t.Errorf("lesson %s: no test holds it", s.key)
		}
		for _, test := range s.tests {
			cites, exists := by[test]
			switch {
			case !exists:
				t.Errorf("lesson %s: there is no test %s", s.key, test)
			case !slices.Contains(cites, s.key):
				t.Errorf("lesson %s: %s doesn't cite it: say `// lesson %[1]s` where it holds it", s.key, test)
			}
		}
	}
	if len(all) <= lessons {
		t.Errorf("want %d lessons with numbers and some without, got %d", lessons, len(all))
	}
	for key, path := range where {
		if !listed[key] {
			t.Errorf("%s cites lesson %s, which lessons.md doesn't have", path, key)
		}
	}
}
