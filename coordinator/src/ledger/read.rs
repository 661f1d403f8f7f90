//! Reading the ledger: sums by party, model and policy, and the uses of one record. Works beside a
//! running coordinator.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use vfl_protocol::ledger::{Budgets, Event, PartySummary, RecordUse, Summary, UseSummary};

use super::bits::Bits;
use super::connection::{Arg, DatabaseLocation, existing};
use super::erasure::ErasureKey;
use super::error::contradiction;
use super::models::Models;
use super::names::Names;
use super::{LedgerError, journal};

/// The row of `meta` with the budgets that the last coordinator ran with.
pub(super) const BUDGETS: &str = "budgets";

/// Returns what one active party, or all of them, have spent and have left.
///
/// # Errors
/// [`LedgerError::Url`], [`LedgerError::Missing`], [`LedgerError::Storage`].
pub async fn summary(url: &str, party: Option<&str>) -> Result<Summary, LedgerError> {
    summarise(&DatabaseLocation::parse(url)?, party).await
}

pub(super) async fn summarise(
    place: &DatabaseLocation,
    party: Option<&str>,
) -> Result<Summary, LedgerError> {
    let mut connection = existing(place).await?;
    let budgets = connection.meta(BUDGETS).await?;
    let budgets: Budgets =
        budgets.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let (models, bits) = (Models::read(&mut connection).await?, Bits::read(&mut connection).await?);
    let bits_of = |model, policy| bits.of((models.passive(model)?, policy));
    let mut parties: Vec<PartySummary> = Vec::new();
    // One statement, so that the sums agree while the coordinator writes.
    let sql = "SELECT parties.name, parties.records, models.name, \
        coalesce(models.fingerprint, 'version ' || models.name), policies.name, totals.queries, totals.refused, totals.first_at, totals.last_at, \
        totals.model, totals.policy FROM parties \
        LEFT JOIN totals ON totals.party = parties.id LEFT JOIN models ON models.id = totals.model \
        LEFT JOIN policies ON policies.id = totals.policy ORDER BY parties.name, totals.last_at, models.name, policies.name";
    type Text = Option<String>;
    type Number = Option<i64>;
    type Row = (String, i64, Text, Text, Text, Number, Number, Number, Number, Number, Number);
    for (
        name,
        records,
        model,
        passive,
        policy,
        queries,
        refused,
        first_at,
        last_at,
        model_key,
        policy_key,
    ) in connection.rows::<Row>(sql, &[]).await?
    {
        if party.is_some_and(|wanted| wanted != name) {
            continue;
        }
        if parties.last().is_none_or(|p| p.party != name) {
            let records = count(records);
            parties.push(PartySummary {
                party: name,
                records,
                records_left: budgets.records.map(|limit| limit.saturating_sub(records)),
                queries: 0,
                refused: 0,
                first_at: None,
                last_at: None,
                uses: Vec::new(),
            });
        }
        let totals = (model.zip(passive), policy, queries, refused, first_at, last_at);
        if let (
            Some(p),
            (
                Some((model, passive)),
                Some(policy),
                Some(queries),
                Some(refused),
                Some(first_at),
                Some(last_at),
            ),
        ) = (parties.last_mut(), totals)
        {
            let (queries, refused) = (count(queries), count(refused));
            p.queries += queries;
            p.refused += refused;
            p.first_at = Some(p.first_at.map_or(first_at, |at| at.min(first_at)));
            p.last_at = Some(p.last_at.map_or(last_at, |at| at.max(last_at)));
            let bits = model_key.zip(policy_key).and_then(|(model, policy)| bits_of(model, policy));
            p.uses.push(UseSummary {
                model,
                passive,
                policy,
                bits,
                queries,
                refused,
                first_at,
                last_at,
            });
        }
    }
    let events =
        connection.rows::<(i64, String)>("SELECT at, what FROM events ORDER BY id", &[]).await?;
    let events = events.into_iter().map(|(at, what)| Event { at, what }).collect();
    connection.close().await;
    Ok(Summary { budgets, parties, events })
}

/// Returns the uses of one record, by one active party or by all; an erased record is found too.
///
/// # Errors
/// As [`summary`].
pub async fn record_uses(
    url: &str,
    record: &str,
    party: Option<&str>,
) -> Result<Vec<RecordUse>, LedgerError> {
    let mut connection = existing(&DatabaseLocation::parse(url)?).await?;
    // Reads the table and the journal as of one moment.
    connection
        .execute(connection.pick("BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"), &[])
        .await?;
    let pseudonym = ErasureKey::read(&mut connection).await?.pseudonym(record);
    let (names, journal) =
        (Names::read(&mut connection).await?, journal::read(&mut connection).await?);
    let (models, bits) = (Models::read(&mut connection).await?, Bits::read(&mut connection).await?);
    let mut uses = Vec::new();
    // Party by party: the table's order is party, then record.
    for (id, name) in names.parties().filter(|(_, name)| party.is_none_or(|wanted| wanted == *name))
    {
        for (stored, erased) in [(record, false), (pseudonym.as_str(), true)] {
            let sql = "SELECT model, policy, queries, first_at, last_at, CASE WHEN share IS NULL THEN 0 ELSE 1 END FROM uses \
                WHERE party = $1 AND record = $2 ORDER BY model, policy";
            type Row = (i64, i64, i64, Option<i64>, Option<i64>, i32);
            let args = [Arg::Int(id), Arg::Text(stored)];
            let blank = |model, policy| {
                Ok(RecordUse {
                    party: name.to_owned(),
                    model: names.model(model)?,
                    policy: names.policy(policy)?,
                    passive: models.fingerprint(model).ok_or_else(contradiction)?.to_owned(),
                    bits: models.passive(model).and_then(|passive| bits.of((passive, policy))),
                    queries: 0,
                    first_at: None,
                    last_at: None,
                    bound: false,
                    erased,
                })
            };
            let mut rows: BTreeMap<(i64, i64), RecordUse> = BTreeMap::new();
            for (model, policy, queries, first_at, last_at, bound) in
                connection.rows::<Row>(sql, &args).await?
            {
                let row: Result<_, LedgerError> = blank(model, policy);
                let row = RecordUse {
                    queries: count(queries),
                    first_at,
                    last_at,
                    bound: bound != 0,
                    ..row?
                };
                rows.insert((model, policy), row);
            }
            for (model, policy, touch) in journal.of(id, stored) {
                let row = match rows.entry((model, policy)) {
                    Entry::Occupied(row) => row.into_mut(),
                    Entry::Vacant(none) => none.insert(RecordUse {
                        first_at: Some(touch.first_at),
                        ..blank(model, policy)?
                    }),
                };
                row.queries = row.queries.saturating_add(count(touch.queries));
                // A forgotten first time stays forgotten.
                row.first_at = row.first_at.map(|at| at.min(touch.first_at));
                row.last_at = row.last_at.max(Some(touch.last_at));
                row.bound |= touch.bind.is_some();
            }
            uses.extend(rows.into_values());
        }
    }
    connection.execute("COMMIT", &[]).await?;
    connection.close().await;
    Ok(uses)
}

/// Converts a count of the ledger; none is negative.
fn count(value: i64) -> u64 {
    u64::try_from(value).unwrap_or_default()
}
