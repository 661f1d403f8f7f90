//! The chain of releases: a signed link for the commits of each second that changed what was spent.
//!
//! A link has what its commits added to the sums of the ledger and the hash of the link before it,
//! and is signed by the coordinator that made it. Commits of all coordinators of a ledger come one
//! after another, and so do their links: signing a link signs everything before it, the links of
//! the other coordinators included. A writer of the database who is not a coordinator can neither
//! take a release out of the sums nor a link out of the chain without a trace (`verify`).
//!
//! The commits of one second are one link: its coordinator rewrites the last link for as long as
//! the second lasts and nobody else has added one. So a chain grows by a link a second at most for
//! each turn of a coordinator, and only the links before the last are fixed ([`Chain::fixed`]).
//!
//! Every [`WHOLE_EVERY`] links, one has the sums themselves, so that older ones may be removed.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use vfl_core::clock::seconds;

use super::connection::{Arg, Connection};
use super::names::Names;
use super::signer::Signer;
use super::{LedgerError, journal};

/// Number of links that a coordinator makes, or reads, until one has the sums themselves.
const WHOLE_EVERY: u64 = 1000;

/// The counts of one party's rows under one model and policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RowCounts {
    /// Rows asked for.
    pub(super) queries: i64,
    pub(super) refused: i64,
    /// Rows granted, and kept in the counts of records: fewer where budgets were freed.
    pub(super) granted: i64,
}

/// The names of party, model and policy.
pub(super) type SumsKey = (String, String, String);
/// A row of [`Sums`] in JSON.
type SumsRow = (String, String, String, i64, i64, i64);

/// The sums of what was spent, or an addition to them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sums {
    /// Distinct records, by party.
    pub(super) records: BTreeMap<String, i64>,
    #[serde(with = "flat")]
    pub(super) rows: BTreeMap<SumsKey, RowCounts>,
}

mod flat {
    use super::{BTreeMap, Deserialize, RowCounts, Serialize, SumsKey, SumsRow};

    pub(super) fn serialize<S: serde::Serializer>(
        rows: &BTreeMap<SumsKey, RowCounts>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let flat = rows.iter().map(|((party, model, policy), r)| {
            (party, model, policy, r.queries, r.refused, r.granted)
        });
        flat.collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<SumsKey, RowCounts>, D::Error> {
        let flat = Vec::<SumsRow>::deserialize(from)?;
        let row = |(party, model, policy, queries, refused, granted)| {
            ((party, model, policy), RowCounts { queries, refused, granted })
        };
        Ok(flat.into_iter().map(row).collect())
    }
}

impl Sums {
    /// Adds other sums. Sums that nobody could have reached stay at the ends of the integers.
    pub(super) fn add(&mut self, other: &Self) {
        for (party, records) in &other.records {
            let sum = self.records.entry(party.clone()).or_default();
            *sum = sum.saturating_add(*records);
        }
        for (under, more) in &other.rows {
            let sum = self.rows.entry(under.clone()).or_default();
            sum.queries = sum.queries.saturating_add(more.queries);
            sum.refused = sum.refused.saturating_add(more.refused);
            sum.granted = sum.granted.saturating_add(more.granted);
        }
    }

    /// Removes zeros, so that sums compare by what they count.
    pub(super) fn compact(mut self) -> Self {
        self.records.retain(|_, records| *records != 0);
        self.rows.retain(|_, rows| *rows != RowCounts::default());
        self
    }

    /// Reads the sums from the tables.
    pub(super) async fn read(connection: &mut Connection) -> Result<Self, LedgerError> {
        let mut sums = Self::default();
        let parties =
            connection.rows::<(String, i64)>("SELECT name, records FROM parties", &[]).await?;
        sums.records.extend(parties);
        let totals = "SELECT parties.name, models.name, policies.name, totals.queries, totals.refused FROM totals \
            JOIN parties ON parties.id = totals.party JOIN models ON models.id = totals.model \
            JOIN policies ON policies.id = totals.policy";
        type Total = (String, String, String, i64, i64);
        for (party, model, policy, queries, refused) in
            connection.rows::<Total>(totals, &[]).await?
        {
            let rows = sums.rows.entry((party, model, policy)).or_default();
            (rows.queries, rows.refused) = (queries, refused);
        }
        let uses = "SELECT parties.name, models.name, policies.name, CAST(sum(uses.queries) AS BIGINT) FROM uses \
            JOIN parties ON parties.id = uses.party JOIN models ON models.id = uses.model \
            JOIN policies ON policies.id = uses.policy GROUP BY parties.name, models.name, policies.name";
        type Use = (String, String, String, i64);
        for (party, model, policy, granted) in connection.rows::<Use>(uses, &[]).await? {
            sums.rows.entry((party, model, policy)).or_default().granted = granted;
        }
        let journaled = journal::read(connection).await?.granted();
        if !journaled.is_empty() {
            let names = Names::read(connection).await?;
            for ((party, model, policy), granted) in journaled {
                let under = (names.party(party)?, names.model(model)?, names.policy(policy)?);
                let rows = sums.rows.entry(under).or_default();
                rows.granted = rows.granted.saturating_add(granted);
            }
        }
        Ok(sums.compact())
    }
}

/// The content of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Content {
    /// The hash of the link before; empty in the first link.
    pub(super) previous: String,
    /// The ledger's id.
    pub(super) ledger: String,
    /// Number of commits so far that changed what was spent. A link that has more than the link
    /// before is of such commits.
    pub(super) mark: u64,
    /// Another event, in words: a coordinator opened the ledger, an operator freed budgets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) what: Option<String>,
    /// The additions to the sums; in a link with the sums themselves, these.
    pub(super) sums: Sums,
}

/// A link, as a row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) number: i64,
    pub(super) at: i64,
    pub(super) author: String,
    pub(super) content: String,
    pub(super) hash: String,
    pub(super) signature: String,
    pub(super) whole: bool,
}

impl Link {
    /// Reads the links after a number, in order, at most `most`.
    pub(super) async fn after(
        connection: &mut Connection,
        number: i64,
        most: i64,
    ) -> Result<Vec<Self>, LedgerError> {
        let sql = "SELECT number, at, author, content, hash, signature, whole FROM chain WHERE number > $1 \
            ORDER BY number LIMIT $2";
        type Row = (i64, i64, String, String, String, String, i64);
        let rows = connection.rows::<Row>(sql, &[Arg::Int(number), Arg::Int(most)]).await?;
        let link = |(number, at, author, content, hash, signature, whole): Row| Self {
            number,
            at,
            author,
            content,
            hash,
            signature,
            whole: whole != 0,
        };
        Ok(rows.into_iter().map(link).collect())
    }

    /// Computes the hash of the link.
    pub(super) fn hash(&self) -> String {
        let mut hasher =
            blake3::Hasher::new_derive_key("cloison 2026-11-25 link of a ledger's chain");
        hasher
            .update(&self.number.to_le_bytes())
            .update(&self.at.to_le_bytes())
            .update(&[u8::from(self.whole)]);
        for text in [&self.author, &self.content] {
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }

    /// Returns the content, if the hash is that of the link.
    pub(super) fn read(&self) -> Option<Content> {
        (self.hash == self.hash()).then(|| serde_json::from_str(&self.content).ok()).flatten()
    }

    async fn write(&self, connection: &mut Connection) -> Result<(), LedgerError> {
        let sql = "INSERT INTO chain (number, at, author, content, hash, signature, whole) \
            VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (number) DO UPDATE SET \
            content = excluded.content, hash = excluded.hash, signature = excluded.signature";
        let texts =
            [&self.author, &self.content, &self.hash, &self.signature].map(|t| Arg::Text(t));
        let [author, content, hash, signature] = texts;
        let whole = Arg::Int(i64::from(self.whole));
        let args =
            [Arg::Int(self.number), Arg::Int(self.at), author, content, hash, signature, whole];
        connection.execute(sql, &args).await.map(drop)
    }
}

/// The number and hash of a link, to find it again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkId {
    /// The link's number; 0 if there is none.
    pub(super) number: i64,
    pub(super) hash: String,
}

impl LinkId {
    /// Returns `true` if the link is still in the chain, or was removed with older ones.
    pub(super) async fn is_there(&self, connection: &mut Connection) -> Result<bool, LedgerError> {
        if self.number == 0 {
            return Ok(true);
        }
        let sql = "SELECT coalesce((SELECT hash FROM chain WHERE number = $1), ''), \
            coalesce((SELECT min(number) FROM chain), 0)";
        let (hash, first) = connection
            .row::<(String, i64)>(sql, &[Arg::Int(self.number)])
            .await?
            .unwrap_or_default();
        Ok(hash == self.hash || (hash.is_empty() && self.number < first))
    }
}

/// The chain, as a coordinator that writes it knows it.
pub(super) struct Chain {
    signer: Signer,
    ledger: String,
    mark: u64,
    /// The link before the last; its number is 0 if there is none.
    before: LinkId,
    /// The sums up to the link before the last.
    sums: Sums,
    /// The last link, which its author may still rewrite.
    last: Option<LastLink>,
    /// Number of links since the last one with the sums themselves.
    since: u64,
}

/// The last link of a chain.
struct LastLink {
    head: LinkId,
    author: String,
    at: i64,
    /// True if the link is of commits alone: those of the same second then join it.
    of_commits: bool,
    /// The additions to the sums, or the sums themselves.
    sums: Sums,
    whole: bool,
}

impl Chain {
    /// Reads the chain, inside a transaction or before one.
    pub(super) async fn read(
        connection: &mut Connection,
        signer: Signer,
    ) -> Result<Self, LedgerError> {
        let whole = "SELECT coalesce(max(number), 0) FROM chain WHERE whole = 1";
        let (from,) = connection.row::<(i64,)>(whole, &[]).await?.unwrap_or_default();
        let before = LinkId { number: (from - 1).max(0), hash: String::new() };
        let (ledger, sums, last) = (String::new(), Sums::default(), None);
        let mut chain = Self { signer, ledger, mark: 0, before, sums, last, since: 0 };
        chain.follow(connection).await?;
        Ok(chain)
    }

    /// Begins the chain with what the tables hold, or notes that its coordinator has opened it.
    /// Runs inside a transaction.
    pub(super) async fn open(
        connection: &mut Connection,
        signer: Signer,
        ledger: &str,
        mark: u64,
        at: SystemTime,
    ) -> Result<Self, LedgerError> {
        let mut chain = Self::read(connection, signer).await?;
        ledger.clone_into(&mut chain.ledger);
        let (what, sums, whole) = match chain.last {
            None => {
                chain.mark = mark;
                ("the chain begins", Sums::read(connection).await?, true)
            }
            Some(_) => ("opened", Sums::default(), false),
        };
        chain.seal();
        chain.write(connection, seconds(at), Some(what.into()), sums, whole).await?;
        Ok(chain)
    }

    /// Returns the last link that nobody may rewrite.
    pub(super) fn fixed(&self) -> &LinkId {
        &self.before
    }

    /// Reads what has changed: the links of others, and the last one, which may have been
    /// rewritten.
    pub(super) async fn follow(&mut self, connection: &mut Connection) -> Result<(), LedgerError> {
        const PAGE: i64 = 1000;
        loop {
            let links = Link::after(connection, self.before.number, PAGE).await?;
            if links.is_empty() && self.last.is_some() {
                return Err(LedgerError::Chain { link: self.before.number + 1 });
            }
            let full = links.len() as i64 == PAGE;
            for (position, link) in links.into_iter().enumerate() {
                // The first is the last link that was read before, perhaps rewritten.
                if position == 0 && self.last.take().is_some() {
                    self.since = self.since.saturating_sub(1);
                }
                self.take(link)?;
            }
            if !full {
                return Ok(());
            }
        }
    }

    /// Advances to the next link.
    fn take(&mut self, link: Link) -> Result<(), LedgerError> {
        let broken = LedgerError::Chain { link: link.number };
        let Some(content) = link.read() else { return Err(broken) };
        self.seal();
        // The hash of the link before the first one that is read is not known.
        let follows = self.before.hash.is_empty() || content.previous == self.before.hash;
        if link.number != self.before.number + 1 || !follows {
            return Err(broken);
        }
        self.before.hash = content.previous;
        (self.mark, self.ledger) = (content.mark, content.ledger);
        let of_commits = content.what.is_none() && !link.whole;
        self.end_with(link, of_commits, content.sums);
        Ok(())
    }

    /// Makes a link the last one, with the `sums` that were read or written.
    fn end_with(&mut self, link: Link, of_commits: bool, sums: Sums) {
        let Link { number, hash, author, at, whole, .. } = link;
        self.since = if whole { 0 } else { self.since + 1 };
        self.last =
            Some(LastLink { head: LinkId { number, hash }, author, at, of_commits, sums, whole });
    }

    /// Moves the last link to the fixed ones, and its sums with it.
    fn seal(&mut self) {
        let Some(last) = self.last.take() else { return };
        match last.whole {
            true => self.sums = last.sums,
            false => self.sums.add(&last.sums),
        }
        self.before = last.head;
    }

    /// Adds a commit to the last link, if that is of this coordinator and second, or makes a link
    /// of it; at times also makes one with the sums themselves. Runs inside the transaction.
    pub(super) async fn commit(
        &mut self,
        connection: &mut Connection,
        at: i64,
        mark: u64,
        mut added: Sums,
    ) -> Result<(), LedgerError> {
        self.mark = mark;
        let ours = |last: &LastLink| {
            last.of_commits && last.author == self.signer.public() && last.at == at
        };
        if self.last.as_ref().is_some_and(ours) {
            if let Some(last) = self.last.take() {
                added.add(&last.sums);
            }
            self.since = self.since.saturating_sub(1);
            return self.write(connection, at, None, added, false).await;
        }
        self.seal();
        self.write(connection, at, None, added, false).await?;
        if self.since >= WHOLE_EVERY {
            self.seal();
            let sums = self.sums.clone().compact();
            self.write(connection, at, None, sums, true).await?;
        }
        Ok(())
    }

    /// Writes the link after `before`, which becomes the last one.
    async fn write(
        &mut self,
        connection: &mut Connection,
        at: i64,
        what: Option<String>,
        sums: Sums,
        whole: bool,
    ) -> Result<(), LedgerError> {
        let (previous, ledger, mark) = (self.before.hash.clone(), self.ledger.clone(), self.mark);
        let of_commits = what.is_none() && !whole;
        let content = Content { previous, ledger, mark, what, sums };
        let link = link_of(self.before.number + 1, at, &content, whole, Some(&self.signer))?;
        link.write(connection).await?;
        self.end_with(link, of_commits, content.sums);
        Ok(())
    }
}

fn link_of(
    number: i64,
    at: i64,
    content: &Content,
    whole: bool,
    by: Option<&Signer>,
) -> Result<Link, LedgerError> {
    let content =
        serde_json::to_string(content).map_err(|e| LedgerError::Storage(e.to_string()))?;
    let author = by.map(|signer| signer.public().to_owned()).unwrap_or_default();
    let mut link =
        Link { number, at, author, content, hash: String::new(), signature: String::new(), whole };
    link.hash = link.hash();
    link.signature = by.map(|signer| signer.sign(&link.hash)).unwrap_or_default();
    Ok(link)
}

/// Adds an unsigned link for what an operator does to the sums without a coordinator's key. Runs
/// inside a transaction.
pub(super) async fn note(
    connection: &mut Connection,
    at: SystemTime,
    what: String,
    sums: Sums,
) -> Result<(), LedgerError> {
    let last = "SELECT coalesce(max(number), 0) FROM chain";
    let (number,) = connection.row::<(i64,)>(last, &[]).await?.unwrap_or_default();
    let links = Link::after(connection, number - 1, 1).await?;
    // A chain that no coordinator has begun will begin with what the tables hold by then.
    let Some(link) = links.first() else { return Ok(()) };
    let before = link.read().ok_or(LedgerError::Chain { link: number })?;
    let content = Content { previous: link.hash.clone(), what: Some(what), sums, ..before };
    link_of(number + 1, seconds(at), &content, false, None)?.write(connection).await
}

/// Removes links from before a time, up to the last such link with the sums themselves, which
/// stays. Returns how many.
pub(super) async fn shorten(connection: &mut Connection, before: i64) -> Result<u64, LedgerError> {
    let sql = "DELETE FROM chain WHERE number < (SELECT max(number) FROM chain WHERE whole = 1 AND at < $1)";
    connection.execute(sql, &[Arg::Int(before)]).await
}
