package migrations

import "github.com/pressly/goose/v3"

// Latest is the number of the newest migration that this program brings.
func Latest() int64 {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic("migrations: " + err.Error()) // they are embedded
	}
	var latest int64
	for _, entry := range entries {
		if n, err := goose.NumericComponent(entry.Name()); err == nil {
			latest = max(latest, n)
		}
	}
	return latest
}
