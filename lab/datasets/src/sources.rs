//! The descriptions of the data sets: `lab/datasets/sets/NAME.toml`. The facts are from the sets'
//! own descriptions.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::names::{DatasetName, ImageShape};
use super::split::Part;
use super::variant::Variant;

/// The description of a data set, as in its file. The synthetic set and images have no `files`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Description {
    /// Alternatives, each a list of files that belong together; the first complete one is read.
    #[serde(default)]
    pub(super) files: Vec<Vec<SourceFile>>,
    #[serde(default)]
    pub(super) delimiter: Delimiter,
    #[serde(default)]
    pub(super) header: Header,
    /// The label column's name, where there is a header. The label is the last column.
    #[serde(default)]
    pub(super) label: String,
    /// The classes in the order that numbers them.
    #[serde(default)]
    pub(super) classes: Vec<String>,
    /// The classes as the files spell them, if not by their names.
    #[serde(default)]
    spelled: Vec<String>,
    /// The selections of columns, the default first.
    #[serde(default = "all_columns")]
    pub(super) variants: Vec<Variant>,
    /// The shape of the records, if they are images.
    #[serde(default)]
    pub(super) image: Option<ImageShape>,
    /// All columns but the label.
    #[serde(default)]
    columns: Vec<ColumnRun>,
}

fn all_columns() -> Vec<Variant> {
    vec![Variant::All]
}

/// A file of a set, and the part of the set that it holds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SourceFile {
    pub(super) name: String,
    pub(super) part: Option<Part>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Delimiter {
    #[default]
    Comma,
    Semicolon,
    Blank,
    CommaOrBlank,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Header {
    #[default]
    None,
    /// A line of column names, which must be the expected ones.
    Named,
    /// An optional first line that starts with `|` and holds no data.
    Comment,
}

/// Adjacent columns of one kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ColumnRun {
    names: Vec<String>,
    #[serde(default)]
    kind: ColumnKind,
    /// The natural order of some or all categories, which come first.
    #[serde(default)]
    order: Vec<String>,
    /// The variants in which the columns are of another kind.
    #[serde(default)]
    kind_in: HashMap<Variant, ColumnKind>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ColumnKind {
    #[default]
    Numeric,
    Ordinal,
    Binary,
    Category,
    /// The column is read over.
    Drop,
}

/// A column of a set in one of its variants.
#[derive(Clone, Copy)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: ColumnKind,
    /// The natural order of some or all categories, which come first.
    pub(super) order: &'static [String],
}

impl Description {
    /// Returns all columns but the label in a variant that the caller has checked.
    pub(super) fn columns(&'static self, variant: Variant) -> impl Iterator<Item = Column> {
        self.columns.iter().flat_map(move |run| {
            let kind = run.kind_in.get(&variant).copied().unwrap_or(run.kind);
            run.names.iter().map(move |name| Column { name, kind, order: &run.order })
        })
    }

    /// Returns the number of the class that a file spells so.
    pub(super) fn class(&self, spelled: &str) -> Option<usize> {
        let all = if self.spelled.is_empty() { &self.classes } else { &self.spelled };
        all.iter().position(|class| class == spelled)
    }
}

impl DatasetName {
    /// Returns the description of the set.
    pub(super) fn description(self) -> &'static Description {
        static ALL: LazyLock<Vec<Description>> = LazyLock::new(|| {
            let read = |name: &DatasetName| {
                toml::from_str(name.text()).unwrap_or_else(|e| {
                    unreachable!("a test reads {name}.toml, which is compiled in: {e}")
                })
            };
            DatasetName::ALL.iter().map(read).collect()
        });
        &ALL[self as usize]
    }

    /// Returns the number of columns that describe a record in a variant, each counted once
    /// whatever its encoding; `None` for images and the synthetic set.
    #[must_use]
    pub fn columns(self, variant: Variant) -> Option<usize> {
        let description = self.description();
        let columns = description.columns(variant);
        (!description.files.is_empty())
            .then(|| columns.filter(|column| column.kind != ColumnKind::Drop).count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_description_can_be_read_and_fits_together() {
        for &name in DatasetName::ALL {
            let set = name.description();
            assert!(set.spelled.is_empty() || set.spelled.len() == set.classes.len(), "{name}");
            assert_eq!(set.header == Header::Named, !set.label.is_empty(), "{name}");
            assert_eq!(set.files.is_empty(), set.columns.is_empty(), "{name}");
            assert!(!set.variants.is_empty(), "{name}");
            for run in &set.columns {
                assert!(run.kind_in.keys().all(|v| set.variants.contains(v)), "{name}");
                let categories = run.kind == ColumnKind::Category;
                assert!(run.order.is_empty() || categories, "{name}, {:?}", run.names);
            }
            let mut names: Vec<_> = set.columns(Variant::All).map(|column| column.name).collect();
            let columns = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), columns, "{name}");
        }
    }
}
