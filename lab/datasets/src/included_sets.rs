//! The public sets that are compiled into the binary (`data/`, with their licence), compressed.

use super::names::DatasetName;

/// Returns the content of a file of an included set, compressed with gzip; `None` for any other
/// file. `file` is the set's name, a slash and the file's name without `.gz`.
pub(super) fn file(file: &str) -> Option<&'static [u8]> {
    macro_rules! included {
        ($($name:literal),* $(,)?) => {
            match file {
                $($name => Some(include_bytes!(concat!("../../../data/", $name, ".gz")).as_slice()),)*
                _ => None,
            }
        };
    }
    included![
        "satellite/sat.trn",
        "satellite/sat.tst",
        "robot/sensor_readings_24.data",
        "pendigits/pendigits.tra",
        "pendigits/pendigits.tes",
        "bank/bank-additional-full.csv",
    ]
}

impl DatasetName {
    /// Returns true if the set comes with the project, so that it needs no directory.
    #[must_use]
    pub const fn is_included(self) -> bool {
        matches!(self, Self::Satellite | Self::Robot | Self::Pendigits | Self::Bank)
    }
}
