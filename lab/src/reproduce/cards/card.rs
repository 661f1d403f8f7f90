//! A card: one figure or table of a paper, what the paper says of it, and how it is computed again. `lab/cards/NAME.toml`.

use serde::{Deserialize, Serialize};
use vfl_shared::data::DatasetName;

use super::test::Test;
use crate::reproduce::{Document, Figure, Options, ReproduceError};

/// A card as its file holds it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// The name of its file, without the ending.
    #[serde(skip)]
    pub id: String,
    /// The letter of the paper, as `papers.toml` has it.
    pub paper: String,
    /// What it is called there.
    pub item: String,
    /// What it shows.
    pub title: String,
    /// The section that speaks of it.
    #[serde(default)]
    pub section: String,
    /// The figure of `cloison reproduce` that computes it.
    #[serde(default)]
    pub figure: Option<String>,
    /// On this data set.
    #[serde(default)]
    pub dataset: Option<String>,
    /// On these columns of it; absent: those that the paper takes.
    #[serde(default)]
    pub variant: Option<String>,
    /// Why nothing computes it.
    #[serde(default)]
    pub not_made: Option<String>,
    /// The paper's data, split, model and records, and where ours differ.
    pub setup: String,
    /// How it is computed in full.
    #[serde(default)]
    pub full: Settings,
    /// What is different with `--quick`.
    #[serde(default)]
    pub quick: Settings,
    /// Beginnings of the names of the curves that are drawn; none: all curves.
    #[serde(default)]
    pub shown: Vec<String>,
    /// Published values.
    #[serde(default)]
    pub published: Vec<Published>,
    /// Sentences of the paper.
    #[serde(default)]
    pub claim: Vec<Claim>,
    /// Why the full run differs from the paper.
    #[serde(default)]
    pub difference: Option<Difference>,
}

/// How a card is computed; what is absent is as the figure has it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Test records attacked in every split, or `all`.
    pub records: Option<Count>,
    /// Splits of each number of passive features.
    pub windows: Option<usize>,
    /// Numbers of passive features.
    pub dimensions: Option<Vec<usize>>,
    /// Curves.
    pub attacks: Option<Vec<String>>,
    /// Training records of models of the adversary's own, or `all`.
    pub own_records: Option<Count>,
    /// Settings of gradient inversion, `key=value`.
    pub inversion: Option<Vec<String>>,
    /// Records that it attacks in every split at most.
    pub inversion_records: Option<usize>,
    /// With `--quick`: why the card is left out.
    pub skip: Option<String>,
}

/// A number of records.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Count {
    /// So many.
    Some(usize),
    /// `all`.
    All(String),
}

/// A curve that the paper published.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The curve of the document that it stands beside; `model_accuracy` is the accuracy of the document's model.
    pub curve: String,
    /// Where it is in the authors' files.
    #[serde(default)]
    pub file: Option<FileCurve>,
    /// Where the values were read, if they were typed.
    #[serde(default)]
    pub source: Option<String>,
    /// Points of the document's axis that the values are of.
    #[serde(default)]
    pub points: Vec<usize>,
    /// The values.
    #[serde(default)]
    pub values: Vec<f64>,
    /// Largest relative difference that counts as none.
    #[serde(default = "tolerance")]
    pub tolerance: f64,
    /// Largest difference that counts as none, whatever the value: for values about 0.
    #[serde(default)]
    pub within: f64,
}

fn tolerance() -> f64 {
    0.15
}

/// A curve of `published/r_curves.json`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileCurve {
    /// The experiment.
    pub group: String,
    /// The data set.
    pub data: String,
    /// What was measured.
    pub quantity: String,
    /// Before or after a transform.
    #[serde(default)]
    pub when: Option<String>,
}

/// A sentence of the paper.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its words.
    pub quote: String,
    /// Where they are.
    #[serde(rename = "where")]
    pub place: String,
    /// What of the document shows it.
    pub test: Test,
}

/// Why a full run differs from the paper.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// The cause.
    pub reason: String,
    /// Figures that show it.
    pub measured: String,
    /// The command that gives them.
    #[serde(default)]
    pub command: Option<String>,
}

/// What is wrong with a card.
#[derive(Debug, thiserror::Error)]
pub enum CardError {
    /// The file is no card.
    #[error("card {id}: {reason}")]
    Card {
        /// The card.
        id: String,
        /// What is wrong.
        reason: String,
    },
    /// The files beside the cards are damaged.
    #[error("{file}: {reason}")]
    File {
        /// The file.
        file: String,
        /// What is wrong.
        reason: String,
    },
}

impl Card {
    /// Reads a card and checks what can be checked without computing it.
    ///
    /// # Errors
    /// [`CardError::Card`] with the field that is wrong.
    pub fn read(id: &str, text: &str) -> Result<Self, CardError> {
        let wrong = |reason: String| CardError::Card { id: id.to_owned(), reason };
        let mut card: Self = toml::from_str(text).map_err(|e| wrong(e.to_string()))?;
        id.clone_into(&mut card.id);
        match (&card.figure, &card.not_made) {
            (Some(_), Some(_)) => return Err(wrong("has both `figure` and `not_made`: one of them".into())),
            (None, None) => return Err(wrong("has no `figure`: name one, or say why in `not_made`".into())),
            _ => {}
        }
        card.computed().map_err(&wrong)?;
        for published in &card.published {
            let curve = &published.curve;
            if published.file.is_some() == published.source.is_some() {
                return Err(wrong(format!("published `{curve}` is to have either `file` or `source`")));
            }
            if published.source.is_some() && published.values.is_empty() {
                return Err(wrong(format!("published `{curve}` has no `values`")));
            }
            if published.curve != MODEL_ACCURACY && published.points.len() != published.values.len() {
                return Err(wrong(format!("published `{curve}` is to have as many `points` as `values`")));
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

    /// The figure and the data set, where both are named.
    fn figure_named(&self) -> Option<(Figure, DatasetName)> {
        self.computed().ok().flatten()
    }

    /// What computes it: a figure on a data set; `None` if nothing does.
    ///
    /// # Errors
    /// What is wrong with the names, in words.
    pub fn computed(&self) -> Result<Option<(Figure, DatasetName)>, String> {
        let Some(name) = &self.figure else { return Ok(None) };
        let figure = Figure::ALL.iter().copied().find(|figure| figure.as_str() == name);
        let figure = figure.ok_or_else(|| format!("`{name}` is no figure of `cloison reproduce`"))?;
        let dataset = self.dataset.as_ref().ok_or("has no `dataset`")?;
        let dataset: DatasetName = dataset.parse().map_err(|e| format!("{e}"))?;
        let dataset = figure.on(dataset).map_err(|e: ReproduceError| e.to_string())?;
        Ok(Some((figure, dataset)))
    }

    /// How it is computed.
    ///
    /// # Errors
    /// What is wrong with the settings, in words.
    pub fn options(&self, quick: bool) -> Result<Options, String> {
        let figure = self.figure_named().map(|(figure, _)| figure);
        let options = self.full.apply(figure, Options::default())?;
        if quick { self.quick.apply(None, options) } else { Ok(options) }
    }
}

impl Card {
    /// The command that computes its figure, with `--quick` or in full; `None` if nothing does.
    #[must_use]
    pub fn command(&self, quick: bool) -> Option<String> {
        let mut command = format!("cloison reproduce {} --dataset {}", self.figure.as_ref()?, self.dataset.as_ref()?);
        let mut add = |option: &str, value: String| command.push_str(&format!(" --{option} {value}"));
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
            add("dimensions", dimensions.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
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

    /// Curves that it names and that its document does not have, each with those that it has.
    #[must_use]
    pub fn unknown(&self, document: &Document) -> Vec<String> {
        let published = self.published.iter().map(|p| p.curve.as_str()).filter(|curve| *curve != MODEL_ACCURACY);
        let mut named: Vec<&str> = published.chain(self.claim.iter().flat_map(|claim| claim.test.curves())).collect();
        named.sort_unstable();
        named.dedup();
        let unknown = named.into_iter().filter(|curve| document.curve(curve).is_none());
        let known = || document.curves.iter().map(|curve| curve.name.as_str()).collect::<Vec<_>>().join(", ");
        unknown
            .map(|curve| format!("card {}: the document has no curve `{curve}`; it has: {}", self.id, known()))
            .collect()
    }
}

/// Stands for the accuracy of the document's model in [`Published::curve`].
pub const MODEL_ACCURACY: &str = "model_accuracy";

impl Settings {
    /// Writes these settings over others; the figure's own number of records if one is given.
    fn apply(&self, figure: Option<Figure>, mut options: Options) -> Result<Options, String> {
        let count = |count: &Count| match count {
            Count::Some(n) if *n > 0 => Ok(Some(*n)),
            Count::Some(_) => Err("a number of records is 0".to_owned()),
            Count::All(text) if text == "all" => Ok(None),
            Count::All(text) => Err(format!("`{text}` is no number of records: a number, or \"all\"")),
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
                let (key, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is to be key=value"))?;
                Ok::<_, String>((key.to_owned(), value.to_owned()))
            };
            options.inversion = pairs.iter().map(pair).collect::<Result<_, _>>()?;
        }
        options.inversion_records = self.inversion_records.unwrap_or(options.inversion_records);
        Ok(options)
    }
}
