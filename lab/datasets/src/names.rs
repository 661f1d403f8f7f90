//! The data sets by name: the register. `lab/datasets/sets/NAME.toml` describes each of them:
//! files, columns, classes. Sets with files come from a directory, or with the project (satellite,
//! robot, pendigits, bank).
//!
//! Features of images are pixels over 255, channel by channel, row by row. Every value that stands
//! for a missing one is kept as a category or number of its own. Record order is file order,
//! training part first.

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

/// Defines [`DatasetName`], and includes the description of each set.
macro_rules! data_sets {
    ($($(#[$item:meta])* $variant:ident = $name:literal,)*) => {
        named! {
            /// The data sets that can be loaded by name.
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
            #[serde(rename_all = "snake_case")]
            pub enum DatasetName { $($(#[$item])* $variant = $name,)* }
        }

        impl DatasetName {
            /// Returns the text of the set's description.
            pub(super) fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => include_str!(concat!("../sets/", $name, ".toml")),)*
                }
            }
        }
    };
}

data_sets! {
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

/// The shape of images: features stand channel by channel, row by row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
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
        self.description().image
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
