-- Models by what their passive parties contribute, versions that the operator approved, and how a ledger is recognised.

-- The fingerprint of the passive parties' parameters: versions that share it are one model. NULL in rows of before, as long
-- as the coordinator does not find the version's manifest: such a version is a model of its own.
ALTER TABLE models ADD COLUMN fingerprint TEXT;

-- Models under which a record may be answered beyond `models_per_record`.
CREATE TABLE approvals (
    fingerprint TEXT NOT NULL PRIMARY KEY,
    -- The version that was named.
    model TEXT NOT NULL,
    at BIGINT NOT NULL
) /* clustered */;

-- What an operator has done to the ledger as a whole: begun it anew, approved a version.
CREATE TABLE events (
    id BIGINT NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL,
    what TEXT NOT NULL
);

-- A running coordinator reads the approvals again when this number changes.
INSERT INTO meta (name, value) VALUES ('approvals', '0');

-- From here on `uses` counts granted rows only; refused ones are in `totals`. `meta` has the ledger's random id (`ledger_id`),
-- the number of commits that changed it (`mark`), and the id of the ledger it was begun in place of (`replaces`).
