//! Fetches the adversary's side information: records whose passive features it knows already, and
//! the logit shares that colluding passive parties lend it.

use vfl_attack::{AttackError, Colluders};
use vfl_core::data::table::FeatureStore;
use vfl_core::model::Combiner;
use vfl_core::types::RowStatus;
use vfl_protocol::reconstruct::AuxiliaryIds;
use vfl_protocol::{Refusal, RefusalKind, rough};

use super::Reconstructor;
use super::availability::{Available, KnownRecords};
use super::job::Job;
use crate::own_logits;
use crate::scoring::ModelDescription;

impl Reconstructor {
    /// Fetches the auxiliary records of a job: own features, known features, and the scores from
    /// their session.
    pub(super) async fn auxiliary(
        &self,
        model: &ModelDescription,
        job: &Job,
        target: usize,
    ) -> Result<Available<KnownRecords>, Refusal> {
        let AuxiliaryIds { ids, session } = &job.auxiliary;
        if ids.is_empty() || !job.tasks.iter().any(|t| t.needs.known_records().wanted()) {
            return Ok(None);
        }
        let Some(known) = &self.known else {
            let reason = "records whose passive features the active party knows, and its config names no `known_csv` in [audit]";
            return Ok(Some(Err(AttackError::NotGranted {
                reason: format!("this attack needs {reason}"),
            })));
        };
        if known.schema().len() != target {
            return Err(Refusal::precondition(format!(
                "`known_schema` of the active party has {} features, the model's passive parties hold {target}: give all of \
                 them, in the order of the parties",
                known.schema().len()
            )));
        }
        let n = ids.len();
        let absent = |missing: usize, what: &str| {
            let message =
                format!("{} of the {n} auxiliary records are not in {what}", rough(missing));
            Refusal::new(RefusalKind::NotFound, message)
        };
        let unknown = ids.iter().filter(|id| known.position(id).is_none()).count();
        if unknown > 0 {
            return Err(absent(unknown, "`known_csv` of the active party"));
        }
        let own = self
            .scorer
            .features
            .lookup(ids)
            .await
            .map_err(|e| vfl_features::features::refusal_for_others(&e, "this active party"))?;
        if own.held.len() < n {
            return Err(absent(n - own.held.len(), "the active party's own data"));
        }
        let x = known.fetch(ids).map_err(|e| Refusal::internal(e.to_string()))?;
        let y = own.block;
        let y = own_logits::features(&*self.scorer.share(&model.version)?, y)?;
        let scored = self.scorer.score(model, ids, Some(session), "").await?;
        let failed = scored.status.iter().filter(|&&s| s != RowStatus::Ok).count();
        if failed > 0 {
            let failed = rough(failed);
            let message = format!(
                "{failed} of the {n} auxiliary records were not scored; name records that all parties hold and the session answers"
            );
            return Err(Refusal::precondition(message));
        }
        Ok(Some(Ok(KnownRecords { y, x, released: scored.released })))
    }

    /// Fetches the logit shares that the colluders of a job lend.
    pub(super) async fn colluders(
        &self,
        model: &ModelDescription,
        job: &Job,
    ) -> Result<Available<Colluders>, Refusal> {
        if job.colluders.is_empty() || !job.tasks.iter().any(|t| t.needs.colluders.wanted()) {
            return Ok(None);
        }
        let parties = &model.passive_parties;
        if model.combiner() == Combiner::Concat {
            let reason = "the parties' outputs go through a top model here, so that no sum of logit shares is there to take the \
                          colluders' out of";
            return Ok(Some(Err(AttackError::NotGranted { reason: reason.to_owned() })));
        }
        if let Some(stranger) =
            job.colluders.iter().find(|c| !parties.iter().any(|(name, _)| name == *c))
        {
            let names: Vec<&str> = parties.iter().map(|(name, _)| name.as_str()).collect();
            return Err(Refusal::invalid(format!(
                "`colluders` names `{stranger}`, the model's passive parties are {}",
                names.join(", ")
            )));
        }
        let k = model.class_names.len();
        let mut found =
            Colluders { features: Vec::new(), shares: nalgebra::DMatrix::zeros(k, job.ids.len()) };
        let refused = |reason| Ok(Some(Err(AttackError::NotGranted { reason })));
        for (name, features) in parties {
            let colludes = job.colluders.contains(name);
            found.features.extend(std::iter::repeat_n(colludes, *features));
            if !colludes {
                continue;
            }
            let Some(party) = self.passive.iter().find(|party| party.name() == name) else {
                return refused(format!(
                    "the active party has no address of passive party `{name}`; its operator may add it to [[passive_parties]]"
                ));
            };
            match party.lend_shares(&model.version, &job.ids, k).await? {
                Ok(shares) => found.shares += shares,
                Err(said) => {
                    return refused(format!("passive party `{name}` does not collude: {said}"));
                }
            }
        }
        if model.link().is_numeric() {
            // A number's predictor is the difference of two logits, the first of which is 0.
            found.shares = found.shares.insert_row(0, 0.0);
        }
        Ok(Some(Ok(found)))
    }
}

#[cfg(test)]
mod tests {
    use vfl_core::types::RecordIds;

    use super::super::job::check_auxiliary;
    use super::*;

    #[test]
    fn auxiliary_records_have_a_session_and_are_not_under_attack() {
        let ids = |ids: &[&str]| RecordIds::new(ids).unwrap();
        let check = |aux: &[&str], session: &str| {
            check_auxiliary(
                AuxiliaryIds { ids: ids(aux), session: session.into() },
                &ids(&["a", "b"]),
            )
        };
        assert!(check(&["c"], "s").is_ok() && check(&[], "").is_ok());
        for (aux, session, says) in [
            (&["c"][..], "", "`auxiliary_session`"),
            (&[], "s", "`auxiliary_ids`"),
            (&["c", "b"], "s", "some of the `auxiliary_ids` are among the records under attack"),
        ] {
            let refused = check(aux, session).err().unwrap();
            assert!(
                refused.kind == RefusalKind::InvalidArgument && refused.message.contains(says),
                "{refused}"
            );
        }
    }
}
