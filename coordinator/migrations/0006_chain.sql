-- The chain of releases: a link for the commits of each second that changed what was spent, in their order, whichever coordinator made it.
-- `coordinator ledger verify` checks it against the tables of 0001.
CREATE TABLE chain (
    number BIGINT NOT NULL PRIMARY KEY,
    -- Whole Unix seconds.
    at BIGINT NOT NULL,
    -- The public key of the coordinator that made it (Ed25519, hexadecimal); empty for a link of `coordinator ledger retain`.
    author TEXT NOT NULL,
    -- JSON: what was added to the sums, and the hash of the link before.
    content TEXT NOT NULL,
    -- BLAKE3 of all of the above, and the author's signature of it.
    hash TEXT NOT NULL,
    signature TEXT NOT NULL,
    -- 1: the content has the sums themselves. Links before the last of these may be removed.
    whole BIGINT NOT NULL
) /* clustered */;

CREATE INDEX chain_whole ON chain (whole, number);
