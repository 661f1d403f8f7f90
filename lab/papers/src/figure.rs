//! The figures that can be computed: the name, title, source and data sets of each.

use vfl_datasets::{DatasetName, Variant};

use super::ReproduceError;
use super::protocol::{Protocol, Training};

macro_rules! figures {
    ($($variant:ident = $name:literal, $title:literal, $source:literal, [$($dataset:ident),+], $each:literal, $takes:literal;)*) => {
        /// A figure that can be computed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Figure { $(#[doc = $title] $variant,)* }

        impl Figure {
            /// The list of all figures.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the name.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the title: what the figure shows.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }

            /// Returns the source: paper, figure, section.
            #[must_use]
            pub fn source(self) -> &'static str {
                match self { $(Self::$variant => $source,)* }
            }

            /// Returns the data sets that it is computed on.
            #[must_use]
            pub fn datasets(self) -> &'static [DatasetName] {
                match self { $(Self::$variant => &[$(DatasetName::$dataset,)+],)* }
            }

            /// Returns true if it is computed on all its data sets unless one is named; otherwise
            /// it is computed on the first.
            #[must_use]
            pub fn on_each(self) -> bool {
                match self { $(Self::$variant => $each,)* }
            }

            /// Returns the approximate duration on two cores, in words.
            #[must_use]
            pub fn takes(self) -> &'static str {
                match self { $(Self::$variant => $takes,)* }
            }
        }
    };
}

figures! {
    RFig4 = "r-fig4", "Error of the attacks by share of passive features",
        "R (Rassouli, Varasteh, Gündüz), figure 4, section VIII-A", [Satellite, Robot, Bank, Synthetic], false,
        "some minutes on satellite, for gradient_inversion and rcc1 (5 seconds without the two)";
    RFig5 = "r-fig5", "Theorem 2: errors in closed form, and their bounds",
        "R (Rassouli, Varasteh, Gündüz), figure 5, section VIII-B; theorem 2, (50) to (52)",
        [Satellite, Robot, Bank, Synthetic], false, "some seconds";
    RFig6 = "r-fig6", "Mean and variance of the features",
        "R (Rassouli, Varasteh, Gündüz), figure 6, section VIII-B", [Satellite, Bank, Robot, Synthetic], true,
        "a second for all four sets";
    RFig7 = "r-fig7", "One feature in the black box, by number of predictions",
        "R (Rassouli, Varasteh, Gündüz), figure 7, section VIII-C; section VI", [Bank], false,
        "some seconds, training included";
    RFig8 = "r-fig8", "Training on 1 − x: errors before and after, satellite",
        "R (Rassouli, Varasteh, Gündüz), figure 8, section VIII-D; section VII-A", [Satellite], false, "a minute";
    RFig9 = "r-fig9", "Training on 1 − x: errors before and after, bank",
        "R (Rassouli, Varasteh, Gündüz), figure 9, section VIII-D; section VII-A", [Bank], false, "a minute";
    RFig10 = "r-fig10", "Training on 1 − x: errors before and after, robot",
        "R (Rassouli, Varasteh, Gündüz), figure 10, section VIII-D; section VII-A", [Robot], false, "a minute";
    RFig11 = "r-fig11", "Training on 1 − x: errors before and after, synthetic",
        "R (Rassouli, Varasteh, Gündüz), figure 11, section VIII-D; section VII-A", [Synthetic], false, "a minute";
    RFig12 = "r-fig12", "Training on 1 − x: divergence of the scores before and after",
        "R (Rassouli, Varasteh, Gündüz), figure 12, section VIII-D; proposition 4",
        [Satellite, Bank, Robot, Synthetic], true, "some minutes for all four sets";
    RFig13 = "r-fig13", "Schemes that keep the class: error by divergence of the scores",
        "R (Rassouli, Varasteh, Gündüz), figure 13, sections VII-B and VIII-D", [Satellite, Robot, Bank, Synthetic],
        false, "half a minute";
    RFig14 = "r-fig14", "Gradient inversion from zero, from ½ and from a random point",
        "R (Rassouli, Varasteh, Gündüz), figure 14, section VIII-E", [Satellite, Robot, Bank, Synthetic], false,
        "some minutes";
    JFig5 = "j-fig5", "Gradient inversion and equation solving on softmax regression",
        "J (Jiang, Zhou, Grossklags), figure 5, section 5.2.1", [Satellite, Robot, Bank, Drive], false, "a minute";
    JFig6 = "j-fig6", "Error of each passive feature beside its correlation with the active ones",
        "J (Jiang, Zhou, Grossklags), figure 6, section 5.2.1.1; (25)", [Bank, Drive], true, "some seconds for both sets";
    JFig7 = "j-fig7", "Gradient inversion and the generative regression network on perceptrons",
        "J (Jiang, Zhou, Grossklags), figure 7, section 5.2.2", [Satellite, Robot, Bank, Drive], false, "some minutes";
    JFig8 = "j-fig8", "Attacks on perceptrons by number of records with scores",
        "J (Jiang, Zhou, Grossklags), figure 8, section 5.2.2", [Bank, Satellite, Mnist], false, "some minutes";
    JFig9 = "j-fig9", "Gradient inversion on perceptrons by number of hidden layers",
        "J (Jiang, Zhou, Grossklags), figure 9, section 5.2.2", [Satellite, Robot, Bank, Drive], false, "some minutes";
    JFig10 = "j-fig10", "Gradient inversion on perceptrons by activation",
        "J (Jiang, Zhou, Grossklags), figure 10, section 5.2.2", [Satellite, Robot, Bank, Drive], false, "some minutes";
    JFig11a = "j-fig11a", "Black box with auxiliary records: error by how many there are",
        "J (Jiang, Zhou, Grossklags), figure 11a, sections 4.3.2 and 5.3", [Robot, Bank], false, "some minutes";
    JFig11b = "j-fig11b", "Black box with auxiliary records on perceptrons: error by how many there are",
        "J (Jiang, Zhou, Grossklags), figure 11b, sections 4.3.2 and 5.3; (22)", [Satellite, Drive], false, "some minutes";
    JFig12 = "j-fig12", "Black box with auxiliary records that are not of the data",
        "J (Jiang, Zhou, Grossklags), figure 12, section 5.3.1", [Robot, Bank, Satellite, Drive], false, "some minutes";
    JFig13 = "j-fig13", "Black box on perceptrons by the architecture that is guessed",
        "J (Jiang, Zhou, Grossklags), figure 13, section 5.3.2", [Satellite, Robot, Bank, Drive], false, "some minutes";
    JFig14 = "j-fig14", "Accuracy of model and attack behind each defense, softmax regression",
        "J (Jiang, Zhou, Grossklags), figure 14, section 6.2", [Bank, Satellite, Robot, Drive], false, "half a minute";
    JFig15 = "j-fig15", "Accuracy of model and attack behind each defense, perceptrons",
        "J (Jiang, Zhou, Grossklags), figure 15, section 6.2", [Bank, Satellite, Robot, Drive], false, "a minute";
    JTable1 = "j-table1", "Accuracy of softmax regression and of perceptrons",
        "J (Jiang, Zhou, Grossklags), table 1, section 5.1", [Satellite, Robot, Bank, Drive], true,
        "a minute for all four sets";
    PTables = "p-tables", "Loss of the attacks and error of the features behind each defense, by attack strength",
        "P (PRIVEE), tables 1 to 8, section 6", [Drive, Adult, Mnist, Cifar10, Cifar100], false,
        "a minute on drive and adult, some minutes on mnist, longer on cifar10 and cifar100";
    PTable9 = "p-table9", "Time of PRIVEE and other defenses by number of classes",
        "P (PRIVEE), table 9, section 6.2", [Synthetic], false, "some seconds";
    PTable10 = "p-table10", "Several parties: loss of the attacks and error of the features behind PRIVEE-DP, by ε",
        "P (PRIVEE), table 10, section 6.4", [Mnist], false, "some minutes";
    PTable11And12 = "p-table11-12", "Loss of the attacks and error of the features behind each defense, by number of parties",
        "P (PRIVEE), tables 11 and 12, section 6.4", [Mnist], false, "half an hour";
    VFig2 = "v-fig2", "Mean and variance of the features",
        "V (Varasteh), figure 2, section III", [Bank, Adult, Satellite, Pendigits, Grid], true,
        "some seconds for all five sets";
    VFig3 = "v-fig3", "Agnostic attack on bank, half_star and ½",
        "V (Varasteh), figure 3, section IV-B", [Bank], false, "a minute";
    VFig4 = "v-fig4", "Agnostic attack with and without scores of other records",
        "V (Varasteh), figure 4, section VI-A; (8), (9)", [Bank, Adult, Satellite, Pendigits], true, "some minutes for all four sets";
    VFig5 = "v-fig5", "Agnostic attack by how many scores of other records are seen",
        "V (Varasteh), figure 5, section VI-A", [Satellite], false, "some minutes";
    VFig6 = "v-fig6", "Covariance of the features",
        "V (Varasteh), figure 6, section VI-A", [Bank, Adult, Satellite, Pendigits, Grid], true,
        "some seconds for all five sets";
    VFig7 = "v-fig7", "Agnostic attack where features are uncorrelated",
        "V (Varasteh), figure 7, section VI-A", [Grid], false, "a minute";
    VFig8 = "v-fig8", "Accuracy of the adversary's model by number of active features",
        "V (Varasteh), figure 8, section VI-A, remark 18", [Bank, Adult, Satellite, Pendigits, Grid], true,
        "two minutes for all five sets";
    VFig9 = "v-fig9", "Privacy against interpretability, cases i and iv",
        "V (Varasteh), figure 9, section VI-B; (39), (54)", [Bank, Adult], true, "a minute";
    VFig10 = "v-fig10", "Privacy against interpretability, one feature, case iii",
        "V (Varasteh), figure 10, section VI-B; (50), remark 11", [Bank, Adult, Satellite, Pendigits], true, "a minute";
    VFig11 = "v-fig11", "Privacy against interpretability, cases i and ii",
        "V (Varasteh), figure 11, section VI-B; (39), (48)", [Satellite, Pendigits], true, "some minutes";
    VFig12 = "v-fig12", "Error behind a transform of fixed interpretability by number of passive features",
        "V (Varasteh), figure 12, section VI-B", [Satellite, Pendigits, Bank, Adult], true, "some minutes";
    VFig13 = "v-fig13", "Privacy against interpretability, two features",
        "V (Varasteh), figure 13, section VI-B; (48)", [Pendigits], false, "a minute";
    VTable1 = "v-table1", "Features, classes and records of the data sets",
        "V (Varasteh), table I, section III", [Bank, Adult, Satellite, Pendigits, Grid], true,
        "some seconds for all five sets";
    Priors = "priors", "What scores add for adversaries that know something of the passive features",
        "no paper; control: Jayaraman and Evans, CCS 2022", [Bank, Adult, Credit, Grid, Satellite, Pendigits, Robot],
        true, "twenty seconds for all seven sets";
    Lattice = "lattice", "Records that exact arithmetic gives back, by number of passive features",
        "no paper; docs/lattice.md", [Satellite, Robot, Pendigits, Bank, Adult, Credit, Grid], true,
        "some minutes for each set";
}

impl Figure {
    /// Checks that it is computed on this data set.
    ///
    /// # Errors
    /// [`ReproduceError::Dataset`] if it is not.
    pub fn on(self, dataset: DatasetName) -> Result<DatasetName, ReproduceError> {
        let expected = self.datasets();
        let refused = ReproduceError::Dataset { figure: self.as_str(), got: dataset, expected };
        if expected.contains(&dataset) { Ok(dataset) } else { Err(refused) }
    }

    /// Returns the data sets of a run that names none.
    #[must_use]
    pub fn default_datasets(self) -> &'static [DatasetName] {
        if self.on_each() { self.datasets() } else { &self.datasets()[..1] }
    }

    /// Returns the experiment protocol that it follows.
    #[must_use]
    pub fn protocol(self) -> Protocol {
        match self {
            Self::Priors | Self::Lattice => Protocol::Own,
            Self::RFig8 | Self::RFig9 | Self::RFig10 | Self::RFig11 | Self::RFig12 => {
                Protocol::RTradeoff
            }
            _ if self.as_str().starts_with('v') => Protocol::V,
            _ => Protocol::R,
        }
    }

    /// Returns the default variant of a data set: the columns that the figure's paper uses.
    #[must_use]
    pub fn default_variant(self, dataset: DatasetName) -> Variant {
        match (self.protocol(), dataset) {
            (Protocol::R, DatasetName::Bank) if self.as_str().starts_with('j') => Variant::All,
            (Protocol::R | Protocol::RTradeoff, DatasetName::Bank) => Variant::Authors,
            (Protocol::V, DatasetName::Adult) => Variant::WithoutEducation,
            (Protocol::V, DatasetName::Grid) => Variant::WithStab,
            (Protocol::Own, DatasetName::Bank) => Variant::All,
            _ => dataset.default_variant(),
        }
    }

    /// Returns the default place of its model's training.
    #[must_use]
    pub fn training(self) -> Training {
        match self {
            Self::RFig6 | Self::VFig2 | Self::VFig6 | Self::VTable1 | Self::PTable9 => {
                Training::None
            }
            Self::RFig8 | Self::RFig9 | Self::RFig10 | Self::RFig11 | Self::RFig12 => {
                Training::Converged
            }
            Self::RFig4
            | Self::RFig5
            | Self::RFig7
            | Self::RFig13
            | Self::RFig14
            | Self::JFig5
            | Self::JFig6
            | Self::JFig11a
            | Self::JFig12
            | Self::JFig14
            | Self::JTable1 => Training::InOnePlace,
            Self::JFig7
            | Self::JFig8
            | Self::JFig9
            | Self::JFig10
            | Self::JFig11b
            | Self::JFig13
            | Self::JFig15
            | Self::PTables
            | Self::PTable10
            | Self::PTable11And12 => Training::EachSplit,
            _ => Training::OverSockets,
        }
    }

    /// Returns the default number of test records attacked in every split.
    #[must_use]
    pub fn default_records(self) -> usize {
        match self.training() {
            _ if self == Self::JFig8 => 1000,
            Training::EachSplit => 100,
            _ if matches!(self, Self::JFig5 | Self::JFig6) => 100,
            Training::InOnePlace => 1000,
            _ if self == Self::Priors => 1000,
            _ if self == Self::Lattice => 60,
            _ => 300,
        }
    }
}
