-- +goose Up

-- The accepted items that wait for evidence, and how long each has waited. A claim changes neither column, so it
-- stays HOT, and accepting an item, which is never HOT, writes one entry of 16 bytes more. A generated column
-- would do the same, but adding one rewrites the table. An expression index on weir.outbox's payload would find a
-- bucket's items directly, at the price of an entry at every insert; the reconciler reads all that waits anyway.
CREATE INDEX deliveries_awaiting_idx ON weir.deliveries (accepted_at) WHERE accepted_at IS NOT NULL AND confirmed_at IS NULL;

-- What has been confirmed of each bucket: the usage of one customer on one meter in one hour. The items may be gone
-- by now. The exporter stands for the provider's account, since a lane sends to one.
CREATE TABLE weir.buckets (
    exporter   text NOT NULL,
    mode       text NOT NULL,                                -- live or test
    meter      text NOT NULL,                                -- its event name
    customer   text NOT NULL,                                -- the provider's
    hour       timestamptz NOT NULL,                         -- in which the usage happened; its start, UTC
    events     bigint NOT NULL DEFAULT 0,                    -- confirmed, less those that confirmed items took back
    value      numeric NOT NULL DEFAULT 0,                   -- their sum
    last_at    timestamptz,                                  -- the latest of them: when it happened
    last_value numeric,                                      -- and its value
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT buckets_pkey PRIMARY KEY (exporter, mode, meter, customer, hour),
    CONSTRAINT buckets_hour_check CHECK (extract(epoch FROM hour) % 3600 = 0),
    CONSTRAINT buckets_last_check CHECK ((last_at IS NULL) = (last_value IS NULL))
);
CREATE INDEX buckets_hour_idx ON weir.buckets (hour);        -- for their removal

-- Buckets whose number in the provider's books differs from weir's, or may only happen to be equal. Nothing of them is
-- confirmed until they agree.
CREATE TABLE weir.drifts (
    exporter      text NOT NULL,
    mode          text NOT NULL,
    meter         text NOT NULL,
    customer      text NOT NULL,
    hour          timestamptz NOT NULL,
    formula       text NOT NULL,                             -- how the meter aggregates: sum, count or last
    expected      numeric NOT NULL,                          -- by what weir has sent
    found         numeric NOT NULL,                          -- in the provider's books
    side          text NOT NULL,                             -- who has more: provider, weir; or unclear
    why           text NOT NULL,                             -- it is unclear; '' where the numbers just differ
    candidates    jsonb NOT NULL,                            -- [{id, state, value, why}]: items that would explain it
    checks        integer NOT NULL DEFAULT 1,                -- how often it has been found
    next_check_at timestamptz NOT NULL,                      -- not read again for its sake before
    found_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    checked_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    resolved_at   timestamptz,                               -- the sums agree since
    acknowledged_by    text,                                 -- who took what the provider has more for known
    acknowledge_reason text,

    CONSTRAINT drifts_pkey PRIMARY KEY (exporter, mode, meter, customer, hour),
    CONSTRAINT drifts_side_check CHECK (side IN ('provider', 'weir', 'unclear')),
    CONSTRAINT drifts_acknowledged_check CHECK ((acknowledged_by IS NULL) = (acknowledge_reason IS NULL)),
    CONSTRAINT drifts_candidates_check CHECK (jsonb_typeof(candidates) = 'array')
);
CREATE INDEX drifts_open_idx ON weir.drifts (exporter, side) WHERE resolved_at IS NULL;

-- What the provider reported as failed after it had accepted it, and what could not be settled at once: an item that
-- is named but not accepted yet, or a number of events that aren't named at all.
CREATE TABLE weir.suspects (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    exporter    text NOT NULL,
    event_id    text NOT NULL,                               -- of the report
    code        text NOT NULL,                               -- why they failed
    detail      text NOT NULL,                               -- code and explanation, as last_error keeps them
    meter       text NOT NULL DEFAULT '',                    -- the provider's id of the meter, '' where it isn't known
    identity    bytea,                                       -- weir.outbox.identity of the one that is named
    events      bigint NOT NULL,                             -- how many: 1 where it is named; 0 where it isn't said
    from_at     timestamptz,                                 -- when the provider looked at them
    to_at       timestamptz,
    reported_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    settled_at  timestamptz,                                 -- nothing is to be done any more

    CONSTRAINT suspects_events_check CHECK (events >= 0)
);
CREATE INDEX suspects_open_idx ON weir.suspects (exporter, id) WHERE settled_at IS NULL;

-- One row a lane: whose turn it is to reconcile, and what it may read. A row instead of an advisory lock, since those
-- belong to a session, and poolers share sessions out.
CREATE TABLE weir.reconcilers (
    exporter     text PRIMARY KEY,
    owner        text NOT NULL,                              -- who had the last pass, for people
    passes       bigint NOT NULL DEFAULT 1,
    next_pass_at timestamptz NOT NULL,                       -- whoever moves it on has the pass
    reads        double precision NOT NULL,                  -- that the provider may be asked, at reads_at
    reads_at     timestamptz NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT reconcilers_reads_check CHECK (reads >= 0)
);

-- +goose Down
DROP TABLE weir.reconcilers, weir.suspects, weir.drifts, weir.buckets;
DROP INDEX weir.deliveries_awaiting_idx;
