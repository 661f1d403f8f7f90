//! Settings of a residual network: `height = 28`, and by default `channels = 1`, `blocks = 3`,
//! `filters = [16, 32, 64]`.

use serde_json::Value;

use super::maps::Shape;
use crate::model::Settings;

/// The largest number of channels of an image.
const MOST_CHANNELS: usize = 16;
/// The largest height of an image.
const MOST_HEIGHT: usize = 256;
/// The largest number of blocks of a stage.
const MOST_BLOCKS: usize = 9;
/// The largest number of stages.
const MOST_STAGES: usize = 4;
/// The largest number of channels of a stage.
const MOST_FILTERS: usize = 256;
/// The largest number of parameters: 32 MB, and as much for each of Adam's moments, gradients and
/// checkpoint.
const MOST_PARAMETERS: usize = 4_000_000;

/// The checked settings. The defaults are those of P's network; the height has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResidualSettings {
    channels: usize,
    height: usize,
    blocks: usize,
    /// Channels of each stage, at least one stage.
    filters: Vec<usize>,
}

impl ResidualSettings {
    /// Reads and checks settings.
    ///
    /// # Errors
    /// The problem and its fix.
    pub(super) fn read(settings: &Settings) -> Result<Self, String> {
        let mut read = Self { channels: 1, height: 0, blocks: 3, filters: vec![16, 32, 64] };
        for (key, value) in settings {
            match key.as_str() {
                "channels" => read.channels = number(key, value, MOST_CHANNELS)?,
                "height" => read.height = number(key, value, MOST_HEIGHT)?,
                "blocks" => read.blocks = number(key, value, MOST_BLOCKS)?,
                "filters" => {
                    let filters: Option<Vec<usize>> = value
                        .as_array()
                        .and_then(|all| all.iter().map(|v| within(v, MOST_FILTERS)).collect());
                    read.filters =
                        filters.filter(|filters| (1..=MOST_STAGES).contains(&filters.len())).ok_or_else(|| {
                            format!(
                                "`filters` is a list of 1 to {MOST_STAGES} numbers from 1 to {MOST_FILTERS}, such as [16, 32, 64]"
                            )
                        })?;
                }
                other => {
                    return Err(format!(
                        "`{other}` is unknown: it has `channels`, `height`, `blocks` and `filters`"
                    ));
                }
            }
        }
        if read.height == 0 {
            return Err(format!(
                "`height` is missing: set it to the rows of an image, from 1 to {MOST_HEIGHT}"
            ));
        }
        read.check_parameters(read.last_filters())?;
        Ok(read)
    }

    /// Checks that a network with this many outputs is not too large.
    ///
    /// # Errors
    /// The problem and its fix.
    pub(super) fn check_parameters(&self, outputs: usize) -> Result<(), String> {
        match self.parameters(outputs) {
            count if count > MOST_PARAMETERS => Err(format!(
                "the network has {count} parameters, at most {MOST_PARAMETERS} are taken: make `filters`, `blocks` or the width \
                 of the outputs smaller"
            )),
            _ => Ok(()),
        }
    }

    /// Returns the shape of one party's part of an image.
    ///
    /// # Errors
    /// The problem and its fix.
    pub(super) fn shape(&self, features: usize) -> Result<Shape, String> {
        let Self { channels, height, .. } = *self;
        let column = channels * height;
        if features == 0 || !features.is_multiple_of(column) {
            return Err(format!(
                "this party has {features} features, expected a multiple of {column} ({channels} channels of {height} rows): set \
                 `channels` and `height` to those of its part of an image"
            ));
        }
        Ok(Shape { channels, height, width: features / column })
    }

    /// Returns the number of blocks of each stage.
    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    /// Returns the number of channels of each stage.
    pub(super) fn filters(&self) -> &[usize] {
        &self.filters
    }

    /// Returns the number of channels of the first stage and of the layer before it.
    pub(super) fn first_filters(&self) -> usize {
        self.filters.first().copied().unwrap_or(1)
    }

    /// Returns the number of channels of the last stage, which are the values after the mean over
    /// pixels.
    pub(super) fn last_filters(&self) -> usize {
        self.filters.last().copied().unwrap_or(1)
    }

    /// Counts the parameters of a network with this many outputs, including running statistics.
    fn parameters(&self, outputs: usize) -> usize {
        let unit =
            |inputs: usize, outputs: usize, size: usize| outputs * (inputs * size * size + 4);
        let mut channels = self.first_filters();
        let mut count = unit(self.channels, channels, 3);
        for (stage, &filters) in self.filters.iter().enumerate() {
            let shortcut = if stage > 0 { unit(channels, filters, 1) } else { 0 };
            count += unit(channels, filters, 3) + unit(filters, filters, 3) + shortcut;
            count += (self.blocks - 1) * 2 * unit(filters, filters, 3);
            channels = filters;
        }
        if outputs == channels { count } else { count + outputs * (channels + 1) }
    }

    /// Estimates how many 64-bit values a training batch keeps of a record with this many features.
    /// The values are 32-bit: two count as one.
    pub(super) fn values(&self, outputs: usize, features: usize) -> u64 {
        let (mut height, mut width) = (self.height, features.div_ceil(self.channels * self.height));
        let mut count = 2 * height * width * self.first_filters();
        for (stage, filters) in self.filters.iter().enumerate() {
            if stage > 0 {
                (height, width) = (height.div_ceil(2), width.div_ceil(2));
            }
            // Each of the two units keeps its normalised values and its outputs; a shortcut keeps
            // its normalised values.
            let maps = 4 * self.blocks + usize::from(stage > 0);
            count += maps * height * width * filters;
        }
        (count.div_ceil(2) + self.last_filters() + outputs) as u64
    }
}

fn within(value: &Value, most: usize) -> Option<usize> {
    value.as_u64().and_then(|v| usize::try_from(v).ok()).filter(|v| (1..=most).contains(v))
}

fn number(key: &str, value: &Value, most: usize) -> Result<usize, String> {
    within(value, most).ok_or_else(|| format!("`{key}` is a number from 1 to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(settings: Value) -> Result<ResidualSettings, String> {
        ResidualSettings::read(settings.as_object().unwrap())
    }

    #[test]
    fn what_is_given_is_read_and_the_rest_is_the_papers() {
        let default = read(json!({ "height": 28 })).unwrap();
        let said = json!({ "height": 28, "channels": 1, "blocks": 3, "filters": [16, 32, 64] });
        assert_eq!(default, read(said).unwrap());
        assert_eq!(default.shape(28 * 14).unwrap(), Shape { channels: 1, height: 28, width: 14 });
        let colour = read(json!({ "height": 32, "channels": 3 })).unwrap();
        assert_eq!(
            colour.shape(3 * 32 * 16).unwrap(),
            Shape { channels: 3, height: 32, width: 16 }
        );
    }

    #[test]
    fn other_settings_are_refused_with_what_is_taken() {
        for (settings, says) in [
            (json!({}), "`height` is missing"),
            (json!({ "height": 0 }), "`height` is a number from 1 to 256"),
            (json!({ "height": 257 }), "`height` is a number from 1 to 256"),
            (json!({ "height": 28, "channels": 17 }), "`channels` is a number from 1 to 16"),
            (json!({ "height": 28, "channels": 1.5 }), "`channels` is a number from 1 to 16"),
            (json!({ "height": 28, "blocks": 0 }), "`blocks` is a number from 1 to 9"),
            (json!({ "height": 28, "blocks": "3" }), "`blocks` is a number from 1 to 9"),
            (json!({ "height": 28, "filters": [] }), "1 to 4 numbers"),
            (json!({ "height": 28, "filters": [1, 1, 1, 1, 1] }), "1 to 4 numbers"),
            (json!({ "height": 28, "filters": [257] }), "from 1 to 256"),
            (json!({ "height": 28, "filters": 16 }), "such as [16, 32, 64]"),
            (
                json!({ "height": 28, "filters": [256, 256], "blocks": 9 }),
                "make `filters`, `blocks`",
            ),
            (json!({ "height": 28, "width": 14 }), "`width` is unknown"),
        ] {
            let said = read(settings.clone()).unwrap_err();
            assert!(said.contains(says), "{settings}: {said}");
        }
        let settings = read(json!({ "height": 28 })).unwrap();
        for features in [0, 1, 27, 29] {
            let said = settings.shape(features).unwrap_err();
            assert!(
                said.contains("a multiple of 28") && said.contains("set `channels` and `height`"),
                "{said}"
            );
        }
        assert!(settings.check_parameters(10).is_ok());
        assert!(settings.check_parameters(65_536).unwrap_err().contains("width of the outputs"));
    }

    /// By hand, for 2 channels of 5 rows: a stem, a block of 3 channels, a block of 4 with a
    /// shortcut.
    #[test]
    fn parameters_and_values_are_counted() {
        let settings =
            read(json!({ "height": 5, "channels": 2, "blocks": 1, "filters": [3, 4] })).unwrap();
        let first = 3 * 18 + 2 * 3 * 27;
        let second = 4 * 27 + 4 * 36 + 4 * 3;
        let norms = 4 * (3 * 3 + 3 * 4);
        assert_eq!(settings.parameters(4), first + second + norms);
        assert_eq!(settings.parameters(10), first + second + norms + 50);
        let maps: u64 = 2 * 75 + 4 * 75 + 5 * 36;
        assert_eq!(settings.values(10, 50), maps / 2 + 4 + 10);
    }
}
