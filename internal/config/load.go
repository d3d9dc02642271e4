package config

import (
	"errors"
	"os"
	"reflect"
)

// Sources is where Load looks.
type Sources struct {
	// File is the YAML file. "": the one that WEIR_CONFIG names, else weir.yaml where there is one, else none.
	File string
	// Env is the environment, as in os.Environ.
	Env []string
	// Flags are settings given on the command line, the last of a path wins.
	Flags []Flag
}

// Flag is a setting given on the command line.
type Flag struct {
	Name  string // as it was typed, for messages: --database-url
	Path  string
	Value string
}

// DefaultFile is read from the working directory where no other file is named.
const DefaultFile = "weir.yaml"

// Load reads the settings and checks them. Its error joins one *Error for each problem.
func Load(s Sources) (*Config, error) {
	c := &Config{origins: map[string]Origin{}}
	fill(reflect.ValueOf(c).Elem())
	env := environment(s.Env)

	c.file = s.File
	if c.file == "" {
		c.file = env[fileVariable]
	}
	text, err := read(&c.file)
	if err != nil {
		return nil, err
	}
	errs := c.apply(text)
	if len(c.Lanes) == 0 {
		element(reflect.ValueOf(c).Elem().FieldByName("Lanes"), "stripe")
	}
	errs = append(errs, c.applyEnv(env)...)
	errs = append(errs, c.applyFlags(s.Flags)...)
	c.resolve()
	if len(errs) == 0 {
		errs = c.validate()
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return c, nil
}

// resolve replaces what stands for another value by that value.
func (c *Config) resolve() {
	if c.Database.ReplicationURL == "" {
		c.Database.ReplicationURL = c.Database.URL
	}
	if c.HTTP.Listen == "off" {
		c.HTTP.Listen = ""
	}
	if c.HTTP.Webhooks == "off" {
		c.HTTP.Webhooks = ""
	}
}

// read answers the file's text. Without a name it tries DefaultFile, and clears name where that isn't there.
func read(name *string) ([]byte, error) {
	optional := *name == ""
	if optional {
		*name = DefaultFile
	}
	text, err := os.ReadFile(*name)
	switch {
	case optional && errors.Is(err, os.ErrNotExist):
		*name = ""
		return nil, nil
	case err != nil:
		return nil, &Error{Problem: "read the configuration: " + err.Error() + ": name another file with --config or " + fileVariable}
	}
	return text, nil
}

// File is the file that was read, "" where there was none.
func (c *Config) File() string { return c.file }

// Origin is where the value of path comes from.
func (c *Config) Origin(path string) Origin { return c.origins[path] }

// assign sets a setting, or answers what is wrong with the value.
func (c *Config) assign(f *field, text string, from Origin) error {
	if err := f.set(text); err != nil {
		return &Error{from, f.path, err.Error()}
	}
	c.origins[f.path] = from
	return nil
}

// applyFlags sets what the command line gives.
func (c *Config) applyFlags(flags []Flag) []error {
	var errs []error
	for _, given := range flags {
		from := Origin{"flag", given.Name}
		f := c.find(given.Path)
		if f == nil {
			errs = append(errs, &Error{from, given.Path, "there is no such setting" + didYouMean(given.Path, c.paths())})
			continue
		}
		if err := c.assign(f, given.Value, from); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func (c *Config) paths() []string {
	var paths []string
	for _, f := range c.fields() {
		paths = append(paths, f.path)
	}
	return paths
}
