//! Logit shares for an active party that this party colludes with.
//!
//! z = W_act y + Σ W_p x_p + b: an adversary that has the share W_p x_p of a record subtracts it
//! from the sum, and attacks the other parties as if there were no more. docs/protection.md says
//! what a share reveals of this party's own features.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use vfl_core::types::{LogitShare, ModelVersion, PartyName, RecordIds};
use vfl_protocol::{Refusal, RefusalKind, rough};
use vfl_server::service::PeerIdentity;
use vfl_state::blocking::heavy;

use crate::logits::LogitServer;

/// The `[collusion]` table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CollusionTable {
    /// Active parties that get logit shares of this party's records, by the names in their
    /// certificates. Default nobody.
    pub with: Vec<PartyName>,
    /// A file with the ids of the only records whose shares they get, one a line. Default all
    /// records.
    pub ids: Option<PathBuf>,
}

impl CollusionTable {
    /// Reads the file of ids and returns the rules.
    ///
    /// # Errors
    /// A message that says what is wrong and how to mend it.
    pub fn read(&self) -> Result<Collusion, String> {
        if self.with.is_empty() && self.ids.is_some() {
            return Err(
                "`ids` bounds what the parties in `with` get, and `with` names nobody".into()
            );
        }
        let records = self.ids.as_deref().map(ids).transpose()?;
        Ok(Collusion::new(self.with.clone(), records.as_ref()))
    }
}

fn ids(path: &Path) -> Result<RecordIds, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| format!("cannot read `ids` {}: {e}", path.display()))?;
    RecordIds::new(text.lines().filter(|line| !line.is_empty()))
        .map_err(|e| format!("{}: {e}", path.display()))
}

/// The active parties that get logit shares of this party's records, and these records. The default
/// is nobody.
#[derive(Debug, Clone, Default)]
pub struct Collusion {
    with: Vec<PartyName>,
    /// The records whose shares are lent; `None` for all.
    records: Option<HashSet<Box<str>>>,
}

impl Collusion {
    /// Creates rules that lend shares to these active parties: of these records, or of all.
    #[must_use]
    pub fn new(with: Vec<PartyName>, records: Option<&RecordIds>) -> Self {
        Self { with, records: records.map(|ids| ids.iter().map(Box::from).collect()) }
    }

    /// Returns the names and records as text, which is the same for equal sets.
    pub(crate) fn words(&self) -> String {
        let with: BTreeSet<&str> = self.with.iter().map(PartyName::as_str).collect();
        let records: Option<BTreeSet<&str>> =
            self.records.as_ref().map(|records| records.iter().map(AsRef::as_ref).collect());
        format!("{with:?} {records:?}")
    }

    /// Checks that a caller gets shares at all.
    ///
    /// # Errors
    /// PERMISSION_DENIED with the name of the setting.
    pub fn allows(&self, caller: &PeerIdentity) -> Result<(), Refusal> {
        let name = caller.name();
        if self.with.contains(name) {
            return Ok(());
        }
        let message = format!(
            "no logit shares are lent to active party `{name}` here; the operator may set `with = [\"{name}\"]` in [collusion]"
        );
        Err(Refusal::new(RefusalKind::PermissionDenied, message))
    }

    /// Returns W_pas x of records under a model version, k × n: the true share, as in predictions.
    ///
    /// # Errors
    /// Those of [`Collusion::allows`] and [`LogitServer::share`], PERMISSION_DENIED for records
    /// that are not lent, NOT_FOUND for records that are not held.
    pub async fn lend(
        &self,
        logits: &LogitServer,
        caller: &PeerIdentity,
        version: &ModelVersion,
        ids: &RecordIds,
    ) -> Result<LogitShare, Refusal> {
        self.allows(caller)?;
        let share = logits.share(version)?;
        let n = ids.len();
        let kept = |id: &&str| self.records.as_ref().is_some_and(|records| !records.contains(*id));
        match ids.iter().filter(kept).count() {
            0 => {}
            kept => {
                let kept = rough(kept);
                let message = format!(
                    "{kept} of the {n} records are not among those of `ids` in [collusion]"
                );
                return Err(Refusal::new(RefusalKind::PermissionDenied, message));
            }
        }
        let found = logits.lookup(ids).await?;
        if found.held.len() < n {
            let message =
                format!("{} of the {n} records are not held here", rough(n - found.held.len()));
            return Err(Refusal::new(RefusalKind::NotFound, message));
        }
        let (model, block) = (share.model(), found.block);
        let outputs = heavy(model.work() * n as u64, || model.outputs(block.matrix()));
        let lent = outputs.map_err(|e| Refusal::internal(e.to_string()))?;
        tracing::info!(caller = %caller, records = n, "logit shares lent");
        Ok(lent)
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::DMatrix;
    use vfl_core::data::schema::{FeatureSchema, FeatureSpec};
    use vfl_core::data::table::FeatureTable;
    use vfl_core::model::LinearParameters;
    use vfl_core::types::FeatureBlock;
    use vfl_server::service::Role;
    use vfl_state::ShareStore;

    use super::*;

    fn version(text: &str) -> ModelVersion {
        ModelVersion::new(text).unwrap()
    }

    fn name(name: &str) -> PartyName {
        PartyName::new(name).unwrap()
    }

    fn active(name_: &str) -> PeerIdentity {
        PeerIdentity::new("d", Role::ActiveParty, name(name_)).unwrap()
    }

    fn ids(ids: &[&str]) -> RecordIds {
        RecordIds::new(ids).unwrap()
    }

    /// Three records of two features under W = [[1, 2], [0, −1]], stored as version `m-1`.
    fn server(dir: &Path) -> LogitServer {
        let specs = ["f", "g"].map(|f| FeatureSpec::numeric(f, 0.0, 1.0)).into();
        let schema = FeatureSchema::new(specs, None).unwrap();
        let block =
            FeatureBlock::new(DMatrix::from_column_slice(2, 3, &[0.5, 0.25, 1.0, 0.0, 0.0, 1.0]))
                .unwrap();
        let table = FeatureTable::new(schema, ids(&["a", "b", "c"]), block, None).unwrap();
        let store = ShareStore::open(dir).unwrap();
        let weights = DMatrix::from_row_slice(2, 2, &[1.0, 2.0, 0.0, -1.0]);
        let share = store
            .put(&LinearParameters::new(weights, None).unwrap(), &["f".into(), "g".into()])
            .unwrap();
        store.bind(&ModelVersion::new("m-1").unwrap(), &share).unwrap();
        LogitServer::new(table, store)
    }

    #[tokio::test]
    async fn shares_go_to_whom_the_operator_names_and_to_nobody_else() {
        let dir = tempfile::tempdir().unwrap();
        let logits = server(dir.path());
        let collusion = Collusion::new(vec![name("fintech")], None);
        let lend = |collusion: &Collusion, who: &str, of: &[&str]| {
            let (who, of) = (active(who), ids(of));
            let (collusion, logits) = (collusion.clone(), &logits);
            async move {
                collusion
                    .lend(logits, &who, &version("m-1"), &of)
                    .await
                    .map(LogitShare::into_matrix)
            }
        };
        let lent = lend(&collusion, "fintech", &["c", "a"]).await.unwrap();
        assert_eq!(lent, DMatrix::from_column_slice(2, 2, &[2.0, -1.0, 1.0, -0.25]));
        for (collusion, who) in [(&collusion, "other"), (&Collusion::default(), "fintech")] {
            let refused = lend(collusion, who, &["a"]).await.unwrap_err();
            assert_eq!(refused.kind, RefusalKind::PermissionDenied);
            assert!(
                refused.message.contains("[collusion]") && refused.message.contains(who),
                "{refused}"
            );
        }
        let refused = lend(&collusion, "fintech", &["a", "x"]).await.unwrap_err();
        assert_eq!(
            (refused.kind, refused.message.contains("some of the 2")),
            (RefusalKind::NotFound, true),
            "{refused}"
        );
        let refused = collusion
            .lend(&logits, &active("fintech"), &version("m-2"), &ids(&["a"]))
            .await
            .unwrap_err();
        assert_eq!(refused.kind, RefusalKind::FailedPrecondition, "{refused}");
    }

    #[tokio::test]
    async fn a_list_bounds_which_records_are_lent() {
        let dir = tempfile::tempdir().unwrap();
        let logits = server(dir.path());
        let path = dir.path().join("lent.ids");
        std::fs::write(&path, "a\n\nb\n").unwrap();
        let read = |text: &str| toml::from_str::<CollusionTable>(text).unwrap().read();
        let collusion = read(&format!("with = [\"fintech\"]\nids = {path:?}")).unwrap();
        let lend = |of: &[&str]| {
            let (of, collusion, logits) = (ids(of), &collusion, &logits);
            async move { collusion.lend(logits, &active("fintech"), &version("m-1"), &of).await }
        };
        assert_eq!(lend(&["b", "a"]).await.unwrap().records(), 2);
        let refused = lend(&["a", "c"]).await.unwrap_err();
        assert_eq!(refused.kind, RefusalKind::PermissionDenied);
        assert!(
            refused.message.contains("some of the 2") && refused.message.contains("`ids`"),
            "{refused}"
        );
        assert!(read(&format!("ids = {path:?}")).unwrap_err().contains("`with` names nobody"));
        assert!(read("with = [\"fintech\"]\nids = \"/none\"").unwrap_err().contains("/none"));
        assert!(
            toml::from_str::<CollusionTable>("with = [\"a/b\"]").is_err(),
            "a name that no certificate has"
        );
        assert!(read("").unwrap().allows(&active("fintech")).is_err(), "nobody by default");
    }
}
