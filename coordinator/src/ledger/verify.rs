//! Checks the sums of a ledger against its chain of releases ([`chain`](super::chain)).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

use super::begin::{ID, MARK};
use super::chain::{Content, Link, LinkId, Sums};
use super::connection::{Connection, DatabaseLocation, existing};
use super::signer::{is_signed_by, public_key};
use super::{LedgerError, mark};

/// Links read at once.
const PAGE: i64 = 2000;
/// Most findings that are listed; further ones are counted.
const MOST: usize = 20;

/// The links of one coordinator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SignerLinks {
    /// The coordinator's public key (Ed25519), in hexadecimal digits.
    pub key: String,
    /// True if the key is that of the state directory, or was named as one to trust.
    pub trusted: bool,
    /// The number of its links.
    pub links: u64,
}

/// A link that an operator's command made, without a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnsignedLink {
    /// The number of the link.
    pub link: i64,
    /// The time of the link, in Unix seconds.
    pub at: i64,
    /// The description of what the command did.
    pub what: String,
}

/// A link that nobody may rewrite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FixedLink {
    /// The number of the link.
    pub link: i64,
    /// The hash of the link.
    pub hash: String,
}

/// The result of a check of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChainReport {
    /// The id of the ledger.
    pub ledger: String,
    /// The first link that is there. Older ones were removed by retention.
    pub first: i64,
    /// The last link that is there.
    pub last: i64,
    /// The link before the last; the last one may still be rewritten by its coordinator within its
    /// second. Whoever keeps number and hash can tell later that nothing up to there was rewritten.
    /// `None` while there is one link at most.
    pub fixed: Option<FixedLink>,
    /// The time of the first of these links, in Unix seconds.
    pub from: i64,
    /// The time of the last of these links, in Unix seconds.
    pub to: i64,
    /// Rows asked for, of all parties, by the chain.
    pub queries: i64,
    /// Rows refused, of all parties, by the chain.
    pub refused: i64,
    /// The signers, with the number of their links.
    pub signed: Vec<SignerLinks>,
    /// The links that nobody signed.
    pub unsigned: Vec<UnsignedLink>,
    /// True if the head that the state directory knows was looked for.
    pub head_known: bool,
    /// The findings of what does not hold, in words; empty if everything holds.
    pub findings: Vec<String>,
}

/// Checks every link of the chain, its signature included, and the sums of the tables against it.
/// Reads one state of the ledger; a coordinator may run.
///
/// With a state directory its key is trusted, and the last link that it knows must be in the chain.
/// `trusted` are public keys of other coordinators.
///
/// # Errors
/// [`LedgerError::Url`], [`LedgerError::Missing`], [`LedgerError::Unsupported`],
/// [`LedgerError::Storage`]; [`LedgerError::Key`] and [`LedgerError::DamagedMark`] for the state
/// directory. A check that fails is no error: see [`ChainReport::findings`].
pub async fn verify(
    url: &str,
    state_dir: Option<&Path>,
    trusted: &[String],
) -> Result<ChainReport, LedgerError> {
    let mut trusted: BTreeSet<String> =
        trusted.iter().map(|key| key.to_ascii_lowercase()).collect();
    let mut known = None;
    if let Some(dir) = state_dir {
        trusted.extend(public_key(dir)?);
        known = mark::read(dir)?;
    }
    let mut connection = existing(&DatabaseLocation::parse(url)?).await?;
    // Reads everything as of one moment.
    connection
        .execute(connection.pick("BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"), &[])
        .await?;
    let mut check = Check { trusted, ..Check::default() };
    loop {
        let links = Link::after(&mut connection, check.head.number, PAGE).await?;
        links.iter().for_each(|link| check.link(link));
        if (links.len() as i64) < PAGE {
            break;
        }
    }
    check.tables(&mut connection).await?;
    if let Some(known) = &known {
        if known.ledger != check.ledger {
            check.finding(format!(
                "the state directory knows ledger {}, this is {}",
                known.ledger, check.ledger
            ));
        }
        if !known.head.is_there(&mut connection).await? {
            let link = known.head.number;
            check.finding(format!(
                "link {link} is not the one that the state directory saw: the chain was rewritten"
            ));
        }
    }
    connection.execute("COMMIT", &[]).await?;
    connection.close().await;
    Ok(check.verdict(known.is_some_and(|known| known.head.number > 0)))
}

/// The state of the check after the links so far.
#[derive(Default)]
struct Check {
    trusted: BTreeSet<String>,
    /// The last link so far.
    head: LinkId,
    /// The link before it.
    fixed: Option<FixedLink>,
    first: i64,
    times: Option<(i64, i64)>,
    ledger: String,
    mark: u64,
    sums: Sums,
    signed: BTreeMap<String, u64>,
    unsigned: Vec<UnsignedLink>,
    findings: Vec<String>,
    more: usize,
}

impl Check {
    fn finding(&mut self, what: String) {
        if self.findings.len() < MOST {
            self.findings.push(what);
        } else {
            self.more += 1;
        }
    }

    fn link(&mut self, link: &Link) {
        let (number, began) = (link.number, self.times.is_some());
        if began && number != self.head.number + 1 {
            let missing = (self.head.number + 1, number - 1);
            self.finding(format!("links {} to {} are missing", missing.0, missing.1));
        }
        match link.read() {
            None => {
                self.finding(format!("link {number} is not what its hash is of: it was changed"))
            }
            Some(content) => self.content(link, content, began),
        }
        self.signature(link);
        if !began {
            self.first = number;
        }
        self.times = Some((self.times.map_or(link.at, |(from, _)| from), link.at));
        let before = std::mem::replace(&mut self.head, LinkId { number, hash: link.hash.clone() });
        self.fixed = began.then_some(FixedLink { link: before.number, hash: before.hash });
    }

    fn content(&mut self, link: &Link, content: Content, began: bool) {
        let number = link.number;
        if began && content.previous != self.head.hash {
            self.finding(format!(
                "link {number} is of another link before it: the chain was rewritten there"
            ));
        }
        if !began && !link.whole {
            self.finding(format!(
                "the chain begins with link {number}, which has no sums: those before it were taken away"
            ));
        }
        if began && content.mark < self.mark {
            self.finding(format!(
                "link {number} counts {} commits after {}",
                content.mark, self.mark
            ));
        }
        match (link.whole, began) {
            (true, true) if self.sums.clone().compact() != content.sums.clone().compact() => {
                self.finding(format!(
                    "the sums of link {number} are not those of the links before it"
                ));
                self.sums = content.sums;
            }
            (true, _) => self.sums = content.sums,
            (false, _) => self.sums.add(&content.sums),
        }
        if link.author.is_empty() {
            let what = content.what.unwrap_or_else(|| "nothing is said of it".into());
            self.unsigned.push(UnsignedLink { link: number, at: link.at, what });
            if content.mark != self.mark {
                self.finding(format!("link {number} is of a commit, and nobody signed it"));
            }
        }
        (self.mark, self.ledger) = (content.mark, content.ledger);
    }

    fn signature(&mut self, link: &Link) {
        if link.author.is_empty() {
            return;
        }
        if is_signed_by(&link.author, &link.hash, &link.signature) {
            *self.signed.entry(link.author.clone()).or_default() += 1;
        } else {
            self.finding(format!(
                "the signature of link {} is not of its author's key",
                link.number
            ));
        }
        if !self.trusted.is_empty()
            && !self.trusted.contains(&link.author)
            && self.signed.get(&link.author) == Some(&1)
        {
            self.finding(format!(
                "link {} and maybe others are signed by {}, a key that was not named as one to trust",
                link.number, link.author
            ));
        }
    }

    /// Checks the sums of the tables, and the number of commits.
    async fn tables(&mut self, connection: &mut Connection) -> Result<(), LedgerError> {
        if self.times.is_none() {
            self.finding("there is no chain: it was taken away, or no coordinator of this version has run yet".into());
            return Ok(());
        }
        let id = connection.meta(ID).await?.unwrap_or_default();
        if id != self.ledger {
            self.finding(format!("the chain is of ledger {}, this is {id}", self.ledger));
        }
        let mark = connection.meta(MARK).await?.and_then(|mark| mark.parse().ok()).unwrap_or(0);
        if mark != self.mark {
            self.finding(format!("the chain has {} commits, the ledger counts {mark}", self.mark));
        }
        let (tables, chain) =
            (Sums::read(connection).await?, std::mem::take(&mut self.sums).compact());
        let parties: BTreeSet<&String> =
            chain.records.keys().chain(tables.records.keys()).collect();
        for party in parties {
            let of = |sums: &Sums| sums.records.get(party).copied().unwrap_or_default();
            if of(&chain) != of(&tables) {
                let (had, has) = (of(&chain), of(&tables));
                self.finding(format!("{party}: {had} records by the chain, {has} in `parties`"));
            }
        }
        let keys: BTreeSet<_> = chain.rows.keys().chain(tables.rows.keys()).collect();
        for key @ (party, model, policy) in keys {
            let of = |sums: &Sums| sums.rows.get(key).copied().unwrap_or_default();
            let (had, has) = (of(&chain), of(&tables));
            let compared = [
                ("rows asked", had.queries, has.queries, "totals"),
                ("rows refused", had.refused, has.refused, "totals"),
                ("rows granted", had.granted, has.granted, "uses"),
            ];
            for (what, had, has, table) in
                compared.into_iter().filter(|(_, had, has, _)| had != has)
            {
                self.finding(format!(
                    "{party}, {model}, {policy}: {had} {what} by the chain, {has} in `{table}`"
                ));
            }
        }
        self.sums = chain;
        Ok(())
    }

    fn verdict(mut self, head_known: bool) -> ChainReport {
        if self.more > 0 {
            self.findings.push(format!("and {} more", self.more));
        }
        let (from, to) = self.times.unwrap_or_default();
        let trusted = |key: &String| self.trusted.contains(key);
        let signed = self.signed.iter().map(|(key, links)| SignerLinks {
            key: key.clone(),
            trusted: trusted(key),
            links: *links,
        });
        ChainReport {
            ledger: self.ledger,
            first: self.first,
            last: self.head.number,
            fixed: self.fixed,
            from,
            to,
            queries: self.sums.rows.values().map(|rows| rows.queries).sum(),
            refused: self.sums.rows.values().map(|rows| rows.refused).sum(),
            signed: signed.collect(),
            unsigned: self.unsigned,
            head_known,
            findings: self.findings,
        }
    }
}
