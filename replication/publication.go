package replication

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

const publicationSQL = `
SELECT p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate,
       t.attnames::text[],
       t.rowfilter
  FROM pg_catalog.pg_publication p
  LEFT JOIN pg_catalog.pg_publication_tables t
         ON t.pubname = p.pubname AND t.schemaname = $2 AND t.tablename = $3
 WHERE p.pubname = $1`

// checkPublication demands a publication that tells everything about weir.deliveries that is decoded.
func (c *connection) checkPublication(ctx context.Context) error {
	ctx, cancel := c.brief(ctx)
	defer cancel()
	name := c.config.Publication
	var complete bool
	var published []string
	var filter *string
	err := c.pg.QueryRow(ctx, publicationSQL, name, schema, table).Scan(&complete, &published, &filter)
	const repair = "compare it with the one that `weir migrate` makes, correct it with ALTER PUBLICATION, never drop it"
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return permanent(fmt.Errorf("publication %s is not in database %s", name, c.pg.Config().Database),
			"run `weir migrate up`, or name the database that has it in the replication URL")
	case err != nil:
		return fmt.Errorf("check publication: %w", err)
	case published == nil:
		return permanent(fmt.Errorf("publication %s lacks table %s.%s", name, schema, table), repair)
	case !complete || filter != nil:
		return permanent(fmt.Errorf("publication %s leaves out rows or operations of %s.%s", name, schema, table), repair)
	}
	var missing []string
	for _, column := range columns {
		if !slices.Contains(published, column) {
			missing = append(missing, column)
		}
	}
	if missing != nil {
		return permanent(fmt.Errorf("publication %s lacks the columns %s of %s.%s", name, strings.Join(missing, ", "), schema, table), repair)
	}
	return nil
}
