-- PostgreSQL only: what several coordinators on one ledger share beside the tables of 0001 and 0002.

-- What is left of an active party's rows per minute. `tokens` is a whole number (a row costs 60 000 000 000), `filled_at` the
-- database's clock in microseconds. A party without a row has a full minute.
CREATE TABLE rates (
    party BIGINT NOT NULL PRIMARY KEY REFERENCES parties (id),
    tokens TEXT NOT NULL,
    filled_at BIGINT NOT NULL
);

-- `meta` has two rows more: what the coordinators must agree on (`terms`, JSON), and the number of changes of the registry
-- (`registry`), which a coordinator reads with every request.
