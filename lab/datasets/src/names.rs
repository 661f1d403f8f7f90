//! The data sets by name. Those with files come from a directory, or with the project (satellite,
//! robot, pendigits, bank).
//!
//! | set | files | features | classes, from 0 | official test part |
//! |---|---|---|---|---|
//! | `satellite` | `satellite/sat.trn`, `sat.tst` | 36 | labels 1, 2, 3, 4, 5, 7 of the file | `sat.tst` |
//! | `robot` | `robot/sensor_readings_24.data` | 24 | slight right, forward, sharp right, slight left | – |
//! | `bank` | `bank/bank-additional-full.csv` | 19 columns, or 20 | no, yes | – |
//! | `adult` | `adult/adult.data`, `adult.test` | 14 columns, or 13 | <=50K, >50K | `adult.test` |
//! | `pendigits` | `pendigits/pendigits.tra`, `pendigits.tes` | 16 | digits | `pendigits.tes` |
//! | `grid` | `grid/Data_for_UCI_named.csv` | 12, or 13 with `stab`, which defines the class | stable, unstable | – |
//! | `credit` | `credit/UCI_Credit_Card.csv` | 23 (`ID` is dropped) | no default, default | – |
//! | `drive` | `drive/Sensorless_drive_diagnosis.txt`, or the two samples of it | 48 | 1 to 11 of the file | – |
//! | `mnist` | `mnist/train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, `t10k-…` | 28 × 28 | digits | `t10k` |
//! | `cifar10` | `cifar10/data_batch_1.bin` to `5`, `test_batch.bin`, or the first records of them | 3 × 32 × 32 | ten | `test_batch` |
//! | `cifar100` | `cifar100/train.bin`, `test.bin`, or subsets of them | 3 × 32 × 32 | fine labels 0 to 99 | `test` |
//!
//! Where there are several numbers of features, [`Variant`](super::Variant) names the columns.
//! Features of images are pixels over 255, channel by channel, row by row.
//!
//! The class order of `robot` is that of the published model in the golden vectors: the authors'
//! own order changes from run to run. Every value that stands for a missing one ("unknown", "?",
//! `pdays` 999) is kept as a category or number of its own.
//! Record order is file order, training part first.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Defines an enum whose variants have names, which `Display` shows.
macro_rules! named {
    ($(#[$doc:meta])* pub enum $type:ident { $($(#[$item:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        pub enum $type { $($(#[$item])* $variant,)* }

        impl $type {
            /// All variants of the type.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the name as text.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}
pub(super) use named;

named! {
    /// The data sets that can be loaded by name.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum DatasetName {
        /// Generated, see [`crate::synthetic`].
        Synthetic = "synthetic",
        /// Statlog (Landsat Satellite).
        Satellite = "satellite",
        /// Wall-Following Robot Navigation, 24 sensors.
        Robot = "robot",
        /// Bank Marketing, `bank-additional-full`.
        Bank = "bank",
        /// Adult / Census Income.
        Adult = "adult",
        /// Pen-Based Recognition of Handwritten Digits.
        Pendigits = "pendigits",
        /// Electrical Grid Stability Simulated Data.
        Grid = "grid",
        /// Default of Credit Card Clients.
        Credit = "credit",
        /// Dataset for Sensorless Drive Diagnosis.
        Drive = "drive",
        /// MNIST handwritten digits.
        Mnist = "mnist",
        /// CIFAR-10.
        Cifar10 = "cifar10",
        /// CIFAR-100 with its fine labels.
        Cifar100 = "cifar100",
    }
}

/// The shape of images: features stand channel by channel, row by row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageShape {
    /// Channels, 1 or 3.
    pub channels: usize,
    /// Rows of a channel.
    pub height: usize,
    /// Pixels of a row.
    pub width: usize,
}

impl ImageShape {
    /// Returns the number of features of an image.
    #[must_use]
    pub fn features(&self) -> usize {
        self.channels * self.height * self.width
    }
}

impl DatasetName {
    /// Returns the shape of the set's records, if they are images.
    #[must_use]
    pub fn image(self) -> Option<ImageShape> {
        match self {
            Self::Mnist => Some(ImageShape { channels: 1, height: 28, width: 28 }),
            Self::Cifar10 | Self::Cifar100 => {
                Some(ImageShape { channels: 3, height: 32, width: 32 })
            }
            _ => None,
        }
    }
}

/// A name that no data set has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown data set {name:?}; known: {}", DatasetName::ALL.iter().map(|d| d.as_str()).collect::<Vec<_>>().join(", "))]
pub struct UnknownDataset {
    name: String,
}

impl FromStr for DatasetName {
    type Err = UnknownDataset;
    fn from_str(name: &str) -> Result<Self, UnknownDataset> {
        let known = Self::ALL.iter().find(|d| d.as_str() == name).copied();
        known.ok_or_else(|| UnknownDataset { name: name.chars().take(80).collect() })
    }
}
