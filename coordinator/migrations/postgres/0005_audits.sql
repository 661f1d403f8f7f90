-- PostgreSQL only: audit sessions that several coordinators serve. Times are the database's clock, in whole Unix seconds.

CREATE TABLE audit_sessions (
    name TEXT NOT NULL PRIMARY KEY,
    model TEXT NOT NULL,
    passive TEXT NOT NULL,
    active_party TEXT NOT NULL,
    -- JSON.
    policy TEXT NOT NULL,
    -- One id a line.
    records TEXT NOT NULL,
    rows_left BIGINT NOT NULL,
    opened_at BIGINT NOT NULL
);

-- The records of a session that were released: each is measured by its first release.
CREATE TABLE audit_released (
    session TEXT NOT NULL REFERENCES audit_sessions (name) ON DELETE CASCADE,
    record TEXT NOT NULL,
    PRIMARY KEY (session, record)
);

-- Rows released, and what the first releases among them cost, in sums.
CREATE TABLE audit_costs (
    session TEXT NOT NULL REFERENCES audit_sessions (name) ON DELETE CASCADE,
    released BIGINT NOT NULL,
    cost TEXT NOT NULL
);
CREATE INDEX audit_costs_session ON audit_costs (session);

-- The first logit share of each record asked for in sessions about one set of passive parameters, hashed.
CREATE TABLE audit_bound (
    passive TEXT NOT NULL,
    record TEXT NOT NULL,
    share TEXT NOT NULL,
    PRIMARY KEY (passive, record)
);

-- The sets that were summarised, as the file `audited.sets` of a state directory has them: one row.
CREATE TABLE audit_sets (
    id BIGINT NOT NULL PRIMARY KEY,
    content BYTEA NOT NULL
);
