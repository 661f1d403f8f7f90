-- The query ledger. One text for SQLite and PostgreSQL: plain types, times in whole Unix seconds (UTC).
-- Where a table ends in the comment `clustered`, SQLite gets WITHOUT ROWID there (one tree instead of two); PostgreSQL
-- reads a comment.

-- Facts about the ledger: the fingerprint of the server's noise secret, the key of erased record ids, the budgets in force.
CREATE TABLE meta (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) /* clustered */;

-- The active parties, and how many distinct records each has asked for (erased ones included).
CREATE TABLE parties (
    id BIGINT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    records BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE models (
    id BIGINT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);

CREATE TABLE policies (
    id BIGINT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);

-- Who asked for which record under which model and policy, how often, when. `record` is the record id, or `erased:` and
-- 128 hexadecimal digits. A time is NULL where retention or erasure has forgotten it.
CREATE TABLE uses (
    party BIGINT NOT NULL REFERENCES parties (id),
    record TEXT NOT NULL,
    model BIGINT NOT NULL REFERENCES models (id),
    policy BIGINT NOT NULL REFERENCES policies (id),
    queries BIGINT NOT NULL,
    first_at BIGINT,
    last_at BIGINT,
    -- The hash of the first logit share of this record and model, in the row that bound it; NULL in the others.
    share TEXT,
    PRIMARY KEY (party, record, model, policy)
) /* clustered */;

-- The sums of `uses`, with the rows that were refused (they are counted in `queries` too).
CREATE TABLE totals (
    party BIGINT NOT NULL REFERENCES parties (id),
    model BIGINT NOT NULL REFERENCES models (id),
    policy BIGINT NOT NULL REFERENCES policies (id),
    queries BIGINT NOT NULL,
    refused BIGINT NOT NULL,
    first_at BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    PRIMARY KEY (party, model, policy)
) /* clustered */;

-- Requests that a retry may repeat: the verdicts of their rows in order, run by run (`120G1S3R`: 120 granted, 1 with a
-- changed share, 3 over the budget of their record).
CREATE TABLE requests (
    party BIGINT NOT NULL REFERENCES parties (id),
    request_id TEXT NOT NULL,
    body_hash TEXT NOT NULL,
    verdicts TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (party, request_id)
) /* clustered */;

CREATE INDEX requests_at ON requests (at);

-- Erased records: a keyed hash of each id, under which its counts live on in `uses`.
CREATE TABLE erased (
    record TEXT NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL
) /* clustered */;
