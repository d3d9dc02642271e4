package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// readJSON reads an admin request.
func readJSON(r *http.Request, into any) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, 16<<20))
	if err != nil {
		return fmt.Errorf("read body: %w", err)
	}
	return unmarshalStrict(body, into)
}

// unmarshalStrict refuses unknown members: a misspelt option must not be ignored.
func unmarshalStrict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("decode JSON: %w", err)
	}
	return nil
}

func unmarshalOneOrMany[T any](data []byte, into *[]T) error {
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && trimmed[0] == '[' {
		return unmarshalStrict(data, into)
	}
	var one T
	if err := unmarshalStrict(data, &one); err != nil {
		return err
	}
	*into = []T{one}
	return nil
}
