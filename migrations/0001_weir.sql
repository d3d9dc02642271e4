-- +goose Up

-- The intent: what should be sent. Written once by the producer, never updated, removed only by retention.
CREATE TABLE weir.outbox (
    id                  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,

    -- The identity: seven texts that say which billable fact this is.
    tenant_key          text NOT NULL,                       -- the producer's name for its customer
    subject_kind        text NOT NULL DEFAULT 'usage',       -- what kind of fact: usage, correction, …
    subject_ref         text NOT NULL,                       -- which fact: one usage event, one window, …
    exporter            text NOT NULL DEFAULT 'stripe',      -- the lane that sends it
    destination_account text NOT NULL DEFAULT '',            -- the provider's account; '' is the key's own
    mode                text NOT NULL,                       -- live or test
    mapping_version     text NOT NULL,                       -- the version of the mapping that made the payload

    payload             jsonb NOT NULL,                      -- the financial intent
    order_key           text,                                -- ordering policies: items with one key keep their order
    source              text,                                -- ordering policies: the producing context
    traceparent         text,                                -- W3C trace context of the producer
    quarantine_reason   text,                                -- set: the producer already knows it must not go out yet
    inserted_at         timestamptz NOT NULL DEFAULT clock_timestamp(),

    -- sha256 over the seven, separated by U+001F. Nothing but the seven takes part, so a retried
    -- producer collapses into the row that is there, and a resend carries the same identifier.
    -- decode(replace(…), 'escape') is the immutable way from text to its bytes; convert_to is only stable.
    identity            bytea NOT NULL GENERATED ALWAYS AS (sha256(decode(replace(
                            tenant_key || E'\x1f' || subject_kind || E'\x1f' || subject_ref || E'\x1f' || exporter || E'\x1f' ||
                            destination_account || E'\x1f' || mode || E'\x1f' || mapping_version, '\', '\\'), 'escape'))) STORED,

    CONSTRAINT outbox_identity_key UNIQUE (identity),
    -- Without the separator inside the columns no two identities can share one hash input.
    CONSTRAINT outbox_separator_check CHECK (strpos(tenant_key || subject_kind || subject_ref || exporter ||
                            destination_account || mode || mapping_version, E'\x1f') = 0),
    CONSTRAINT outbox_tenant_key_check CHECK (length(tenant_key) BETWEEN 1 AND 255),
    CONSTRAINT outbox_subject_kind_check CHECK (length(subject_kind) BETWEEN 1 AND 63),
    CONSTRAINT outbox_subject_ref_check CHECK (length(subject_ref) BETWEEN 1 AND 1024),
    CONSTRAINT outbox_exporter_check CHECK (exporter ~ '^[a-z][a-z0-9_]{0,62}$'),
    CONSTRAINT outbox_destination_account_check CHECK (length(destination_account) <= 255),
    CONSTRAINT outbox_mode_check CHECK (mode IN ('live', 'test')),
    CONSTRAINT outbox_mapping_version_check CHECK (length(mapping_version) BETWEEN 1 AND 63),
    CONSTRAINT outbox_payload_check CHECK (jsonb_typeof(payload) = 'object'),
    CONSTRAINT outbox_order_key_check CHECK (length(order_key) BETWEEN 1 AND 255),
    CONSTRAINT outbox_source_check CHECK (length(source) BETWEEN 1 AND 255),
    CONSTRAINT outbox_quarantine_reason_check CHECK (quarantine_reason ~ '^[a-z][a-z0-9_]{0,62}$')
);

-- Where each item stands. One narrow row an item, rewritten at every transition.
--
-- No index may name a column that a claim changes (state, lease_*, attempts, next_attempt_at), not even
-- in its predicate: every claim would then be a non-HOT update. Indexes stand on generated columns instead.
--
-- A claim makes the row half as long again, and a sweep claims whole pages of rows at once: the fillfactor leaves
-- room on each page for a second version of every row, or half of a sweep's updates would leave their pages.
--
-- There is no foreign key to weir.outbox: its check would lock, and so rewrite, the outbox row's header at
-- every insert. The trigger below is the only writer of new rows, and retention removes both rows together.
CREATE TABLE weir.deliveries (
    id                bigint PRIMARY KEY,                    -- weir.outbox.id
    lease_token       bigint NOT NULL DEFAULT 0,             -- the fence: +1 at every claim
    next_attempt_at   timestamptz NOT NULL DEFAULT clock_timestamp(), -- pending: due from then on
    first_attempt_at  timestamptz,                           -- the horizon starts here; moved by no retry
    lease_expires_at  timestamptz,                           -- leased: free for another claim after this
    accepted_at       timestamptz,
    confirmed_at      timestamptz,
    abandoned_at      timestamptz,
    attempts          integer NOT NULL DEFAULT 0,            -- +1 at every claim, so a crash counts
    open              boolean NOT NULL GENERATED ALWAYS AS (state IN ('pending', 'leased')) STORED,
    attention         boolean NOT NULL GENERATED ALWAYS AS (state IN ('uncertain', 'rejected', 'quarantined')
                                                            AND abandoned_at IS NULL) STORED,
    exporter          text NOT NULL,
    state             text NOT NULL,
    from_state        text,                                  -- what the last transition left; NULL: none yet
    order_key         text,                                  -- from weir.outbox, for ordered lanes
    source            text,                                  -- likewise; '' where there is only an order_key
    lease_owner       text,
    provider_ref      text,                                  -- what the provider calls it
    last_error        text,                                  -- sanitised: code, status, at most 200 characters
    quarantine_reason text,
    abandoned_by      text,
    abandon_reason    text,

    CONSTRAINT deliveries_state_check CHECK (state IN
        ('pending', 'leased', 'accepted', 'confirmed', 'uncertain', 'rejected', 'quarantined')),
    CONSTRAINT deliveries_from_state_check CHECK (from_state IN
        ('pending', 'leased', 'accepted', 'confirmed', 'uncertain', 'rejected', 'quarantined')),
    CONSTRAINT deliveries_lease_check CHECK ((state = 'leased') = (lease_owner IS NOT NULL)
                                             AND (lease_owner IS NULL) = (lease_expires_at IS NULL)),
    CONSTRAINT deliveries_attempts_check CHECK (attempts BETWEEN 0 AND lease_token),
    CONSTRAINT deliveries_first_attempt_check CHECK (attempts = 0 OR first_attempt_at IS NOT NULL),
    CONSTRAINT deliveries_accepted_check CHECK (state NOT IN ('accepted', 'confirmed') OR accepted_at IS NOT NULL),
    CONSTRAINT deliveries_confirmed_check CHECK ((state = 'confirmed') = (confirmed_at IS NOT NULL)),
    CONSTRAINT deliveries_quarantined_check CHECK ((state = 'quarantined') = (quarantine_reason IS NOT NULL)),
    CONSTRAINT deliveries_reason_check CHECK (state NOT IN ('uncertain', 'rejected') OR last_error IS NOT NULL),
    CONSTRAINT deliveries_last_error_check CHECK (length(last_error) <= 300),
    CONSTRAINT deliveries_abandoned_check CHECK ((abandoned_at IS NULL) = (abandoned_by IS NULL)
                                                 AND (abandoned_at IS NULL) = (abandon_reason IS NULL)
                                                 AND (abandoned_at IS NULL OR state IN ('rejected', 'quarantined')))
) WITH (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_insert_scale_factor = 0.05);

-- Sweeps: the open items of one exporter, in id order. Each stays as long as its item is open.
CREATE INDEX deliveries_open_idx ON weir.deliveries (exporter, id) WHERE open;
-- Ordered lanes: is an earlier item with this key still open? Empty where nobody orders.
CREATE INDEX deliveries_order_idx ON weir.deliveries (exporter, source, order_key, id)
    WHERE open AND (order_key IS NOT NULL OR source IS NOT NULL);
-- The queue of the items that wait for a person.
CREATE INDEX deliveries_attention_idx ON weir.deliveries (id) WHERE attention;

-- What the stream has seen. One row a slot: the counts are those at exactly this LSN.
CREATE TABLE weir.checkpoints (
    slot              text PRIMARY KEY,
    system_identifier text NOT NULL,                         -- IDENTIFY_SYSTEM's systemid
    timeline          integer NOT NULL,
    lsn               pg_lsn NOT NULL,                       -- every transaction that ended before it is counted
    counts            jsonb NOT NULL,                        -- {exporter: {state: items}}
    inexact           boolean NOT NULL DEFAULT false,        -- rows were changed unaccountably, and not counted since
    updated_at        timestamptz NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT checkpoints_lsn_check CHECK (lsn > '0/0'),
    CONSTRAINT checkpoints_counts_check CHECK (jsonb_typeof(counts) = 'object')
);

-- What people did to items, and why. Written in the transaction of the deed.
CREATE TABLE weir.operations (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor      text NOT NULL,
    action     text NOT NULL,
    item_id    bigint NOT NULL,                              -- weir.outbox.id; outlives the item
    from_state text NOT NULL,
    to_state   text NOT NULL,
    reason     text NOT NULL,

    CONSTRAINT operations_actor_check CHECK (actor <> ''),
    CONSTRAINT operations_reason_check CHECK (reason <> '')
);
CREATE INDEX operations_item_idx ON weir.operations (item_id);

-- Consumers' side: which messages have been handled. Written in the transaction of the effect.
CREATE TABLE weir.inbox (
    consumer    text NOT NULL,
    message_id  text NOT NULL,
    received_at timestamptz NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT inbox_pkey PRIMARY KEY (consumer, message_id),
    CONSTRAINT inbox_consumer_check CHECK (consumer <> ''),
    CONSTRAINT inbox_message_id_check CHECK (message_id <> '')
);

-- Both rows of every item, for people.
CREATE VIEW weir.items AS
SELECT o.id, d.state, d.exporter, o.tenant_key, o.subject_kind, o.subject_ref, o.destination_account, o.mode,
       o.mapping_version, 'weir_' || encode(o.identity, 'hex') AS identifier, o.payload, o.order_key, o.source,
       o.traceparent, o.inserted_at, d.from_state, d.attempts, d.next_attempt_at, d.first_attempt_at, d.lease_owner,
       d.lease_expires_at, d.lease_token, d.provider_ref, d.accepted_at, d.confirmed_at, d.last_error,
       d.quarantine_reason, d.abandoned_at, d.abandoned_by, d.abandon_reason
  FROM weir.outbox o
  JOIN weir.deliveries d USING (id);

-- +goose StatementBegin
-- T0 and T0q: every row that enters the outbox gets its delivery in the same transaction. The definer's
-- rights let a producer do with INSERT on weir.outbox alone.
CREATE FUNCTION weir.stage() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    INSERT INTO weir.deliveries (id, exporter, state, quarantine_reason, order_key, source)
    SELECT i.id, i.exporter, CASE WHEN i.quarantine_reason IS NULL THEN 'pending' ELSE 'quarantined' END,
           i.quarantine_reason, i.order_key, CASE WHEN i.order_key IS NULL THEN i.source ELSE coalesce(i.source, '') END
      FROM inserted i;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER stage AFTER INSERT ON weir.outbox
    REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION weir.stage();

-- +goose StatementBegin
CREATE FUNCTION weir.refuse_update() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    RAISE EXCEPTION 'weir.outbox: rows are immutable'
        USING ERRCODE = 'restrict_violation',
              HINT = 'Insert a correction with a subject_ref of its own.';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER immutable BEFORE UPDATE ON weir.outbox
    FOR EACH STATEMENT EXECUTE FUNCTION weir.refuse_update();

-- +goose StatementBegin
CREATE FUNCTION weir.refuse_transition() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    RAISE EXCEPTION 'weir.deliveries: no transition of item % from % (said to be %) to %',
                    OLD.id, OLD.state, coalesce(NEW.from_state, 'none'), NEW.state
        USING ERRCODE = 'restrict_violation',
              HINT = 'Use weir''s commands; each update sets from_state to the state that it leaves.';
END
$$;
-- +goose StatementEnd
-- The last line of defence: no statement, whoever wrote it, takes an edge that the machine does not have.
-- WHEN is evaluated without a call; AFTER, since BEFORE would lock, and so log, every row first.
CREATE TRIGGER transition AFTER UPDATE ON weir.deliveries FOR EACH ROW
    WHEN (NEW.from_state IS DISTINCT FROM OLD.state
          OR NEW.lease_token < OLD.lease_token
          OR NEW.id <> OLD.id
          OR NEW.exporter <> OLD.exporter
          OR OLD.state || '>' || NEW.state NOT IN (
             'pending>leased', 'leased>leased', 'leased>accepted', 'leased>pending', 'leased>uncertain',
             'leased>rejected', 'leased>quarantined', 'accepted>confirmed', 'uncertain>accepted',
             'uncertain>pending', 'uncertain>rejected', 'quarantined>pending', 'accepted>rejected',
             'rejected>rejected', 'quarantined>quarantined'))
    EXECUTE FUNCTION weir.refuse_transition();

-- +goose StatementBegin
-- The identity of the seven, as the generated column computes it.
CREATE FUNCTION weir.identity(tenant_key text, subject_kind text, subject_ref text, exporter text,
                              destination_account text, mode text, mapping_version text)
RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN
    sha256(decode(replace(tenant_key || E'\x1f' || subject_kind || E'\x1f' || subject_ref || E'\x1f' || exporter || E'\x1f' ||
           destination_account || E'\x1f' || mode || E'\x1f' || mapping_version, '\', '\\'), 'escape'));
-- +goose StatementEnd

-- +goose StatementBegin
-- Enqueues one item in the caller's transaction and answers its id, also where the same item is there already.
-- Raises WE001 where it is there with another payload: the first one stands, and the caller must know.
CREATE FUNCTION weir.enqueue(tenant_key text, subject_ref text, mode text, mapping_version text, payload jsonb,
                             subject_kind text DEFAULT 'usage', exporter text DEFAULT 'stripe',
                             destination_account text DEFAULT '', order_key text DEFAULT NULL, source text DEFAULT NULL,
                             traceparent text DEFAULT NULL, quarantine_reason text DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog AS $$
#variable_conflict use_variable
DECLARE
    item  bigint;
    known jsonb;
BEGIN
    INSERT INTO weir.outbox (tenant_key, subject_kind, subject_ref, exporter, destination_account, mode,
                             mapping_version, payload, order_key, source, traceparent, quarantine_reason)
    VALUES (tenant_key, subject_kind, subject_ref, exporter, destination_account, mode,
            mapping_version, payload, order_key, source, traceparent, quarantine_reason)
    ON CONFLICT DO NOTHING
    RETURNING id INTO item;
    IF item IS NOT NULL THEN
        RETURN item;
    END IF;
    SELECT o.id, o.payload INTO STRICT item, known
      FROM weir.outbox o
     WHERE o.identity = weir.identity(tenant_key, subject_kind, subject_ref, exporter,
                                      destination_account, mode, mapping_version);
    IF known IS DISTINCT FROM payload THEN
        RAISE EXCEPTION 'weir.enqueue: item % (%) is there with another payload', item, subject_ref
            USING ERRCODE = 'WE001',
                  HINT = 'A changed payload needs a subject_ref of its own: send the difference as a correction.';
    END IF;
    RETURN item;
END
$$;
-- +goose StatementEnd

-- What the relay's slot reads. Only what it takes to wake a lane and to keep the counts.
CREATE PUBLICATION weir FOR TABLE weir.deliveries (id, exporter, state, from_state, next_attempt_at, lease_expires_at);

-- +goose Down
DROP PUBLICATION weir;
DROP FUNCTION weir.enqueue, weir.identity;
DROP VIEW weir.items;
DROP TABLE weir.inbox, weir.operations, weir.checkpoints, weir.deliveries, weir.outbox;
DROP FUNCTION weir.stage, weir.refuse_update, weir.refuse_transition;
