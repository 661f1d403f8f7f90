//! The public sets that are compiled into the binary (`data/`, with their licence), compressed.

use super::names::DatasetName;

macro_rules! included {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../../../data/", $name, ".gz")).as_slice())),*]
    };
}

/// The included files: the set's name, a slash and the file's name without `.gz`, and the content.
const FILES: &[(&str, &[u8])] = included![
    "satellite/sat.trn",
    "satellite/sat.tst",
    "robot/sensor_readings_24.data",
    "pendigits/pendigits.tra",
    "pendigits/pendigits.tes",
    "bank/bank-additional-full.csv",
];

/// Returns the content of a file of an included set, compressed with gzip; `None` for any other
/// file.
pub(super) fn file(file: &str) -> Option<&'static [u8]> {
    FILES.iter().find(|(name, _)| *name == file).map(|(_, content)| *content)
}

impl DatasetName {
    /// Returns true if the set comes with the project, so that it needs no directory.
    #[must_use]
    pub fn is_included(self) -> bool {
        FILES.iter().any(|(name, _)| name.split('/').next() == Some(self.as_str()))
    }
}
