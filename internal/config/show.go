package config

// Setting is one setting as it is in effect.
type Setting struct {
	Path   string `json:"path"`
	Value  string `json:"value"` // secrets are redacted
	Origin string `json:"origin"`
}

// Settings lists all settings in the order of the reference.
func (c *Config) Settings() []Setting {
	var out []Setting
	for _, f := range c.fields() {
		out = append(out, Setting{f.path, f.text(), c.origins[f.path].String()})
	}
	return out
}
