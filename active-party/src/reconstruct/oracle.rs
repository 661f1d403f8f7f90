//! The coordinator behind an audit session, for attacks that send questions themselves.

use std::sync::Arc;

use nalgebra::DMatrix;
use vfl_attack::{Answer, OracleError, ShareOracle};
use vfl_core::model::Combiner;
use vfl_core::types::{RecordIds, ReleasedScores, RowStatus};

use crate::scoring::{ModelDescription, Scorer};

/// The coordinator, behind one audit session.
pub(super) struct Session {
    pub(super) scorer: Arc<Scorer>,
    pub(super) model: ModelDescription,
    pub(super) audit_session: String,
    pub(super) ids: RecordIds,
    pub(super) runtime: tokio::runtime::Handle,
}

/// Leaves out the name of the session, which is a secret.
impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({} records)", self.ids.len())
    }
}

impl ShareOracle for Session {
    fn ask(&self, records: &[usize], shares: &DMatrix<f64>) -> Result<Vec<Answer>, OracleError> {
        if self.model.combiner() == Combiner::Concat {
            let reason =
                "shares are chosen as parts of a sum of logits, and this model has a top model";
            return Err(OracleError(reason.to_owned()));
        }
        let ids = self.ids.select(records);
        let asked = self.scorer.ask(&self.model, &ids, shares, &self.audit_session);
        // This thread is not one of the runtime's.
        let scored =
            self.runtime.block_on(asked).map_err(|refusal| OracleError(refusal.message))?;
        let mut released = 0;
        let answers = scored.status.iter().map(|status| {
            if *status != RowStatus::Ok {
                return Answer::Refused;
            }
            let record = released;
            released += 1;
            match &scored.released {
                ReleasedScores::Probabilities(m) | ReleasedScores::Numbers(m) => {
                    Answer::Scores(m.column(record).iter().copied().collect())
                }
                ReleasedScores::Labels { labels, .. } => Answer::Label(labels[record]),
                ReleasedScores::Ciphertexts(m) => {
                    Answer::Ciphertexts(m.column(record).iter().copied().collect())
                }
            }
        });
        Ok(answers.collect())
    }
}
