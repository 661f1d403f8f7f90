//! A card: one figure or table of a paper, what the paper says about it, and how it is computed
//! again. `lab/papers/cards/NAME.toml`.

use serde::{Deserialize, Serialize};
use vfl_datasets::DatasetName;

use super::test::Test;
use crate::{Document, Figure, Options, ReproduceError};

/// A card as in its file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// The name of its file, without the extension.
    #[serde(skip)]
    pub id: String,
    /// The letter of the paper, as in `papers.toml`.
    pub paper: String,
    /// The figure or table in the paper, such as "figure 4".
    pub item: String,
    /// The title: what the item shows.
    pub title: String,
    /// The section that discusses it.
    #[serde(default)]
    pub section: String,
    /// The figure of `cloison reproduce` that computes it.
    #[serde(default)]
    pub figure: Option<String>,
    /// The data set that it is computed on.
    #[serde(default)]
    pub dataset: Option<String>,
    /// The variant of the data set; absent: the one that the paper uses.
    #[serde(default)]
    pub variant: Option<String>,
    /// The reason why nothing computes it.
    #[serde(default)]
    pub not_made: Option<String>,
    /// The paper's data, split, model and records, and the differences of ours.
    pub setup: String,
    /// The settings of a full run.
    #[serde(default)]
    pub full: Settings,
    /// The settings that differ with `--quick`.
    #[serde(default)]
    pub quick: Settings,
    /// Prefixes of the names of the curves that are drawn; none: all curves.
    #[serde(default)]
    pub shown: Vec<String>,
    /// The published values.
    #[serde(default)]
    pub published: Vec<Published>,
    /// The tested sentences of the paper.
    #[serde(default)]
    pub claim: Vec<Claim>,
    /// The explanation of a difference between the full run and the paper.
    #[serde(default)]
    pub difference: Option<Difference>,
    /// The slip of the authors' code without which the published values do not come out, and which
    /// the curves beside them repeat.
    #[serde(default)]
    pub slip: Option<String>,
}

/// The settings of a card's computation; absent ones are the figure's defaults.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Test records attacked in every split, or `all`.
    pub records: Option<Count>,
    /// Splits of each number of passive features.
    pub windows: Option<usize>,
    /// Numbers of passive features.
    pub dimensions: Option<Vec<usize>>,
    /// The curves to compute.
    pub attacks: Option<Vec<String>>,
    /// Training records of the adversary's own models, or `all`.
    pub own_records: Option<Count>,
    /// Settings of gradient inversion, `key=value`.
    pub inversion: Option<Vec<String>>,
    /// The most records of every split that gradient inversion attacks.
    pub inversion_records: Option<usize>,
    /// With `--quick`: the reason why the card is left out.
    pub skip: Option<String>,
}

/// A number of records.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Count {
    /// A given number.
    Some(usize),
    /// The word `all`.
    All(String),
}

/// A curve that the paper published.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The curve of the document to compare with; `model_accuracy` is the accuracy of the
    /// document's model.
    pub curve: String,
    /// The curve in the authors' files.
    #[serde(default)]
    pub file: Option<FileCurve>,
    /// The place where the values were read, if they were typed.
    #[serde(default)]
    pub source: Option<String>,
    /// The points of the document's axis that the values belong to.
    #[serde(default)]
    pub points: Vec<usize>,
    /// The published values of the curve.
    #[serde(default)]
    pub values: Vec<f64>,
    /// The largest relative difference that counts as agreement.
    #[serde(default = "tolerance")]
    pub tolerance: f64,
    /// The largest absolute difference that counts as agreement: for values about 0.
    #[serde(default)]
    pub within: f64,
    /// The largest value that the quantity can have, if it has a bound. A published value above it
    /// is impossible, and is not compared.
    #[serde(default)]
    pub limit: Option<f64>,
}

fn tolerance() -> f64 {
    0.15
}

/// A curve of `published/r_curves.json`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileCurve {
    /// The experiment's name in the file.
    pub group: String,
    /// The data set.
    pub data: String,
    /// The measured quantity.
    pub quantity: String,
    /// The stage: before or after a transform.
    #[serde(default)]
    pub when: Option<String>,
}

/// A sentence of the paper.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The words of the sentence.
    pub quote: String,
    /// The place of the sentence in the paper.
    #[serde(rename = "where")]
    pub place: String,
    /// The test of the sentence on the document.
    pub test: Test,
    /// True if it is a second reading of the sentence, which the verdict leaves out.
    #[serde(default)]
    pub aside: bool,
}

/// The explanation of a difference between a full run and the paper.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// The cause of the difference.
    pub reason: String,
    /// The figures that show it.
    pub measured: String,
    /// The command that computes them.
    #[serde(default)]
    pub command: Option<String>,
}

/// Errors from reading and judging cards.
#[derive(Debug, thiserror::Error)]
pub enum CardError {
    /// The file is not a valid card.
    #[error("card {id}: {reason}")]
    Card {
        /// The id of the card.
        id: String,
        /// The reason in words.
        reason: String,
    },
    /// The files beside the cards are damaged.
    #[error("{file}: {reason}")]
    File {
        /// The name of the file.
        file: String,
        /// The reason in words.
        reason: String,
    },
}

impl Card {
    /// Reads a card, and checks as much as possible without computing it.
    ///
    /// # Errors
    /// [`CardError::Card`] with the field that is wrong.
    pub fn read(id: &str, text: &str) -> Result<Self, CardError> {
        let wrong = |reason: String| CardError::Card { id: id.to_owned(), reason };
        let mut card: Self = toml::from_str(text).map_err(|e| wrong(e.to_string()))?;
        id.clone_into(&mut card.id);
        match (&card.figure, &card.not_made) {
            (Some(_), Some(_)) => {
                return Err(wrong("has both `figure` and `not_made`: one of them".into()));
            }
            (None, None) => {
                return Err(wrong("has no `figure`: name one, or say why in `not_made`".into()));
            }
            _ => {}
        }
        card.computed().map_err(&wrong)?;
        for published in &card.published {
            let curve = &published.curve;
            if published.file.is_some() == published.source.is_some() {
                return Err(wrong(format!(
                    "published `{curve}` is to have either `file` or `source`"
                )));
            }
            if published.source.is_some() && published.values.is_empty() {
                return Err(wrong(format!("published `{curve}` has no `values`")));
            }
            if published.curve != MODEL_ACCURACY && published.points.len() != published.values.len()
            {
                return Err(wrong(format!(
                    "published `{curve}` is to have as many `points` as `values`"
                )));
            }
            if published.values.iter().any(|v| !v.is_finite()) {
                return Err(wrong(format!("published `{curve}` has a value that is no number")));
            }
        }
        for settings in [&card.full, &card.quick] {
            let figure = card.figure_named().map(|(figure, _)| figure);
            settings.apply(figure, Options::default()).map_err(&wrong)?;
        }
        Ok(card)
    }

    /// Returns the figure and the data set, if both are named.
    fn figure_named(&self) -> Option<(Figure, DatasetName)> {
        self.computed().ok().flatten()
    }

    /// Returns the figure and data set that compute the card; `None` if nothing does.
    ///
    /// # Errors
    /// The error in the names, in words.
    pub fn computed(&self) -> Result<Option<(Figure, DatasetName)>, String> {
        let Some(name) = &self.figure else { return Ok(None) };
        let figure = Figure::ALL.iter().copied().find(|figure| figure.as_str() == name);
        let figure =
            figure.ok_or_else(|| format!("`{name}` is no figure of `cloison reproduce`"))?;
        let dataset = self.dataset.as_ref().ok_or("has no `dataset`")?;
        let dataset: DatasetName = dataset.parse().map_err(|e| format!("{e}"))?;
        let dataset = figure.on(dataset).map_err(|e: ReproduceError| e.to_string())?;
        Ok(Some((figure, dataset)))
    }

    /// Returns the options of its computation.
    ///
    /// # Errors
    /// The error in the settings, in words.
    pub fn options(&self, quick: bool) -> Result<Options, String> {
        let figure = self.figure_named().map(|(figure, _)| figure);
        let options = self.full.apply(figure, Options::default())?;
        if quick { self.quick.apply(None, options) } else { Ok(options) }
    }
}

impl Card {
    /// Returns the command that computes its figure, with `--quick` or in full; `None` if nothing
    /// does.
    #[must_use]
    pub fn command(&self, quick: bool) -> Option<String> {
        let mut command = format!(
            "cloison reproduce {} --dataset {}",
            self.figure.as_ref()?,
            self.dataset.as_ref()?
        );
        let mut add =
            |option: &str, value: String| command.push_str(&format!(" --{option} {value}"));
        let (full, over) = (&self.full, if quick { Some(&self.quick) } else { None });
        if let Some(variant) = &self.variant {
            add("variant", variant.clone());
        }
        let count = |count: &Count| match count {
            Count::Some(n) => n.to_string(),
            Count::All(text) => text.clone(),
        };
        fn laid<'a, T>(
            over: Option<&'a Settings>,
            full: &'a Settings,
            of: fn(&Settings) -> &Option<T>,
        ) -> Option<&'a T> {
            over.and_then(|over| of(over).as_ref()).or(of(full).as_ref())
        }
        if let Some(records) = laid(over, full, |s| &s.records) {
            add("records", count(records));
        }
        if let Some(windows) = laid(over, full, |s| &s.windows) {
            add("windows", windows.to_string());
        }
        if let Some(dimensions) = laid(over, full, |s| &s.dimensions) {
            add(
                "dimensions",
                dimensions.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
            );
        }
        if let Some(attacks) = laid(over, full, |s| &s.attacks) {
            add("attacks", attacks.join(","));
        }
        if let Some(records) = laid(over, full, |s| &s.own_records) {
            add("own-records", count(records));
        }
        for pair in laid(over, full, |s| &s.inversion).into_iter().flatten() {
            add("gia", pair.clone());
        }
        if let Some(records) = laid(over, full, |s| &s.inversion_records) {
            add("gia-records", records.to_string());
        }
        Some(command)
    }

    /// Returns the curves that the card names and its document does not have, each with the
    /// document's curves.
    #[must_use]
    pub fn unknown(&self, document: &Document) -> Vec<String> {
        let published = self
            .published
            .iter()
            .map(|p| p.curve.as_str())
            .filter(|curve| *curve != MODEL_ACCURACY);
        let mut named: Vec<&str> =
            published.chain(self.claim.iter().flat_map(|claim| claim.test.curves())).collect();
        named.sort_unstable();
        named.dedup();
        let unknown = named.into_iter().filter(|curve| document.curve(curve).is_none());
        let known = || {
            document.curves.iter().map(|curve| curve.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        unknown
            .map(|curve| {
                format!(
                    "card {}: the document has no curve `{curve}`; it has: {}",
                    self.id,
                    known()
                )
            })
            .collect()
    }
}

impl Card {
    /// Returns the checks that the card names and its document does not have.
    #[must_use]
    pub fn unknown_checks(&self, document: &Document) -> Vec<String> {
        let ids = self.claim.iter().filter_map(|claim| match &claim.test {
            Test::Check { id } => Some(id),
            _ => None,
        });
        let unknown = ids.filter(|id| document.checks.iter().all(|check| check.id != **id));
        unknown.map(|id| format!("card {}: the document has no check `{id}`", self.id)).collect()
    }
}

/// The name that stands for the accuracy of the document's model in [`Published::curve`].
pub const MODEL_ACCURACY: &str = "model_accuracy";

impl Settings {
    /// Applies these settings to `options`, with the figure's own number of records if a figure is
    /// given.
    fn apply(&self, figure: Option<Figure>, mut options: Options) -> Result<Options, String> {
        let count = |count: &Count| match count {
            Count::Some(n) if *n > 0 => Ok(Some(*n)),
            Count::Some(_) => Err("a number of records is 0".to_owned()),
            Count::All(text) if text == "all" => Ok(None),
            Count::All(text) => {
                Err(format!("`{text}` is no number of records: a number, or \"all\""))
            }
        };
        if let Some(figure) = figure {
            options.records = Some(figure.default_records());
        }
        if let Some(records) = &self.records {
            options.records = count(records)?;
        }
        if let Some(records) = &self.own_records {
            options.own_records = count(records)?;
        }
        options.windows = self.windows.or(options.windows);
        if let Some(dimensions) = &self.dimensions {
            options.dimensions.clone_from(dimensions);
        }
        if let Some(attacks) = &self.attacks {
            options.attacks.clone_from(attacks);
        }
        if let Some(pairs) = &self.inversion {
            let pair = |text: &String| {
                let (key, value) =
                    text.split_once('=').ok_or_else(|| format!("`{text}` is to be key=value"))?;
                Ok::<_, String>((key.to_owned(), value.to_owned()))
            };
            options.inversion = pairs.iter().map(pair).collect::<Result<_, _>>()?;
        }
        options.inversion_records = self.inversion_records.unwrap_or(options.inversion_records);
        Ok(options)
    }
}
