//! The purifier: an autoencoder with a narrow middle.

use nalgebra::DMatrix;
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use vfl_core::types::ReleasedScores;
use vfl_numerics::arg_max;

use super::definition::{Definition, Grants};
use super::order::each_column;
use super::{Contract, Defense, DefenseError, Noise, Output, checked};
use crate::DefenseConfig;
use crate::policy::{Facts, Parameter, ParameterKind, PurifierTraining, ReleaseKind};
use crate::purifier::{MAX_CLASSES, Purifier, random_scores, random_vectors};

const NAME: &str = "purifier";
/// Largest weight of the class in the loss, beside the distance.
const MAX_LABEL_WEIGHT: f64 = 1e3;
/// Fewest scores to train on: with fewer, the autoencoder would learn them by heart.
const LEAST_RECORDS: usize = 20;

pub(super) const FACTS: Facts = Facts {
    name: NAME,
    parameters: &[
        Parameter::optional(
            "training",
            ParameterKind::Word(&["scores", "random", "normal"]),
            "what it is trained on; default scores",
        ),
        Parameter::optional("label_weight", ParameterKind::Number, "0 (default) to 1000"),
    ],
    examples: |_| {
        [PurifierTraining::Scores, PurifierTraining::Random]
            .map(|training| DefenseConfig::Purifier { training, label_weight: 0.0 })
            .into()
    },
    costly: true,
    fitted: true,
    ..Facts::PLAIN
};

pub(super) fn definition(training: PurifierTraining, label_weight: f64) -> Definition<'static> {
    Definition {
        leaves: ReleaseKind::Purified,
        bits: Definition::unbounded(
            "a purifier gives out a continuum of vectors, for which no bound is known",
        ),
        fitted: training == PurifierTraining::Scores,
        ..Definition::at_scores(
            &FACTS,
            Output::Probabilities,
            move || Purify::check(label_weight, None),
            move |classes, grants| Purify::train(training, label_weight, classes, grants),
        )
    }
}

/// Releases G(c): the scores passed through a [`Purifier`] that was trained to reproduce scores of
/// the model, or random ones.
///
/// Its narrow middle drops fine differences between records, on purpose. It promises nothing: the
/// class may change, and whoever knows G has k/2 numbers of each record.
#[derive(Debug, Clone)]
pub struct Purify {
    purifier: Purifier,
    training: PurifierTraining,
    vectors: usize,
    /// Share of the training vectors whose class the purifier changes.
    changed: f64,
}

impl Purify {
    pub(super) fn check(label_weight: f64, classes: Option<usize>) -> Result<(), DefenseError> {
        let good = (0.0..=MAX_LABEL_WEIGHT).contains(&label_weight);
        checked(good, NAME, "label_weight", label_weight, format!("0 to {MAX_LABEL_WEIGHT}"))?;
        match classes {
            Some(k) if k > MAX_CLASSES => Err(DefenseError::Needs {
                defense: NAME,
                what: format!("a model of at most {MAX_CLASSES} classes; this one has {k}"),
            }),
            _ => Ok(()),
        }
    }

    /// Trains the purifier on the calibration scores, or on vectors drawn from the grants' seed.
    /// Its first parameters are drawn from that seed too.
    ///
    /// # Errors
    /// [`DefenseError::Setting`] for a `label_weight` out of range; [`DefenseError::Needs`] for too
    /// many classes, without calibration scores where it is trained on them, or with fewer than 20.
    pub fn train(
        training: PurifierTraining,
        label_weight: f64,
        classes: usize,
        grants: &Grants<'_>,
    ) -> Result<Self, DefenseError> {
        Self::check(label_weight, Some(classes))?;
        let mut rng = ChaCha12Rng::from_seed(grants.seed);
        let drawn;
        let set = match training {
            PurifierTraining::Scores => grants.calibration(NAME)?.matrix(),
            PurifierTraining::Random => {
                drawn = random_scores(classes, &mut rng);
                &drawn
            }
            PurifierTraining::Normal => {
                drawn = random_vectors(classes, &mut rng);
                &drawn
            }
        };
        let (k, n) = set.shape();
        if n < LEAST_RECORDS || k != classes {
            let what = format!(
                "calibration scores of at least {LEAST_RECORDS} records and {classes} classes; there are {n} records of {k} classes"
            );
            return Err(DefenseError::Needs { defense: NAME, what });
        }
        let failed = |e| DefenseError::Needs {
            defense: NAME,
            what: format!("scores that it can be trained on: {e}"),
        };
        let purifier = Purifier::train(set, label_weight, &mut rng).map_err(failed)?;
        let out = purifier.apply(set);
        let pairs = set.column_iter().zip(out.column_iter());
        let changed = pairs.filter(|(c, p)| arg_max(c.as_slice()) != arg_max(p.as_slice())).count();
        Ok(Self { purifier, training, vectors: n, changed: changed as f64 / n as f64 })
    }
}

impl Defense for Purify {
    fn contract(&self) -> Contract {
        let output = Output::Probabilities;
        Contract {
            output,
            keeps_arg_max: false,
            keeps_ranking: false,
            randomised: false,
            bits: None,
        }
    }

    /// Works record by record: the release of one does not depend on the others of its batch.
    fn apply(
        &self,
        mut scores: DMatrix<f64>,
        _noise: &Noise<'_>,
    ) -> Result<ReleasedScores, DefenseError> {
        let (k, of) = (scores.nrows(), self.purifier.classes());
        if k != of {
            return Err(DefenseError::Needs {
                defense: NAME,
                what: format!("scores of {of} classes; these have {k}"),
            });
        }
        each_column(
            scores.as_mut_slice(),
            k,
            || (vec![0.0; self.purifier.hidden_units()], vec![0.0; k]),
            |(hidden, logits), _, column| {
                self.purifier.logits_of(column, hidden, logits);
                let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                column.iter_mut().zip(&*logits).for_each(|(p, z)| *p = (z - most).exp());
                let sum: f64 = column.iter().sum();
                column.iter_mut().for_each(|p| *p /= sum);
            },
        );
        Ok(ReleasedScores::Probabilities(scores))
    }

    fn note(&self) -> Option<String> {
        let (hidden, n) = (self.purifier.hidden_units(), self.vectors);
        let on = match self.training {
            PurifierTraining::Scores => "calibration scores",
            PurifierTraining::Random => "random score vectors",
            PurifierTraining::Normal => "vectors of normal numbers",
        };
        let changed = 100.0 * self.changed;
        Some(format!(
            "{NAME}: {hidden} hidden units, trained on {n} {on}, of which the class of {changed:.1} % changes"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::random_scores as scores;
    use vfl_core::types::ConfidenceScores;

    fn trained(training: PurifierTraining, calibration: &DMatrix<f64>, seed: u8) -> Purify {
        let calibration = ConfidenceScores::new(calibration.clone()).unwrap();
        let grants =
            Grants { calibration: Some(&calibration), seed: [seed; 32], ..Grants::default() };
        Purify::train(training, 0.0, calibration.matrix().nrows(), &grants).unwrap()
    }

    fn out(purify: &Purify, c: &DMatrix<f64>) -> DMatrix<f64> {
        match purify.apply(c.clone(), &Noise::fresh([0; 32])).unwrap() {
            ReleasedScores::Probabilities(p) => p,
            _ => panic!("kind"),
        }
    }

    #[test]
    fn it_releases_what_the_autoencoder_gives_and_depends_on_its_seed() {
        let c = scores(5, 300, 3);
        for training in
            [PurifierTraining::Scores, PurifierTraining::Random, PurifierTraining::Normal]
        {
            let purify = trained(training, &c, 1);
            let p = out(&purify, &c);
            assert!((&p - purify.purifier.apply(&c)).amax() < 1e-14);
            assert_eq!(out(&trained(training, &c, 1), &c), p);
            assert!((out(&trained(training, &c, 2), &c) - &p).amax() > 1e-4, "{training:?}");
            // A record's release is the same alone as among others.
            assert_eq!(out(&purify, &c.columns(7, 1).into_owned()).column(0), p.column(7));
        }
        assert!(
            trained(PurifierTraining::Random, &c, 1)
                .note()
                .unwrap()
                .contains("10000 random score vectors")
        );
    }

    #[test]
    fn what_it_cannot_be_trained_on_is_named() {
        let of = |text: &str, k: usize, grants: &Grants<'_>| {
            let config: DefenseConfig = text.parse().unwrap();
            let DefenseConfig::Purifier { training, label_weight } = config else {
                panic!("{config}")
            };
            Purify::train(training, label_weight, k, grants).map(drop).map_err(|e| e.to_string())
        };
        let none = Grants::default();
        assert!(of("purifier", 4, &none).unwrap_err().contains("calibration"));
        assert!(
            of("purifier (label_weight = -1.0)", 4, &none).unwrap_err().contains("label_weight")
        );
        assert!(
            of("purifier (training = \"random\")", 300, &none).unwrap_err().contains("256 classes")
        );
        let few = ConfidenceScores::new(scores(3, 19, 1)).unwrap();
        let grants = Grants { calibration: Some(&few), ..none };
        assert!(of("purifier", 3, &grants).unwrap_err().contains("19 records"));
        of("purifier (training = \"random\")", 3, &none).unwrap();
    }
}
