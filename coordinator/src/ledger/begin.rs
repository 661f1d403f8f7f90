//! Opening a ledger: it is begun if there never was one, and otherwise it must be the one that this
//! coordinator used last.
//!
//! The state directory knows the ledger's id and its mark (`mark`). A ledger that is missing,
//! empty, another one or an old copy has forgotten what was spent and which shares are bound: the
//! coordinator does not start on it unless the operator says so, which the ledger records.

use std::collections::BTreeMap;
use std::fs::File;
use std::time::SystemTime;

use rand::Rng;
use vfl_core::hex;

use super::chain::{Chain, LinkId};
use super::config::LedgerConfig;
use super::connection::{Arg, Connection, DatabaseLocation, LOCK_PAUSE, LOCK_TRIES};
use super::error::LedgerError;
use super::events::record_event;
use super::mark::{self, KnownLedger, MarkFile};
use super::signer::Signer;
use super::{erasure, models};
use crate::share::ShareHashKind;

/// Other rows of `meta`: the fingerprint of the noise secret, the ledger's random id, its mark, and
/// the id of the ledger that it replaces.
const FINGERPRINT: &str = "secret_fingerprint";
pub(super) const ID: &str = "ledger_id";
pub(super) const MARK: &str = "mark";
const REPLACES: &str = "replaces";
/// The row that names the hash of logit shares. Ledgers of earlier versions have no such row:
/// theirs is HMAC-SHA256.
const SHARE_HASH: &str = "share_hash";
/// The rows with the terms that coordinators sharing the ledger have in common, and with the number
/// of changes of the registry.
pub(super) const TERMS: &str = "terms";
pub(crate) const REGISTRY: &str = "registry";

/// A ledger that may be written.
pub(super) struct OpenedLedger {
    pub(super) connection: Connection,
    pub(super) marker: MarkFile,
    /// SQLite's lock file.
    pub(super) lock: Option<File>,
    /// The kind of hash of logit shares.
    pub(super) share_hash: ShareHashKind,
    pub(super) chain: Chain,
}

/// Returns the fingerprint of the noise secret that the ledger was begun with; `None` if none was
/// begun. Creates nothing.
///
/// # Errors
/// [`LedgerError::Lost`] and its like where the state directory knows a ledger that is not there;
/// otherwise as [`Ledger::open`](super::Ledger::open).
pub async fn secret_fingerprint(config: &LedgerConfig) -> Result<Option<String>, LedgerError> {
    let place = DatabaseLocation::parse(&config.url)?;
    if !config.begin_new
        && let Some(known) = config.state_dir.as_deref().map(mark::read).transpose()?.flatten()
    {
        return Ok(Some(known.secret));
    }
    if !place.may_hold_a_ledger() {
        return Ok(None);
    }
    let mut connection = place.connect(false).await?;
    let found = match connection.is_ledger().await? {
        true => connection.meta(FINGERPRINT).await?,
        false => None,
    };
    connection.close().await;
    Ok(found)
}

/// Opens the ledger, begins it if there never was one, and locks it.
pub(super) async fn begin(
    place: &DatabaseLocation,
    config: &LedgerConfig,
    secret: &str,
    signer: Signer,
) -> Result<OpenedLedger, LedgerError> {
    let known = match config.state_dir.as_deref().map(mark::read).transpose() {
        Ok(known) => Ok(known.flatten()),
        Err(damaged) if config.begin_new => Err(damaged),
        Err(damaged) => return Err(damaged),
    };
    let expected = known.as_ref().ok().and_then(Option::as_ref).filter(|_| !config.begin_new);
    let lost =
        |known: &KnownLedger| LedgerError::Lost { ledger: known.ledger.clone(), mark: known.mark };
    if let Some(known) = expected
        && !place.may_hold_a_ledger()
    {
        return Err(lost(known));
    }
    let mut connection = place.connect(true).await?;
    let lock = match place {
        DatabaseLocation::Sqlite(path) => Some(super::lock::lock(path)?),
        DatabaseLocation::Postgres(_) => None,
    };
    connection.lock(config.shared).await?;
    if let Some(known) = expected
        && !connection.is_ledger().await?
    {
        return Err(lost(known));
    }
    connection.migrate().await?;
    if config.shared {
        wait_for_terms(&mut connection, config).await?;
    }
    connection.begin().await?;
    let found = recognise(&mut connection, known).await?;
    let id = match (found, config.begin_new) {
        (Ok(()), false) => match connection.meta(ID).await? {
            Some(id) => id,
            None => new_id(&mut connection).await?,
        },
        // Coordinators in service use this ledger: under another id they would take it for another
        // one.
        (Err(LedgerError::Another { ledger, known }), true) if config.shared => {
            tracing::warn!(%ledger, %known, "the ledger is joined in place of the one known here, as the operator asked");
            let event = format!(
                "joined, as the operator asked, by a coordinator that knew ledger {known} before"
            );
            record_event(&mut connection, SystemTime::now(), &event).await?;
            ledger
        }
        (Err(why), true) => {
            tracing::warn!(reason = %why, "the ledger is begun anew, as the operator asked");
            let replaced = why.known().unwrap_or_default().to_owned();
            connection.set_meta(REPLACES, &replaced).await?;
            record_event(
                &mut connection,
                SystemTime::now(),
                &format!("begun anew by the operator: {why}"),
            )
            .await?;
            new_id(&mut connection).await?
        }
        (Ok(()), true) => return Err(LedgerError::NothingToBegin),
        (Err(why), false) => return Err(why),
    };
    let mut key = [0u8; 32];
    rand::rng().fill_bytes(&mut key);
    let kind = match connection.meta(FINGERPRINT).await? {
        Some(_) => ShareHashKind::HmacSha256,
        None => ShareHashKind::Blake3,
    };
    let once = "INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
    let facts = [
        (FINGERPRINT, secret),
        (erasure::KEY, &hex(key)),
        (erasure::COUNT, "0"),
        (MARK, "0"),
        (REGISTRY, "0"),
        (SHARE_HASH, kind.name()),
    ];
    for (name, value) in facts {
        connection.execute(once, &[Arg::Text(name), Arg::Text(value)]).await?;
    }
    check_fingerprint(&mut connection, secret).await?;
    let share_hash = share_hash(&mut connection).await?;
    if config.shared {
        agree(&mut connection, config).await?;
    }
    let budgets =
        serde_json::to_string(&config.budgets).map_err(|e| LedgerError::Storage(e.to_string()))?;
    connection.set_meta(super::read::BUDGETS, &budgets).await?;
    models::name_old_ones(&mut connection, config.derive.as_ref()).await?;
    let mark = read_mark(&mut connection).await?;
    let chain = Chain::open(&mut connection, signer, &id, mark, SystemTime::now()).await?;
    connection.commit().await?;
    let known =
        KnownLedger { ledger: id, mark, secret: secret.to_owned(), head: chain.fixed().clone() };
    let marker = MarkFile::start(config.state_dir.clone(), known)?;
    Ok(OpenedLedger { connection, marker, lock, share_hash, chain })
}

/// Checks that the ledger is the one that the state directory knows; the inner error says why it is
/// not.
async fn recognise(
    connection: &mut Connection,
    known: Result<Option<KnownLedger>, LedgerError>,
) -> Result<Result<(), LedgerError>, LedgerError> {
    let known = match known {
        Ok(None) => return Ok(Ok(())),
        Ok(Some(known)) => known,
        Err(damaged) => return Ok(Err(damaged)),
    };
    let (ledger, mark) = (known.ledger.clone(), known.mark);
    let Some(id) = connection.meta(ID).await? else {
        return Ok(Err(LedgerError::Lost { ledger, mark }));
    };
    if id != known.ledger {
        // The coordinator was stopped between beginning this ledger and noting so.
        let replaces = connection.meta(REPLACES).await?;
        let begun_in_its_place = replaces.as_ref() == Some(&known.ledger);
        return Ok(if begun_in_its_place {
            Ok(())
        } else {
            Err(LedgerError::Another { ledger: id, known: ledger })
        });
    }
    let found = read_mark(connection).await?;
    if found < mark {
        return Ok(Err(LedgerError::OldCopy { known: ledger, has: found, mark }));
    }
    if !known.head.is_there(connection).await? {
        return Ok(Err(LedgerError::Rewritten { link: known.head.number }));
    }
    // Every counted commit belongs to a party, so a ledger with a mark has one.
    let parties = connection.row::<(i64,)>("SELECT count(*) FROM parties", &[]).await?;
    Ok(match parties {
        Some((0,)) if mark > 0 => Err(LedgerError::Lost { ledger, mark }),
        _ => Ok(()),
    })
}

/// Checks, after the connection was lost, that the ledger is still this one; returns its mark.
/// Never begins one: if the file is gone, so are the budgets.
pub(super) async fn resume(
    place: &DatabaseLocation,
    marker: &MarkFile,
    secret: &str,
    shared: bool,
) -> Result<(Connection, u64), LedgerError> {
    let mut connection = place.connect(false).await?;
    connection.impatient();
    connection.lock(shared).await?;
    if !connection.is_ledger().await? {
        return Err(LedgerError::Missing);
    }
    check_fingerprint(&mut connection, secret).await?;
    if shared {
        connection.agreed().await?;
    }
    let (known, has) = (marker.ledger().to_owned(), read_mark(&mut connection).await?);
    match connection.meta(ID).await? {
        Some(id) if id == known && has >= marker.reached() => {
            let head: &LinkId = marker.head();
            if head.is_there(&mut connection).await? {
                return Ok((connection, has));
            }
            Err(LedgerError::Rewritten { link: head.number })
        }
        Some(id) if id == known => Err(LedgerError::OldCopy { known, has, mark: marker.reached() }),
        Some(ledger) => Err(LedgerError::Another { ledger, known }),
        None => Err(LedgerError::Lost { ledger: known, mark: marker.reached() }),
    }
}

/// Notes the terms of the first coordinator that shares the ledger; those of a further one must be
/// the same. Runs inside a transaction.
async fn agree(connection: &mut Connection, config: &LedgerConfig) -> Result<(), LedgerError> {
    let ours = written(&config.terms())?;
    if connection.others().await? > 0 {
        check_terms(connection.meta(TERMS).await?.as_deref().unwrap_or_default(), &ours)?;
    } else {
        connection.set_meta(TERMS, &ours).await?;
    }
    // Before the transaction ends: whoever begins next finds both the terms and this coordinator.
    connection.agreed().await
}

/// Waits until the terms agree or no other coordinator is left: one that has just stopped is
/// counted for a moment longer.
async fn wait_for_terms(
    connection: &mut Connection,
    config: &LedgerConfig,
) -> Result<(), LedgerError> {
    let ours = written(&config.terms())?;
    for _ in 0..LOCK_TRIES {
        if connection.meta(TERMS).await?.is_none_or(|theirs| theirs == ours)
            || connection.others().await? == 0
        {
            break;
        }
        tokio::time::sleep(LOCK_PAUSE).await;
    }
    Ok(())
}

/// Returns the terms as text, as the ledger has them.
pub(super) fn written(terms: &BTreeMap<String, String>) -> Result<String, LedgerError> {
    serde_json::to_string(terms).map_err(|e| LedgerError::Storage(e.to_string()))
}

/// Checks that the terms in force are ours; the error names what differs.
pub(super) fn check_terms(theirs: &str, ours: &str) -> Result<(), LedgerError> {
    if theirs == ours {
        return Ok(());
    }
    let read =
        |text: &str| serde_json::from_str::<BTreeMap<String, String>>(text).unwrap_or_default();
    let (theirs, ours) = (read(theirs), read(ours));
    let word = |of: &BTreeMap<String, String>, name: &str| {
        of.get(name).cloned().unwrap_or_else(|| "not set".into())
    };
    let mut names = ours.keys().chain(theirs.keys());
    let name = names
        .find(|name| ours.get(*name) != theirs.get(*name))
        .cloned()
        .unwrap_or_else(|| TERMS.into());
    Err(LedgerError::Terms { ours: word(&ours, &name), theirs: word(&theirs, &name), name })
}

async fn new_id(connection: &mut Connection) -> Result<String, LedgerError> {
    let mut id = [0u8; 16];
    rand::rng().fill_bytes(&mut id);
    let id = hex(id);
    connection.set_meta(ID, &id).await?;
    Ok(id)
}

async fn share_hash(connection: &mut Connection) -> Result<ShareHashKind, LedgerError> {
    let name = connection.meta(SHARE_HASH).await?.unwrap_or_default();
    ShareHashKind::of_name(&name).ok_or_else(|| {
        LedgerError::Storage(format!(
            "the ledger hashes logit shares by {name:?}, which this version does not know"
        ))
    })
}

async fn read_mark(connection: &mut Connection) -> Result<u64, LedgerError> {
    let mark = connection.meta(MARK).await?;
    Ok(mark.and_then(|m| m.parse().ok()).unwrap_or_default())
}

async fn check_fingerprint(
    connection: &mut Connection,
    fingerprint: &str,
) -> Result<(), LedgerError> {
    match connection.meta(FINGERPRINT).await? {
        Some(found) if found == fingerprint => Ok(()),
        Some(ledger) => Err(LedgerError::Fingerprint { ledger, server: fingerprint.to_owned() }),
        None => Err(LedgerError::Missing),
    }
}
