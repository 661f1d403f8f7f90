//! Models under attack in J figures 14 and 15, each in one split: softmax regression and
//! perceptrons, trained with or without noise, and the view of an adversary that does not know the
//! passive parameters.

use nalgebra::DMatrix;
use rand::Rng;
use vfl_attack::{
    Architecture as Guess, AttackError, AuxiliaryRecords, Descent, KnownModel, NetworkTraining,
    Replacement, ShadowBias, ShadowEstimate, ShadowFit, fit_shadow,
};
use vfl_core::model::{TrainingConfig, TrainingValues};
use vfl_core::types::{FeatureBlock, ReleasedScores};

use super::super::experiment_model::{DrawnRecords, ExperimentModel, Purpose, generator};
use super::super::model_training::scores;
use super::super::sweep::{Window, select};
use super::super::{Figure, Options, ReproduceError};
use super::private::PrivateModel;
use super::split::{Architecture, Split, Training, passive_parameters};

/// The most training records for a purifier's scores, and for the evaluation classifier.
pub(super) const MOST: usize = 4000;
/// The most records that softmax regression is trained on with noise.
const PRIVATE_RECORDS: usize = 20_000;
/// The number of starts of a shadow of perceptrons: three take three times as long for each of the
/// defenses.
const SHADOW_STARTS: u32 = 1;

/// The data that all splits share.
pub(super) struct SharedData<'a> {
    pub(super) figure: Figure,
    pub(super) subject: &'a ExperimentModel,
    /// The records under attack.
    pub(super) drawn: &'a DrawnRecords,
    /// The training records of perceptrons: features d_t × n, labels.
    pub(super) records: (DMatrix<f64>, Vec<u32>),
    /// The training records of the purifier and of the evaluation classifier, d_t × m.
    pub(super) own: DMatrix<f64>,
    /// The test records that are not attacked, d_t × m.
    left: DMatrix<f64>,
    /// The number of them that an adversary knows with all features: J's τ.
    pub(super) tau: usize,
    /// The training records of models trained with noise.
    private: (DMatrix<f64>, Vec<u32>),
    pub(super) d: usize,
    seed: u64,
}

impl<'a> SharedData<'a> {
    pub(super) fn new(
        figure: Figure,
        subject: &'a ExperimentModel,
        drawn: &'a DrawnRecords,
        options: &Options,
    ) -> Result<Self, ReproduceError> {
        let (k, total, seed) = (subject.classes(), subject.features(), options.seed);
        let records = subject.own_records(options.own_records, seed);
        let own = records.0.columns(0, records.0.ncols().min(MOST)).into_owned();
        // J (21) and (22), with all features passive (section 5.3).
        let tau = match figure {
            Figure::JFig14 => total,
            _ => passive_parameters(Architecture::J, k, total)?.div_ceil(k),
        };
        let left = subject.left_out(options.records, seed, tau)?;
        let private = match figure {
            Figure::JFig14 => subject.own_records(Some(PRIVATE_RECORDS), seed),
            _ => records.clone(),
        };
        Ok(Self {
            figure,
            subject,
            drawn,
            records,
            own,
            left,
            tau,
            private,
            d: (total / 2).max(1),
            seed,
        })
    }

    /// Returns the training settings of the figure's models, apart from noise.
    fn training(&self) -> Result<Training, ReproduceError> {
        match self.figure {
            Figure::JFig14 => {
                let values = TrainingValues { seed: self.seed, ..TrainingValues::default() };
                Ok(Training { config: TrainingConfig::try_from(values)?, sigmoids: false })
            }
            _ => Architecture::J.training(self.seed, self.subject.classes()),
        }
    }

    /// Returns the number of records of a training with noise.
    pub(super) fn private_records(&self) -> usize {
        self.private.1.len()
    }

    /// Draws τ of the records that are left, the same for all models of a split.
    fn auxiliary(&self, k0: usize) -> DMatrix<f64> {
        let mut rng = generator(self.seed, Purpose::Auxiliary, (self.d as u64) << 20 | k0 as u64);
        let drawn = rand::seq::index::sample(&mut rng, self.left.ncols(), self.tau).into_vec();
        self.left.select_columns(&drawn)
    }
}

/// The model with its passive part known.
enum KnownCase {
    Model(Box<KnownModel>),
    Of(Box<Split>),
}

/// A model in one split, with its releases.
pub(super) struct AttackedModel {
    pub(super) passive: Vec<usize>,
    known: KnownCase,
    /// The adversary's features of the records under attack.
    pub(super) y: FeatureBlock,
    /// The scores of the records under attack, of all test records, and of training records (k ×
    /// n).
    pub(super) scores: [DMatrix<f64>; 3],
    pub(super) black_box: BlackBox,
}

/// The view of an adversary that does not know the passive parameters: records that it knows with
/// all features.
pub(super) struct BlackBox {
    hidden: KnownModel,
    y: FeatureBlock,
    x: FeatureBlock,
    /// The scores of these records, k × n, before any defense.
    pub(super) scores: DMatrix<f64>,
    linear: bool,
}

/// The adversary's features of records, and the model's scores for them (k × n).
type ViewAndScores = (DMatrix<f64>, DMatrix<f64>);

impl AttackedModel {
    /// Creates a case. `served` returns the adversary's features and the scores of records (d_t ×
    /// n).
    fn of(
        common: &SharedData<'_>,
        k0: usize,
        passive: Vec<usize>,
        known: KnownCase,
        served: impl Fn(&KnownCase, &DMatrix<f64>) -> Result<ViewAndScores, ReproduceError>,
    ) -> Result<Self, ReproduceError> {
        let off = |error| ReproduceError::Attack {
            curve: "the black box".into(),
            d: common.d,
            k0,
            error,
        };
        let (y, attacked) = served(&known, &common.drawn.x)?;
        let scores = [
            attacked,
            served(&known, common.subject.test_records())?.1,
            served(&known, &common.own)?.1,
        ];
        let auxiliary = common.auxiliary(k0);
        let (theirs, of_auxiliary) = served(&known, &auxiliary)?;
        let model = known.model();
        let (w_act, bias) = (model.active_weights().clone(), model.bias().clone());
        let black_box = BlackBox {
            hidden: KnownModel::black_box(w_act, bias, common.d).map_err(off)?,
            y: FeatureBlock::new(theirs)?,
            x: FeatureBlock::new(select(&auxiliary, &passive, auxiliary.ncols()))?,
            scores: of_auxiliary,
            linear: model.network().is_none(),
        };
        Ok(Self { passive, known, y: FeatureBlock::new(y)?, scores, black_box })
    }

    /// Returns the model with its passive part known.
    pub(super) fn known(&self) -> &KnownModel {
        self.known.model()
    }

    /// Returns the figure's model, trained without noise.
    pub(super) fn plain(common: &SharedData<'_>, k0: usize) -> Result<Self, ReproduceError> {
        let subject = common.subject;
        if common.figure == Figure::JFig14 {
            let Window { passive, active, model, .. } = Window::new(subject, k0, common.d)?;
            let mut case =
                Self::of(common, k0, passive, KnownCase::Model(Box::new(model)), |_, x| {
                    Ok((select(x, &active, x.ncols()), scores(&subject.weights, &subject.bias, x)?))
                })?;
            // These scores are the served ones.
            case.scores[0].clone_from(common.drawn.scores());
            return Ok(case);
        }
        let split = Split::train(subject, &common.training()?, &common.records, k0, common.d)?;
        let passive = split.passive.clone();
        Self::of(common, k0, passive, KnownCase::Of(Box::new(split)), |known, x| match known {
            KnownCase::Of(split) => match split.served(x)? {
                (y, ReleasedScores::Probabilities(scores)) => Ok((y.into_matrix(), scores)),
                _ => Err(ReproduceError::NothingToRun { notes: "no scores".into() }),
            },
            KnownCase::Model(_) => Err(ReproduceError::NothingToRun { notes: "no split".into() }),
        })
    }

    /// Returns the same kind of model, trained with noise.
    pub(super) fn private(
        common: &SharedData<'_>,
        k0: usize,
        epsilon: f64,
    ) -> Result<Self, ReproduceError> {
        let off =
            |error| ReproduceError::Attack { curve: "the model".into(), d: common.d, k0, error };
        let classes = common.subject.classes();
        let model = PrivateModel::train(
            classes,
            &common.training()?.config,
            &common.private,
            (common.d, k0),
            epsilon,
        )?;
        let known = KnownCase::Model(Box::new(model.known(classes).map_err(off)?));
        Self::of(common, k0, model.passive().to_vec(), known, |_, x| Ok(model.served(x)?))
    }
}

impl KnownCase {
    fn model(&self) -> &KnownModel {
        match self {
            Self::Model(model) => model,
            Self::Of(split) => &split.known,
        }
    }
}

impl BlackBox {
    /// Fits a model of the adversary's own to the records that it knows with all features and to
    /// their released scores: by log-ratios, or by divergences if a score has no logarithm (J
    /// algorithm 2).
    pub(super) fn shadow(
        &self,
        released: ReleasedScores,
        rng: &mut dyn Rng,
    ) -> Result<KnownModel, AttackError> {
        let positive = match &released {
            ReleasedScores::Probabilities(c) | ReleasedScores::Numbers(c) => {
                c.iter().all(|c| *c > 0.0)
            }
            _ => false,
        };
        let fit = if positive {
            ShadowFit::LeastSquares
        } else {
            ShadowFit::Gradient(Descent::default())
        };
        let auxiliary = AuxiliaryRecords::new(
            self.y.clone(),
            self.x.clone(),
            released,
            Replacement::default(),
        )?;
        if self.linear {
            return ShadowEstimate::fit(&self.hidden, &auxiliary, fit, ShadowBias::Known)?
                .shadow_of(&self.hidden);
        }
        let training = NetworkTraining { starts: SHADOW_STARTS, ..NetworkTraining::of(fit) };
        let guess = Guess { hidden: vec![8; 2], ..Guess::default() };
        fit_shadow(&self.hidden, &auxiliary, &guess, (fit, ShadowBias::Unknown), &training, rng)?
            .in_place(&self.hidden)
    }
}
