package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// MinMajor is the oldest Postgres that weir runs on: publications with column
// lists arrived in it.
const MinMajor = 15

// Binaries is one installation of the Postgres server programs.
type Binaries struct {
	Dir   string // folder that holds initdb and postgres
	Major int    // major version, e.g. 17
}

// Path is the program's path, e.g. Path("initdb").
func (b Binaries) Path(program string) string { return filepath.Join(b.Dir, program) }

// Find locates the server programs. WEIR_POSTGRES_BIN names their folder and
// then nothing else is tried; otherwise PATH, then the folders that Linux
// packages and Homebrew use, newest version first, then pg_config.
func Find(ctx context.Context) (Binaries, error) {
	if dir := os.Getenv("WEIR_POSTGRES_BIN"); dir != "" {
		b, err := inspect(ctx, dir)
		if err != nil {
			return Binaries{}, fmt.Errorf("WEIR_POSTGRES_BIN: %w: point it at the folder that holds initdb and postgres", err)
		}
		return b, nil
	}
	return firstUsable(ctx, candidates(ctx))
}

func firstUsable(ctx context.Context, dirs []string) (Binaries, error) {
	var rejected []error
	for _, dir := range dirs {
		b, err := inspect(ctx, dir)
		if err == nil {
			return b, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			rejected = append(rejected, err)
		}
	}
	return Binaries{}, errors.Join(fmt.Errorf("%w of version %d or newer: install them (Debian and Ubuntu: apt-get install postgresql) or set WEIR_POSTGRES_BIN to their folder",
		ErrNotInstalled, MinMajor), errors.Join(rejected...))
}

func candidates(ctx context.Context) []string {
	var dirs []string
	if initdb, err := exec.LookPath("initdb"); err == nil {
		// A link stands alone; the other programs are beside what it points at.
		if target, err := filepath.EvalSymlinks(initdb); err == nil {
			dirs = append(dirs, filepath.Dir(target))
		}
	}
	dirs = append(dirs, newestFirst("/usr/lib/postgresql/*/bin")...)
	dirs = append(dirs, newestFirst("/usr/pgsql-*/bin")...)
	dirs = append(dirs, newestFirst("/opt/homebrew/opt/postgresql@*/bin")...)
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	return dirs
}

var digits = regexp.MustCompile(`\d+`)

// newestFirst orders by number: as text, 9 would come before 17.
func newestFirst(pattern string) []string {
	dirs, err := filepath.Glob(pattern)
	if err != nil { // only a malformed pattern, and those are constants
		panic(err)
	}
	version := func(dir string) int {
		numbers := digits.FindAllString(dir, -1)
		if len(numbers) == 0 {
			return 0
		}
		n, err := strconv.Atoi(numbers[len(numbers)-1])
		if err != nil {
			return 0
		}
		return n
	}
	slices.SortStableFunc(dirs, func(a, b string) int { return version(b) - version(a) })
	return dirs
}

func inspect(ctx context.Context, dir string) (Binaries, error) {
	b := Binaries{Dir: dir}
	for _, program := range []string{"initdb", "postgres"} {
		if _, err := os.Stat(b.Path(program)); err != nil {
			return Binaries{}, fmt.Errorf("look for %s: %w", program, err)
		}
	}
	out, err := exec.CommandContext(ctx, b.Path("postgres"), "--version").Output()
	if err != nil {
		return Binaries{}, fmt.Errorf("ask %s for its version: %w", b.Path("postgres"), err)
	}
	// "postgres (PostgreSQL) 15.4 (Debian 15.4-1)", "postgres (PostgreSQL) 18beta1"
	_, version, _ := strings.Cut(string(out), "(PostgreSQL)")
	if b.Major, err = strconv.Atoi(digits.FindString(version)); err != nil {
		return Binaries{}, fmt.Errorf("version of %s: need a number, got %q", b.Path("postgres"), out)
	}
	if b.Major < MinMajor {
		return Binaries{}, fmt.Errorf("%s: need Postgres %d or newer, got %d", dir, MinMajor, b.Major)
	}
	return b, nil
}
