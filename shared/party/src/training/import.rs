//! A party's side of publishing imported parameters, which its operator has staged for an active
//! party.

use std::sync::{Mutex, PoisonError};

use vfl_core::data::schema::FeatureSchema;
use vfl_core::model::LinearParameters;
use vfl_core::types::{ModelVersion, PartyName};
use vfl_protocol::{Refusal, RefusalKind};
use vfl_state::{ImportError, ShareStore, StagedParameters, Staging, StoredShare};

/// The service's answers to requests to publish the staged parameters. Its refusals go to other
/// parties: only the log has the paths of files and the other active parties for which parameters
/// are staged.
#[derive(Debug)]
pub struct Importer {
    staging: Staging,
    store: ShareStore,
    /// The party's features, in the order of the weights' columns.
    schema: FeatureSchema,
    /// True if models are trained on, and served with, features that went through a map.
    mapped: bool,
    /// True for the active party, which holds the bias.
    bias: bool,
    /// The lock that serialises publications.
    turn: Mutex<()>,
}

impl Importer {
    /// Creates the importer of the active party.
    #[must_use]
    pub fn of_active(staging: Staging, store: ShareStore, schema: FeatureSchema) -> Self {
        Self { staging, store, schema, mapped: false, bias: true, turn: Mutex::default() }
    }

    /// Creates the importer of a passive party; `mapped` is true if its features go through a map
    /// before they meet the weights.
    #[must_use]
    pub fn of_passive(
        staging: Staging,
        store: ShareStore,
        schema: FeatureSchema,
        mapped: bool,
    ) -> Self {
        Self { staging, store, schema, mapped, bias: false, turn: Mutex::default() }
    }

    /// Returns the parameters staged for `active_party`, with their share, if they can be published
    /// as a model of `classes`.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if nothing is staged, or for other classes or features;
    /// PERMISSION_DENIED if it is staged for another active party; INTERNAL if it cannot be read.
    pub fn staged(
        &self,
        active_party: &PartyName,
        classes: &[String],
    ) -> Result<(StagedParameters, StoredShare), Refusal> {
        let staged = self.staging.staged().map_err(unreadable)?.ok_or_else(|| {
            let mend = match self.bias {
                true => "run `active-party import-parameters` first",
                false => {
                    "this party's operator imports them with `passive-party import-parameters`"
                }
            };
            Refusal::precondition(format!(
                "no parameters are staged here for active party `{active_party}`; {mend}"
            ))
        })?;
        if staged.active_party != *active_party {
            let message = format!(
                "the parameters staged here are not for active party `{active_party}`; this party's operator says for whom \
                 they are when importing them"
            );
            return Err(Refusal::new(RefusalKind::PermissionDenied, message));
        }
        if self.mapped {
            tracing::error!(
                "imported parameters are of the features as they are, and `transform` in [training] maps them: set it to none, \
                 with a state_dir of its own"
            );
            let message =
                "this party's settings do not go with imported parameters; its log says more";
            return Err(Refusal::precondition(message));
        }
        if let Some(difference) = difference(&staged.class_names, classes) {
            return Err(Refusal::precondition(format!(
                "the parameters staged here are of other classes: {difference}; the files of all parties name the same classes \
                 in the same order"
            )));
        }
        let mut share = self.store.stored(&staged.digest).map_err(unreadable)?;
        share.encodings.clone_from(&staged.encodings);
        if let Err(difference) = share.check_schema(&self.schema) {
            tracing::error!(
                "the parameters staged here were made for {difference}: import them again"
            );
            let message = "the parameters staged here are of other features, ranges or categories than this party's schema has \
                now; import them again";
            return Err(Refusal::precondition(message));
        }
        let fits = |linear: &LinearParameters| {
            linear.classes() == classes.len() && linear.bias().is_some() == self.bias
        };
        // The outputs of a network may be an embedding; the coordinator checks that they fit the
        // model.
        if share.model().linear().is_some_and(|linear| !fits(linear)) {
            let message =
                "the share staged here is not what was imported; import the parameters again";
            return Err(Refusal::precondition(message));
        }
        Ok((staged, share))
    }

    /// Binds the staged parameters to a version, any number of times. This is for the active party,
    /// whose command to publish is its consent.
    ///
    /// # Errors
    /// The errors of [`Importer::staged`]; FAILED_PRECONDITION if another share is staged by now.
    pub fn bind(
        &self,
        active_party: &PartyName,
        classes: &[String],
        version: &ModelVersion,
        digest: &str,
    ) -> Result<(), Refusal> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.still_staged(active_party, classes, digest)?;
        self.store.bind(version, digest).map_err(unreadable)
    }

    /// Binds the staged parameters to a version: once, for one version. Repeating the same version
    /// completes a publication that was interrupted.
    ///
    /// # Errors
    /// The errors of [`Importer::staged`]; FAILED_PRECONDITION if another share is staged by now,
    /// or if it was published as another version.
    pub fn publish(
        &self,
        active_party: &PartyName,
        classes: &[String],
        version: &ModelVersion,
        digest: &str,
    ) -> Result<(), Refusal> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let staged = self.still_staged(active_party, classes, digest)?;
        // The staging is marked first: after a crash between the two it is valid for this version
        // alone.
        let used = self.staging.use_for(&staged, version).map_err(unreadable)?;
        if used != *version {
            return Err(Refusal::precondition(format!(
                "the parameters staged here were published as {used}, and one staging is good for one model; this party's \
                 operator imports them again for another"
            )));
        }
        self.store.bind(version, digest).map_err(unreadable)
    }

    fn still_staged(
        &self,
        active_party: &PartyName,
        classes: &[String],
        digest: &str,
    ) -> Result<StagedParameters, Refusal> {
        let (staged, _) = self.staged(active_party, classes)?;
        if staged.digest != digest {
            return Err(Refusal::precondition(
                "other parameters have been staged here in the meantime; publish again",
            ));
        }
        Ok(staged)
    }
}

/// Describes the first difference between two lists of class names.
fn difference(here: &[String], there: &[String]) -> Option<String> {
    if here.len() != there.len() {
        return Some(format!("{} here, {} at the active party", here.len(), there.len()));
    }
    let at = here.iter().zip(there).position(|(a, b)| a != b)?;
    Some(format!("class {} is `{}` here and `{}` at the active party", at + 1, here[at], there[at]))
}

fn unreadable(error: impl Into<ImportError>) -> Refusal {
    let error = error.into();
    tracing::error!(%error, "staged parameters cannot be published");
    Refusal::own_state(
        error.away(),
        "what is staged here cannot be read or written; this party's log says why",
    )
}

#[cfg(test)]
mod tests {
    use nalgebra::DMatrix;

    use super::*;
    use vfl_core::data::schema::FeatureSpec;

    struct Here {
        dir: tempfile::TempDir,
        store: ShareStore,
        digest: String,
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    fn schema(names: &[&str]) -> FeatureSchema {
        FeatureSchema::new(
            names.iter().map(|name| FeatureSpec::numeric(*name, 0.0, 1.0)).collect(),
            None,
        )
        .unwrap()
    }

    fn party(name: &str) -> PartyName {
        PartyName::new(name).unwrap()
    }

    impl Here {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let store = ShareStore::open(dir.path()).unwrap();
            let parameters = LinearParameters::new(DMatrix::from_element(2, 2, 0.5), None).unwrap();
            let digest = store.put(&parameters, &names(&["x", "y"])).unwrap();
            Self { dir, store, digest }
        }

        fn stage(&self) {
            let staging = Staging::of(self.dir.path());
            staging.stage(self.digest.clone(), party("shop"), names(&["no", "yes"]), None).unwrap();
        }

        fn importer(&self, features: &[&str], mapped: bool) -> Importer {
            Importer::of_passive(
                Staging::of(self.dir.path()),
                self.store.clone(),
                schema(features),
                mapped,
            )
        }
    }

    #[test]
    fn only_what_fits_is_described() {
        let here = Here::new();
        let classes = names(&["no", "yes"]);
        let importer = here.importer(&["x", "y"], false);
        let said = |importer: &Importer, party: &PartyName, classes: &[String]| {
            importer.staged(party, classes).map(drop).unwrap_err().to_string()
        };
        assert!(said(&importer, &party("shop"), &classes).contains("no parameters are staged"));
        here.stage();
        assert_eq!(importer.staged(&party("shop"), &classes).unwrap().0.digest, here.digest);
        let refused = importer.staged(&party("rival"), &classes).unwrap_err();
        assert_eq!(refused.kind, RefusalKind::PermissionDenied);
        assert!(
            refused.message.contains("`rival`") && !refused.message.contains("shop"),
            "{refused}"
        );
        assert!(
            said(&importer, &party("shop"), &names(&["no"]))
                .contains("2 here, 1 at the active party")
        );
        assert!(
            said(&importer, &party("shop"), &names(&["yes", "no"]))
                .contains("class 1 is `no` here and `yes`")
        );
        assert!(
            said(&here.importer(&["y", "x"], false), &party("shop"), &classes)
                .contains("other features")
        );
        assert!(
            said(&here.importer(&["x", "y"], true), &party("shop"), &classes).contains("settings")
        );
        let active = Importer::of_active(
            Staging::of(here.dir.path()),
            here.store.clone(),
            schema(&["x", "y"]),
        );
        assert!(
            said(&active, &party("shop"), &classes).contains("not what was imported"),
            "no bias"
        );
        std::fs::remove_dir_all(here.dir.path().join("shares")).unwrap();
        let said = said(&importer, &party("shop"), &classes);
        assert!(said.contains("log says why") && !said.contains('/'), "no path leaves: {said}");
    }

    #[test]
    fn a_staging_is_good_for_one_version() {
        let here = Here::new();
        here.stage();
        let classes = names(&["no", "yes"]);
        let (one, two) = (ModelVersion::new("m-1").unwrap(), ModelVersion::new("m-2").unwrap());
        let publish = |version: &ModelVersion, digest: &str| {
            here.importer(&["x", "y"], false).publish(&party("shop"), &classes, version, digest)
        };
        let other =
            here.store.put(&LinearParameters::zeros(2, 2, false), &names(&["x", "y"])).unwrap();
        assert!(publish(&one, &other).unwrap_err().message.contains("in the meantime"));
        assert!(here.store.load(&one).is_err());
        publish(&one, &here.digest).unwrap();
        publish(&one, &here.digest).unwrap();
        assert_eq!(here.store.load(&one).unwrap().digest, here.digest);
        let refused = publish(&two, &here.digest).unwrap_err();
        assert!(
            refused.message.contains("published as m-1")
                && refused.message.contains("good for one"),
            "{refused}"
        );
        assert!(here.store.load(&two).is_err());
        // The operator's word again, for the same parameters.
        here.stage();
        publish(&two, &here.digest).unwrap();
        assert_eq!(here.store.load(&one).unwrap().digest, here.store.load(&two).unwrap().digest);
    }
}
