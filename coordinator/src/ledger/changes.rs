//! The additions of granted rows to the table `uses`, in groups that one statement writes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use vfl_core::hex;

use super::decide::PartyState;

/// The addition to one row of `uses`.
#[derive(Clone, Copy)]
pub(super) struct UseDelta {
    pub(super) queries: i64,
    pub(super) first_at: i64,
    pub(super) last_at: i64,
    pub(super) bind: Option<[u8; 16]>,
}

impl UseDelta {
    /// Returns the addition of one query, at a time in Unix seconds.
    pub(super) fn one(at: i64, bind: Option<[u8; 16]>) -> Self {
        Self { queries: 1, first_at: at, last_at: at, bind }
    }

    /// Adds another addition to the same row.
    pub(super) fn add(&mut self, other: &Self) {
        self.queries = self.queries.saturating_add(other.queries);
        self.first_at = self.first_at.min(other.first_at);
        self.last_at = self.last_at.max(other.last_at);
        self.bind = self.bind.or(other.bind);
    }
}

/// A class of rows of `uses` that change in the same way, and are written by one statement.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UseGroup {
    pub(super) model: i64,
    pub(super) policy: i64,
    pub(super) queries: i64,
    /// The time of the first of these queries, in Unix seconds.
    pub(super) first_at: i64,
    /// The time of the last of them.
    pub(super) last_at: i64,
    /// True if each row carries the hash of a share that it binds.
    pub(super) binds: bool,
}

/// Collects what a group changes for one party. Rows are in the order of their records, for the
/// sake of the database's trees; those of a class that binds begin with the digits of the share's
/// hash.
pub(super) fn changes<'a>(state: &'a PartyState<'_>) -> BTreeMap<UseGroup, Vec<Cow<'a, str>>> {
    let mut touches: BTreeMap<(&str, i64, i64), UseDelta> = BTreeMap::new();
    for granted in &state.granted {
        for &(slot, binds) in &granted.rows {
            let Some((record, entry)) = state.records.get(slot as usize) else { continue };
            let touch = UseDelta::one(granted.at, entry.bound(granted.passive).filter(|_| binds));
            let row = touches.entry((record, granted.model, granted.policy));
            row.and_modify(|sum| sum.add(&touch)).or_insert(touch);
        }
    }
    let mut changes: BTreeMap<UseGroup, Vec<Cow<'a, str>>> = BTreeMap::new();
    for ((record, model, policy), UseDelta { queries, first_at, last_at, bind }) in touches {
        let class = UseGroup { model, policy, queries, first_at, last_at, binds: bind.is_some() };
        let row = match bind {
            None => Cow::Borrowed(record),
            Some(share) => Cow::Owned(hex(share) + record),
        };
        changes.entry(class).or_default().push(row);
    }
    changes
}
