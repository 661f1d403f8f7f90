-- The journal of `uses`: what large groups of requests add to that table, one row a commit, until it is added. A few seconds' worth at most,
-- and nothing while the coordinator has had nothing to do for a moment or is stopped. `coordinator/src/ledger/journal.rs` has the format.
CREATE TABLE journal (
    number INTEGER PRIMARY KEY,
    content BLOB NOT NULL
);
