-- PostgreSQL only: the models that several coordinators have in common. Without `shared = true` these tables stay empty.

-- Published versions: the manifest as the state directories have it.
CREATE TABLE versions (
    version TEXT NOT NULL PRIMARY KEY,
    manifest BYTEA NOT NULL,
    -- Its top model, if it has one (otherwise empty), and the fingerprint of its passive parameters.
    top TEXT NOT NULL,
    passive TEXT NOT NULL,
    at BIGINT NOT NULL
);

-- Top models, by the SHA-256 of their file.
CREATE TABLE tops (
    digest TEXT NOT NULL PRIMARY KEY,
    content BYTEA NOT NULL
);

-- Scores that defenses are fitted on, by the fingerprint of the passive parameters. The first ones stay.
CREATE TABLE calibrations (
    passive TEXT NOT NULL PRIMARY KEY,
    content BYTEA NOT NULL
);

-- The records of every training that ever began, one id a line, by the SHA-256 of that text; numbered in the order in which they came.
CREATE TABLE trained (
    ids TEXT NOT NULL PRIMARY KEY,
    number BIGINT NOT NULL UNIQUE,
    records TEXT NOT NULL,
    at BIGINT NOT NULL
);

-- The version in service; empty: none.
INSERT INTO meta (name, value) VALUES ('current', '');
