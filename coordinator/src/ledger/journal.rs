//! The journal of the embedded ledger: additions of large groups of requests to the table `uses`
//! that are not in it yet.
//!
//! Writing a row of `uses` for each record of a large request costs a page of the table each, as
//! record ids come in no order. A group of many rows therefore adds one row to the table `journal`
//! instead, in the same transaction as its sums: a few bytes for each of its rows. The journal is
//! added to `uses` in one go ([`fold`]) when there is nothing to do, when it has grown
//! ([`JournalLimits`]), and before anybody else may rely on the table: when the ledger is opened,
//! and by the commands that change it. Commands that only read count the journal in ([`read`]).
//!
//! A content is a version, a flag, and sections: party, model, policy, time, number of rows, then
//! each row. Numbers are LEB128. A row begins with twice the number of its record, plus 1 if it
//! bound the record's share. The next unused number introduces a record: its length and its id
//! follow. Then follow the 16 bytes of the share, if the row bound it. The flag says that numbers
//! begin anew.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use vfl_core::hex;

use super::LedgerError;
use super::changes::UseDelta;
use super::connection::{Arg, Connection, json};
use super::decide::GrantedRows;
use super::error::contradiction;
use super::records::Records;

const VERSION: u8 = 1;
/// Rows of the journal read at once.
const PAGE: i64 = 16;
/// Rows of `uses` that one statement writes.
const CHUNK: usize = 4096;

/// The limits that decide when the journal is used, and when it is added to the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalLimits {
    /// Fewest rows of a group that goes to the journal; a smaller one goes to the table at once.
    pub rows: usize,
    /// Most records that the journal may introduce before it is added to the table.
    pub records: usize,
    /// Most bytes that the journal may hold before it is added to the table.
    pub bytes: usize,
    /// Time after the last request when the journal is added, whatever it holds.
    pub idle: Duration,
}

impl Default for JournalLimits {
    fn default() -> Self {
        Self { rows: 512, records: 262_144, bytes: 32 << 20, idle: Duration::from_millis(50) }
    }
}

/// The journal, as the writer knows it.
pub(super) struct Journal {
    limits: JournalLimits,
    /// The series that the numbers belong to.
    series: u32,
    /// The number of the next record.
    next: u32,
    bytes: usize,
    /// The content that the group under way adds.
    content: Vec<u8>,
}

impl Journal {
    pub(super) fn new(limits: JournalLimits) -> Self {
        Self { limits, series: 0, next: 0, bytes: 0, content: Vec::new() }
    }

    /// Returns `true` if a group of so many rows goes to the journal.
    pub(super) fn takes(&self, rows: usize) -> bool {
        rows >= self.limits.rows
    }

    /// Returns `true` if there is nothing in the journal.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns `true` if it is time to add the journal to the table.
    pub(super) fn is_full(&self) -> bool {
        self.bytes > self.limits.bytes || self.next as usize > self.limits.records
    }

    /// Empties the journal, which was added to the table.
    pub(super) fn clear(&mut self) {
        (self.series, self.next, self.bytes) = (self.series.wrapping_add(1), 0, 0);
        self.content.clear();
    }

    /// Adds the rows granted to a party to the content.
    pub(super) fn add(&mut self, party: i64, granted: &GrantedRows, records: &mut Records) {
        if self.content.is_empty() {
            self.content.extend([VERSION, u8::from(self.next == 0)]);
        }
        let out = &mut self.content;
        for key in [party, granted.model, granted.policy, granted.at] {
            // Keys and times are not negative.
            write(out, u64::try_from(key).unwrap_or_default());
        }
        write(out, granted.rows.len() as u64);
        for &(slot, binds) in &granted.rows {
            let Some((record, entry)) = records.get_mut(slot as usize) else { continue };
            let known = entry.number.filter(|(series, _)| *series == self.series);
            let number = known.map_or(self.next, |(_, number)| number);
            write(out, u64::from(number) << 1 | u64::from(binds));
            if known.is_none() {
                entry.number = Some((self.series, number));
                self.next += 1;
                write(out, record.len() as u64);
                out.extend_from_slice(record.as_bytes());
            }
            if binds {
                out.extend_from_slice(&entry.bound(granted.passive).unwrap_or_default());
            }
        }
    }

    /// Writes the content, in the transaction of the group.
    pub(super) async fn write(&mut self, connection: &mut Connection) -> Result<(), LedgerError> {
        if self.content.is_empty() {
            return Ok(());
        }
        let sql = "INSERT INTO journal (content) VALUES ($1)";
        connection.execute(sql, &[Arg::Bytes(&self.content)]).await?;
        self.bytes += self.content.len();
        self.content.clear();
        Ok(())
    }
}

/// The additions of a journal to `uses`. They take a few large pieces of memory, not some for each
/// record: a coordinator adds a quarter of a million records at once, again and again, and small
/// pieces that it frees would lie between others that stay.
#[derive(Default)]
pub(super) struct JournalAdditions {
    /// The ids of the records, one after the other.
    ids: String,
    /// The records; one may be there more than once.
    records: Vec<Record>,
    touches: Vec<JournalUse>,
    /// Index of the first record of this series.
    base: usize,
}

struct Record {
    party: i64,
    /// The range of its id in `ids`.
    id: Range<usize>,
    /// Index of the last of its touches in `touches`.
    last: Option<u32>,
}

/// The addition to the row of one record, model and policy.
struct JournalUse {
    /// Index of the record in `records`.
    record: u32,
    model: i64,
    policy: i64,
    touch: UseDelta,
    /// Index of the touch before it of the same record.
    before: Option<u32>,
}

impl JournalAdditions {
    /// Returns `true` if there are no additions.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    fn record(&self, touched: &JournalUse) -> (i64, &str) {
        let record = &self.records[touched.record as usize];
        (record.party, &self.ids[record.id.clone()])
    }

    /// Returns the number of rows granted, by party, model and policy.
    pub(super) fn granted(&self) -> BTreeMap<(i64, i64, i64), i64> {
        let mut sums = BTreeMap::new();
        for touched in &self.touches {
            let (party, _) = self.record(touched);
            let sum: &mut i64 = sums.entry((party, touched.model, touched.policy)).or_default();
            *sum = sum.saturating_add(touched.touch.queries);
        }
        sums
    }

    /// Returns the additions to the rows of one record of a party, by model and policy.
    pub(super) fn of(
        &self,
        party: i64,
        record: &str,
    ) -> impl Iterator<Item = (i64, i64, UseDelta)> {
        let of = self.touches.iter().filter(move |touched| self.record(touched) == (party, record));
        of.map(|touched| (touched.model, touched.policy, touched.touch))
    }

    /// Reads the content of one row.
    fn take_in(&mut self, content: &[u8]) -> Option<()> {
        let mut rest = content.strip_prefix(&[VERSION])?;
        let (restarts, after) = rest.split_first()?;
        rest = after;
        match restarts {
            0 => {}
            1 => self.base = self.records.len(),
            _ => return None,
        }
        while !rest.is_empty() {
            let mut key = || read_number(&mut rest).and_then(|n| i64::try_from(n).ok());
            let (party, model, policy, at) = (key()?, key()?, key()?, key()?);
            for _ in 0..read_number(&mut rest)? {
                let row = read_number(&mut rest)?;
                let place = self.base.checked_add(usize::try_from(row >> 1).ok()?)?;
                if place == self.records.len() {
                    let length = usize::try_from(read_number(&mut rest)?).ok()?;
                    let (id, after) = rest.split_at_checked(length)?;
                    rest = after;
                    let start = self.ids.len();
                    self.ids.push_str(std::str::from_utf8(id).ok()?);
                    self.records.push(Record { party, id: start..self.ids.len(), last: None });
                }
                let bind = match row & 1 {
                    0 => None,
                    _ => {
                        let (share, after) = rest.split_first_chunk::<16>()?;
                        rest = after;
                        Some(*share)
                    }
                };
                if self.records.get(place)?.party != party {
                    return None;
                }
                self.touch(u32::try_from(place).ok()?, (model, policy), UseDelta::one(at, bind))?;
            }
        }
        Some(())
    }

    /// Adds a touch of a record to the one of the same model and policy, if there is one.
    fn touch(&mut self, record: u32, (model, policy): (i64, i64), touch: UseDelta) -> Option<()> {
        let last = &mut self.records.get_mut(record as usize)?.last;
        let mut next = *last;
        while let Some(place) = next {
            let touched = self.touches.get_mut(place as usize)?;
            if (touched.model, touched.policy) == (model, policy) {
                touched.touch.add(&touch);
                return Some(());
            }
            next = touched.before;
        }
        let place = u32::try_from(self.touches.len()).ok()?;
        self.touches.push(JournalUse { record, model, policy, touch, before: last.replace(place) });
        Some(())
    }
}

/// Reads the additions of the journal to `uses`: none in PostgreSQL, which has no journal.
pub(super) async fn read(connection: &mut Connection) -> Result<JournalAdditions, LedgerError> {
    let mut added = JournalAdditions::default();
    if let Connection::Postgres(_) = connection {
        return Ok(added);
    }
    let mut after = 0;
    loop {
        let sql = "SELECT number, content FROM journal WHERE number > $1 ORDER BY number LIMIT $2";
        let page =
            connection.rows::<(i64, Vec<u8>)>(sql, &[Arg::Int(after), Arg::Int(PAGE)]).await?;
        for (number, content) in &page {
            added.take_in(content).ok_or_else(contradiction)?;
            after = *number;
        }
        if page.is_empty() {
            return Ok(added);
        }
    }
}

/// Adds the journal to `uses`. Runs inside a transaction.
pub(super) async fn fold(connection: &mut Connection) -> Result<(), LedgerError> {
    let added = read(connection).await?;
    if added.is_empty() {
        return Ok(());
    }
    // Rows that one statement writes are together, in the order of the table; of two of the same
    // record the older is first.
    let group = |place: usize| {
        let touched = &added.touches[place];
        (added.record(touched).0, touched.model, touched.policy, touched.touch.bind.is_some())
    };
    let key = |place: usize| (group(place), added.record(&added.touches[place]).1, place);
    let mut order: Vec<usize> = (0..added.touches.len()).collect();
    order.sort_unstable_by(|&a, &b| key(a).cmp(&key(b)));
    for rows in order.chunk_by(|&a, &b| group(a) == group(b)) {
        let (party, model, policy, binds) = group(rows[0]);
        for chunk in rows.chunks(CHUNK) {
            let rows = json(chunk.iter().map(|&place| {
                let touched = &added.touches[place];
                let UseDelta { queries, first_at, last_at, bind } = touched.touch;
                let (share, id) = (bind.map(hex).unwrap_or_default(), added.record(touched).1);
                format!("{queries:019}{first_at:019}{last_at:019}{share}{id}")
            }))?;
            let keys = [party, model, policy].map(Arg::Int);
            let sql = if binds { FOLD_BINDING } else { FOLD };
            connection.execute(sql, &[keys[0], keys[1], keys[2], Arg::Text(&rows)]).await?;
        }
    }
    connection.execute("DELETE FROM journal", &[]).await.map(drop)
}

macro_rules! fold_sql {
    ($record:literal, $share:literal) => {
        concat!(
            "INSERT INTO uses (party, record, model, policy, queries, first_at, last_at, share) SELECT $1, substr(value, ",
            $record, "), $2, $3, CAST(substr(value, 1, 19) AS INTEGER), CAST(substr(value, 20, 19) AS INTEGER), ",
            "CAST(substr(value, 39, 19) AS INTEGER), ", $share, " FROM json_each($4) WHERE true ",
            "ON CONFLICT (party, record, model, policy) DO UPDATE SET queries = uses.queries + excluded.queries, ",
            "first_at = CASE WHEN uses.first_at > excluded.first_at THEN excluded.first_at ELSE uses.first_at END, ",
            "last_at = CASE WHEN uses.last_at > excluded.last_at THEN uses.last_at ELSE excluded.last_at END, ",
            "share = coalesce(uses.share, excluded.share)"
        )
    };
}

const FOLD: &str = fold_sql!("58", "NULL");
const FOLD_BINDING: &str = fold_sql!("90", "substr(value, 58, 32)");

fn write(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn read_number(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        let bits = u64::from(byte & 0x7f);
        number |= bits.checked_shl(shift).filter(|n| n >> shift == bits)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_round_trip(numbers in proptest::collection::vec(any::<u64>(), 0..20), shift in 0u32..64) {
            let mut out = Vec::new();
            numbers.iter().for_each(|n| write(&mut out, n >> shift));
            let mut rest = out.as_slice();
            for number in numbers {
                prop_assert_eq!(read_number(&mut rest), Some(number >> shift));
            }
            prop_assert!(rest.is_empty() && read_number(&mut rest).is_none());
        }

        /// Any content is read or refused, and takes no more memory than it has bytes.
        #[test]
        fn any_content_is_read_or_refused(content in proptest::collection::vec(any::<u8>(), 0..200), starts: bool) {
            let mut content = content;
            if starts {
                content.splice(0..0, [VERSION, 1]);
            }
            let mut added = JournalAdditions::default();
            let _ = added.take_in(&content);
            prop_assert!(added.records.len() <= content.len() && added.ids.len() <= content.len());
            prop_assert!(added.touches.len() <= content.len());
        }
    }

    #[test]
    fn a_number_that_does_not_fit_is_refused() {
        for bad in [
            &[0x80][..],
            &[0xff; 10],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
        ] {
            assert_eq!(read_number(&mut &*bad), None, "{bad:?}");
        }
    }
}
