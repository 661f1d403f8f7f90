//! A data set of the caller's own: the tables of its parties, joined by record id.

use std::collections::HashSet;

use nalgebra::DMatrix;
use vfl_core::data::schema::FeatureSpec;
use vfl_core::data::table::{FeatureStore, FeatureTable};
use vfl_core::data::{ColumnRole, IdSet};
use vfl_core::types::RecordIds;

use super::dataset::{DataError, Dataset};
use super::partition::PartyTables;
use super::split::{Part, SplitSpec};
use super::variant::Variant;
use super::vertical::{PassiveColumns, VerticalSplit};

/// The test records that suffice for an audit and a search, and the largest share of the records
/// that they take.
const TEST_RECORDS: f64 = 1000.0;
const MOST_TEST: f64 = 0.4;

impl Dataset {
    /// Joins the tables of the parties of a deployment: the inverse of
    /// [`divide`](super::partition::divide). Keeps the records that every party has, ordered by
    /// their ids, so that the order of the rows does not matter. The passive parties' columns come
    /// first, then the active party's. `test` lists the test records; without it a tenth of the
    /// records is drawn, more of them if that is fewer than 1000.
    ///
    /// A label that is a number has one name in place of classes ([`Dataset::is_of_numbers`]).
    ///
    /// # Errors
    /// [`DataError`] if the active party has no labels, no record is in all tables, or none of
    /// `test` is one of them.
    pub fn join(
        name: &str,
        tables: &PartyTables,
        test: Option<&RecordIds>,
        seed: u64,
    ) -> Result<Self, DataError> {
        let PartyTables { active, passive, numbers } = tables;
        let class_names = active.schema().output_names();
        let labels = match active.schema().number_label() {
            Some(_) => None,
            None => Some(active.labels().ok_or(DataError::NoLabels)?),
        };
        let common = |id: &&str| passive.iter().all(|(_, table)| table.position(id).is_some());
        let mut ids: Vec<&str> = active.ids().iter().filter(common).collect();
        if ids.is_empty() {
            return Err(DataError::NoCommonRecord);
        }
        ids.sort_unstable();
        let ids = RecordIds::new(ids)?;
        let records = ids.len();
        let owners = || passive.iter().map(|(_, table)| table).chain([active]);
        let total = owners().map(|table| table.schema().len()).sum();
        let (mut x, mut first) = (DMatrix::zeros(total, records), 0);
        let (mut features, mut parties) = (Vec::with_capacity(total), Vec::new());
        for (at, table) in owners().enumerate() {
            let block = table.fetch(&ids).map_err(|_| DataError::NoCommonRecord)?;
            let width = block.features();
            x.rows_mut(first, width).copy_from(block.matrix());
            let party = passive.get(at).map(|(name, _)| name.clone());
            let owner = party.as_ref().map_or("active", |name| name.as_str());
            features.extend(apart(&features, table.schema().features(), owner));
            if let Some(name) = party {
                parties.push(PassiveColumns { name, columns: (first..first + width).collect() });
            }
            first += width;
        }
        let label = |id: &str| match labels {
            Some(labels) => active.position(id).and_then(|at| labels.get(at)).copied(),
            None => Some(0),
        };
        let labels = ids.iter().filter_map(label).collect();
        let numbers = numbers.as_ref().and_then(|table| {
            let label = table.schema().features().first()?.clone();
            let unit = table.fetch(&ids).ok()?;
            let own = |unit: &f64| label.min + (label.max - label.min) * unit;
            // The second feature says which records have no label.
            let own = unit.matrix().row(0).iter().map(own).collect();
            Some((label, own))
        });
        let parts = test.map(|test| parts(&ids, test)).transpose()?;
        let split = split_of(records, test.is_some())?.split(records, parts.as_deref(), seed)?;
        Ok(Self {
            name: name.to_owned(),
            variant: Variant::All,
            columns: owners().map(columns).sum(),
            ids,
            features,
            x,
            labels,
            numbers,
            class_names,
            parts,
            split,
            owners: Some(VerticalSplit::new(total, parties)?),
        })
    }
}

/// Returns a party's features, with the party in every name that a party before has, too.
fn apart(before: &[FeatureSpec], own: &[FeatureSpec], party: &str) -> Vec<FeatureSpec> {
    let names: HashSet<&str> = before.iter().map(|feature| feature.name.as_str()).collect();
    let groups: HashSet<&str> = before.iter().filter_map(|f| f.group.as_deref()).collect();
    let of_party = |name: &str| format!("{name} of {party}");
    let own = own.iter().map(|feature| {
        let mut feature = feature.clone();
        if names.contains(feature.name.as_str()) {
            feature.name = of_party(&feature.name);
        }
        feature.group = feature.group.map(|group| match groups.contains(group.as_str()) {
            true => of_party(&group),
            false => group,
        });
        feature
    });
    own.collect()
}

/// Returns the number of a table's columns that features are made of.
fn columns(table: &FeatureTable) -> usize {
    let roles = table.schema().source_columns();
    roles.iter().filter(|column| matches!(column.target, ColumnRole::Column(_))).count()
}

fn parts(ids: &RecordIds, test: &RecordIds) -> Result<Vec<Part>, DataError> {
    let test = IdSet::new(test.clone());
    let part = |id: &str| if test.contains(id) { Part::Test } else { Part::Train };
    let parts: Vec<Part> = ids.iter().map(part).collect();
    match parts.contains(&Part::Test) {
        true => Ok(parts),
        false => Err(DataError::NoTestRecord),
    }
}

fn split_of(records: usize, listed: bool) -> Result<SplitSpec, DataError> {
    let default = SplitSpec::default();
    let test = (TEST_RECORDS / records as f64).min(MOST_TEST);
    match listed || test <= 0.1 {
        true => Ok(default),
        false => Ok(SplitSpec::new(0.9 - test, 0.1, test, false)?),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::partition::divide;
    use std::path::Path;

    use vfl_core::data::Limits;
    use vfl_core::data::schema::FeatureSchema;

    use super::super::{DatasetName, DatasetSpec, load, vertical_split};
    use super::*;

    /// A data set that was divided and joined is what it was before.
    #[test]
    fn joined_tables_are_the_data_set_that_was_divided() {
        let set = load(&DatasetSpec::new(DatasetName::Satellite, None, 5)).unwrap();
        let split = vertical_split(&set, 0, Some(12), 2).unwrap();
        let tables = divide(&set, &split, 5).unwrap();
        let test = set.ids().select(&set.split().test);
        let joined = Dataset::join("satellite", &tables, Some(&test), 5).unwrap();
        assert_eq!((joined.ids(), joined.x()), (set.ids(), set.x()));
        assert_eq!((joined.labels(), joined.split()), (set.labels(), set.split()));
        assert_eq!(joined.class_names(), set.class_names());
        assert_eq!((joined.columns(), joined.features().len()), (36, 36));
        let own = vertical_split(&joined, 0, None, 1).unwrap();
        assert_eq!(own, split);
        assert_eq!(divide(&joined, &own, 5).unwrap(), tables);
        // Without a list the test records are drawn.
        let drawn = Dataset::join("satellite", &tables, None, 5).unwrap();
        assert_eq!(drawn.split().test.len(), 1000);
    }

    /// The numbers of a label belong to their records, in their own units, and are divided again.
    #[test]
    fn numbers_are_joined_by_record() {
        let schema = "id = \"id\"\n[label]\ncolumn = \"price\"\nkind = \"number\"\nmin = 0\nmax = 50\n\
                      [[features]]\nname = \"age\"\nkind = \"numeric\"\nmin = 0\nmax = 100\n";
        let schema = FeatureSchema::from_toml(schema).unwrap();
        let read = |schema: FeatureSchema, text: &str| {
            let limits = Limits::default();
            FeatureTable::from_reader(schema, Path::new("x.csv"), text.as_bytes(), &limits).unwrap()
        };
        let only =
            "id = \"id\"\n[[features]]\nname = \"income\"\nkind = \"numeric\"\nmin = 0\nmax = 9\n";
        // Twenty records, in another order in each table.
        let rows = |head: &str, step: usize, value: &dyn Fn(usize) -> usize| {
            let row = |at: usize| format!("r{:02},{}\n", at * step % 20, value(at * step % 20));
            format!("id,{head}\n{}", (0..20).map(row).collect::<String>())
        };
        let passive = FeatureSchema::from_toml(only).unwrap();
        let passive = read(passive, &rows("income", 3, &|at| at % 9));
        let tables = PartyTables {
            active: read(schema.clone(), &rows("age", 7, &|at| at)),
            passive: vec![(vfl_core::types::PartyName::new("p").unwrap(), passive)],
            numbers: Some(read(schema.number_schema().unwrap(), &rows("price", 9, &|at| 10 + at))),
        };
        let joined = Dataset::join("own", &tables, None, 5).unwrap();
        assert!(joined.is_of_numbers());
        let (label, numbers) = joined.numbers().unwrap();
        assert_eq!((label.name.as_str(), label.min, label.max), ("price", 0.0, 50.0));
        for (at, (id, number)) in joined.ids().iter().zip(numbers).enumerate() {
            assert_eq!((id, number.round()), (&*format!("r{at:02}"), 10.0 + at as f64));
        }
        let split = vertical_split(&joined, 0, None, 1).unwrap();
        let again = divide(&joined, &split, 5).unwrap().numbers.unwrap();
        let first = again.fetch(&RecordIds::new(["r01"]).unwrap()).unwrap();
        assert!((first.matrix()[(0, 0)] - 11.0 / 50.0).abs() < 1e-12);
    }

    #[test]
    fn tables_that_do_not_go_together_are_refused() {
        let set = load(&DatasetSpec::new(DatasetName::Synthetic, None, 5)).unwrap();
        let split = vertical_split(&set, 0, Some(2), 1).unwrap();
        let good = divide(&set, &split, 5).unwrap();
        let join = |tables: &PartyTables, test: &[&str]| {
            let test = RecordIds::new(test).unwrap();
            let test = Some(&test).filter(|test| !test.is_empty());
            Dataset::join("own", tables, test, 5).unwrap_err().to_string()
        };
        assert!(join(&good, &["nobody"]).contains("test"));
        let unlabelled = PartyTables { active: good.passive[0].1.clone(), ..good.clone() };
        assert!(join(&unlabelled, &[]).contains("label"));
        // Equal names of two parties' features are told apart.
        let mut twice = good.clone();
        let name = vfl_core::types::PartyName::new("passive-2").unwrap();
        twice.passive.push((name, good.passive[0].1.clone()));
        let joined = Dataset::join("own", &twice, None, 5).unwrap();
        let names: HashSet<_> = joined.features().iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names.len(), joined.features().len());
        assert!(names.iter().any(|name| name.ends_with(" of passive-2")));
    }
}
