//! A party's own files: what is refused, and that dividing a data set into files loses not one bit.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use proptest::prelude::*;
use vfl_core::data::schema::FeatureSchema;
use vfl_core::data::table::{FeatureStore, FeatureTable};
use vfl_core::data::{Limits, TableError};
use vfl_core::types::{PartyName, RecordIds};
use vfl_datasets::partition::{divide, partition};
use vfl_datasets::{
    DatasetName, DatasetSpec, PartyFiles, SyntheticFields, SyntheticParameters, VerticalSplit, load,
};

const SCHEMA: &str = r#"
    id = "customer"
    [label]
    column = "outcome"
    classes = ["no", "yes"]
    [[features]]
    name = "age"
    kind = "numeric"
    min = 17
    max = 97
    [[features]]
    name = "spent"
    kind = "numeric"
    min = -1
    max = 3
    clamp = true
    [[features]]
    name = "phone"
    kind = "binary"
    [[features]]
    name = "degree"
    kind = "ordinal"
    categories = ["none", "school", "university"]
    [[features]]
    name = "job"
    kind = "categorical"
    categories = ["clerk", "unknown"]
    [[features]]
    name = "country"
    kind = "numeric"
    min = 7
    max = 7
"#;
const HEADER: &str = "customer,age,spent,phone,degree,job,country,outcome\n";

fn read(text: &[u8], limits: &Limits) -> Result<FeatureTable, TableError> {
    FeatureTable::from_reader(
        FeatureSchema::from_toml(SCHEMA).unwrap(),
        Path::new("bank.csv"),
        text,
        limits,
    )
}

#[test]
fn a_good_file_is_read() {
    let text = "\u{feff}job,age,outcome,customer,spent,phone,degree,country\r\n\
                unknown,57,yes,\"c, 1\",9.5,1,university,7\r\n\r\n\
                clerk, 17.0,no,c2,-1e0,0,none,7.0";
    let table = read(text.as_bytes(), &Limits::default()).unwrap();
    assert_eq!(table.ids().iter().collect::<Vec<_>>(), ["c, 1", "c2"]);
    assert_eq!(table.labels(), Some([1, 0].as_slice()));
    let names: Vec<_> = table.schema().features().iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["age", "spent", "phone", "degree", "job=clerk", "job=unknown", "country"]);
    let expected = [0.5, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0];
    assert_eq!(table.block().matrix().as_slice(), expected);
}

#[test]
fn refusals_name_file_line_and_column() {
    const GOOD: &str = "c1,57,0,1,school,clerk,7,no\n";
    let row = |row: &str| format!("{HEADER}{GOOD}{row}\n").into_bytes();
    let long = "x".repeat(129);
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("empty file", b"".to_vec(), "bank.csv: the file is empty"),
        ("blank lines alone", b"\n\n\r\n".to_vec(), "bank.csv: the file is empty"),
        ("header alone", HEADER.into(), "bank.csv: there is no record under the header"),
        (
            "no id column",
            HEADER.replace("customer", "client").into(),
            "bank.csv, line 1, column client: the schema does not declare",
        ),
        (
            "missing feature",
            HEADER.replace(",degree", "").into(),
            "bank.csv, line 1, column degree: the schema declares this column",
        ),
        (
            "missing id",
            HEADER.replace("customer,", "").into(),
            "bank.csv, line 1, column customer: the schema declares",
        ),
        (
            "missing label",
            HEADER.replace(",outcome", "").into(),
            "bank.csv, line 1, column outcome: the schema declares",
        ),
        (
            "extra column",
            HEADER.replace("age", "age,shoe").into(),
            "bank.csv, line 1, column shoe: the schema does not declare",
        ),
        (
            "column twice",
            HEADER.replace("age", "age,age").into(),
            "bank.csv, line 1, column age: the header has this column twice",
        ),
        ("half a line", row("c2,57,0,1,scho"), "bank.csv, line 3: 5 fields where the header has 8"),
        (
            "a comma too many",
            row("c2,57,0,1,school,clerk,7,no,"),
            "bank.csv, line 3: 9 fields where the header has 8",
        ),
        (
            "empty id",
            row(",57,0,1,school,clerk,7,no"),
            "bank.csv, line 3, column customer: record id at position 1 is empty",
        ),
        (
            "long id",
            row(&format!("{long},57,0,1,school,clerk,7,no")),
            "bank.csv, line 3, column customer: record id at position 1 has 129 bytes",
        ),
        (
            "line break in an id",
            row("\"c\n2\",57,0,1,school,clerk,7,no"),
            "bank.csv, line 3: a quoted field is not closed on its line",
        ),
        (
            "control character in an id",
            row("c\t2,57,0,1,school,clerk,7,no"),
            "bank.csv, line 3, column customer: record id at position 1 holds a control",
        ),
        (
            "half a quoted field",
            row("c2,57,0,1,school,\"cle"),
            "bank.csv, line 3: a quoted field is not closed",
        ),
        (
            "text after a quote",
            row("c2,\"57\"0,0,1,school,clerk,7,no"),
            "bank.csv, line 3: a quoted field is not closed",
        ),
        (
            "id twice",
            row("c2,57,0,1,school,clerk,7,no\n\nc1,57,0,1,school,clerk,7,no"),
            "bank.csv, line 5, column customer: an earlier line has the same",
        ),
        (
            "no value",
            row("c2,,0,1,school,clerk,7,no"),
            "bank.csv, line 3, column age: the field is empty",
        ),
        (
            "text for a number",
            row("c2,5O,0,1,school,clerk,7,no"),
            "bank.csv, line 3, column age: not a number",
        ),
        (
            "decimal comma",
            row("c2,\"57,5\",0,1,school,clerk,7,no"),
            "bank.csv, line 3, column age: not a number",
        ),
        (
            "not a number",
            row("c2,NaN,0,1,school,clerk,7,no"),
            "bank.csv, line 3, column age: the number is not finite",
        ),
        (
            "infinite, though clamped",
            row("c2,57,-inf,1,school,clerk,7,no"),
            "bank.csv, line 3, column spent: the number is not finite",
        ),
        (
            "past a double",
            row("c2,57,1e999,1,school,clerk,7,no"),
            "bank.csv, line 3, column spent: the number is not finite",
        ),
        (
            "below the range",
            row("c2,16.99,0,1,school,clerk,7,no"),
            "bank.csv, line 3, column age: the number is outside its declared range 17 to 97",
        ),
        (
            "above the range",
            row("c2,97.01,0,1,school,clerk,7,no"),
            "bank.csv, line 3, column age: the number is outside its declared range 17 to 97",
        ),
        (
            "off a constant",
            row("c2,57,0,1,school,clerk,8,no"),
            "bank.csv, line 3, column country: the number is outside",
        ),
        (
            "neither 0 nor 1",
            row("c2,57,0,0.5,school,clerk,7,no"),
            "bank.csv, line 3, column phone: a binary feature is 0 or 1",
        ),
        (
            "unknown step",
            row("c2,57,0,1,School,clerk,7,no"),
            "bank.csv, line 3, column degree: not one of the 3 declared categories",
        ),
        (
            "unknown category",
            row("c2,57,0,1,school,spy,7,no"),
            "bank.csv, line 3, column job: not one of the 2 declared categories",
        ),
        (
            "wrong class",
            row("c2,57,0,1,school,clerk,7,maybe"),
            "bank.csv, line 3, column outcome: not one of the declared classes no, yes",
        ),
        (
            "Latin-1 value",
            [HEADER.as_bytes(), b"c2,57,0,1,school,cl\xe9rk,7,no\n"].concat(),
            "bank.csv, line 2, column job: not UTF-8",
        ),
        (
            "UTF-16",
            b"\xff\xfec\0u\0s\0\n\0".to_vec(),
            "bank.csv, line 1: UTF-16 text; save the file as UTF-8",
        ),
        (
            "long field",
            row(&format!("c2,{},0,1,school,clerk,7,no", "5".repeat(2000))),
            "bank.csv, line 3, column age: the length of a field in bytes is over the limit of 1024",
        ),
    ];
    for (what, text, expected) in cases {
        let error = read(&text, &Limits::default()).expect_err(what).to_string();
        assert!(error.contains(expected), "{what}: {error}\nexpected: {expected}");
        for value in ["5O", "16.99", "97.01", "spy", "maybe", "57,5", "c1,"] {
            assert!(!error.contains(value), "{what}: a value stands in the error: {error}");
        }
    }
}

#[test]
fn files_over_the_limits_are_refused() {
    let text = format!(
        "{HEADER}{}",
        (0..20).map(|i| format!("c{i},57,0,1,school,clerk,7,no\n")).collect::<String>()
    );
    let exact = Limits { file_bytes: text.len() as u64, records: 20, field_bytes: 8 };
    assert_eq!(read(text.as_bytes(), &exact).unwrap().len(), 20);
    for (limits, expected) in [
        (
            Limits { file_bytes: exact.file_bytes - 1, ..exact },
            "the file's size in bytes is over the limit",
        ),
        (Limits { file_bytes: 100, ..exact }, "the file's size in bytes is over the limit of 100"),
        (Limits { records: 19, ..exact }, "line 21: the number of records is over the limit of 19"),
        (
            Limits { field_bytes: 7, ..exact },
            "the length of a field in bytes is over the limit of 7",
        ),
    ] {
        let error = read(text.as_bytes(), &limits).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\nexpected: {expected}");
    }
}

#[test]
fn files_that_cannot_be_opened_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let (schema, csv) = (dir.path().join("s.toml"), dir.path().join("f.csv"));
    let error = FeatureTable::from_csv(&schema, &csv).unwrap_err().to_string();
    assert!(error.contains("s.toml: cannot be read"), "{error}");
    std::fs::write(&schema, "id = 3").unwrap();
    let error = FeatureTable::from_csv(&schema, &csv).unwrap_err().to_string();
    assert!(error.contains("s.toml: not a valid schema"), "{error}");
    std::fs::write(&schema, b"id = \"\xff\"").unwrap();
    assert!(
        FeatureTable::from_csv(&schema, &csv)
            .unwrap_err()
            .to_string()
            .contains("s.toml: not UTF-8")
    );
    std::fs::write(&schema, SCHEMA).unwrap();
    let error = FeatureTable::from_csv(&schema, &csv).unwrap_err().to_string();
    assert!(error.contains("f.csv: cannot be read"), "{error}");
    assert!(
        FeatureTable::from_csv(&schema, dir.path())
            .unwrap_err()
            .to_string()
            .contains("cannot be read")
    );
}

fn small(records: usize, features: usize, seed: u64) -> DatasetSpec {
    let mut spec = DatasetSpec::new(DatasetName::Synthetic, None, seed);
    let fields = SyntheticFields {
        records,
        features,
        informative: 3.min(features),
        redundant: 0,
        repeated: 0,
        classes: 2,
        ..SyntheticFields::default()
    };
    spec.synthetic = SyntheticParameters::new(fields).unwrap();
    spec
}

fn reread(files: &PartyFiles) -> FeatureTable {
    FeatureTable::from_csv(&files.schema, &files.csv).unwrap_or_else(|e| panic!("{e}"))
}

fn bits(table: &FeatureTable) -> Vec<u64> {
    table.block().matrix().iter().map(|v| v.to_bits()).collect()
}

#[test]
fn parties_hold_the_same_records_in_different_orders() {
    let data = load(&small(200, 6, 4)).unwrap();
    let names = ["p1", "p2"].map(|n| PartyName::new(n).unwrap());
    let split = VerticalSplit::shared_window(4, 4, 6, &names).unwrap();
    let tables = divide(&data, &split, 9).unwrap();
    assert_eq!(tables, divide(&data, &split, 9).unwrap());
    let all: Vec<&FeatureTable> =
        std::iter::once(&tables.active).chain(tables.passive.iter().map(|p| &p.1)).collect();
    for (i, a) in all.iter().enumerate() {
        assert_ne!(a.ids(), data.ids());
        assert!(all[..i].iter().all(|b| a.ids() != b.ids()));
    }
    // Joined by id, the parties' columns are those of the data set.
    let asked = data.ids().select(&[7, 0, 199]);
    for (table, columns) in
        [(&tables.active, split.active()), (&tables.passive[1].1, &split.passive()[1].columns)]
    {
        let block = table.fetch(&asked).unwrap();
        for (j, &record) in [7, 0, 199].iter().enumerate() {
            for (i, &column) in columns.iter().enumerate() {
                assert_eq!(block.matrix()[(i, j)], data.x()[(column, record)]);
            }
        }
    }
    for (record, id) in data.ids().iter().enumerate() {
        let at = tables.active.position(id).unwrap();
        assert_eq!(tables.active.labels().unwrap()[at], data.labels()[record]);
    }
    assert!(tables.passive.iter().all(|p| p.1.labels().is_none()));
    assert!(divide(&data, &VerticalSplit::window(0, 2, 7).unwrap(), 9).is_err());
}

#[test]
fn files_hold_the_split_and_leave_nothing_behind() {
    let data = load(&small(50, 4, 4)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("deep/er");
    // The active party may hold no feature at all.
    let files = partition(&data, &VerticalSplit::window(0, 4, 4).unwrap(), &out, 1).unwrap();
    let active = reread(&files.active);
    assert_eq!((active.schema().len(), active.len()), (0, 50));
    let read_ids = |path: &Path| std::fs::read_to_string(path).unwrap().lines().count();
    assert_eq!([&files.train, &files.validation, &files.test].map(|p| read_ids(p)), [40, 5, 5]);
    let test = RecordIds::new(std::fs::read_to_string(&files.test).unwrap().lines()).unwrap();
    assert_eq!(test, data.ids().select(&data.split().test));
    let mut names: Vec<_> = std::fs::read_dir(&out)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let expected = [
        "active.csv",
        "active.schema.toml",
        "passive.csv",
        "passive.schema.toml",
        "test.ids",
        "train.ids",
        "validation.ids",
    ];
    assert_eq!(names, expected);
    std::fs::write(dir.path().join("file"), "").unwrap();
    let error =
        partition(&data, &VerticalSplit::window(0, 4, 4).unwrap(), &dir.path().join("file"), 1)
            .unwrap_err();
    assert!(error.to_string().contains("cannot be written"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn files_round_trip_bit_for_bit(
        records in 10usize..60, features in 2usize..9, seed in any::<u64>(), k0 in 0usize..9, parties in 1usize..4,
    ) {
        let data = load(&small(records, features, seed)).unwrap();
        let names: Vec<_> = (0..parties.min(features)).map(|i| PartyName::new(format!("p{i}")).unwrap()).collect();
        let split = VerticalSplit::shared_window(k0, names.len(), features, &names).unwrap();
        let tables = divide(&data, &split, seed).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let files = partition(&data, &split, dir.path(), seed).unwrap();
        let pairs = std::iter::once((&files.active, &tables.active))
            .chain(files.passive.iter().zip(&tables.passive).map(|(f, t)| (&f.1, &t.1)));
        for (files, table) in pairs {
            let back = reread(files);
            prop_assert_eq!(&back, table);
            prop_assert_eq!(bits(&back), bits(table));
        }
    }

    #[test]
    fn awkward_numbers_round_trip(values in proptest::collection::vec(prop_oneof![
        0.0f64..=1.0, Just(0.0), Just(1.0), Just(f64::MIN_POSITIVE), Just(5e-324), Just(1.0 - f64::EPSILON / 2.0),
        1e-320f64..1e-300, 1e-7f64..1e-4,
    ], 1..30)) {
        use nalgebra::DMatrix;
        use vfl_core::data::schema::FeatureSpec;
        use vfl_core::types::FeatureBlock;
        let n = values.len();
        let schema = FeatureSchema::new(vec![FeatureSpec::numeric("f, \"x\"", 0.0, 1.0)], None).unwrap();
        let block = FeatureBlock::new(DMatrix::from_vec(1, n, values)).unwrap();
        let ids = RecordIds::new((0..n).map(|i| format!("a,\"{i}\" é"))).unwrap();
        let table = FeatureTable::new(schema.clone(), ids, block, None).unwrap();
        let mut bytes = Vec::new();
        table.write_csv(&mut bytes).unwrap();
        let back = FeatureTable::from_reader(schema, Path::new("t.csv"), bytes.as_slice(), &Limits::default()).unwrap();
        prop_assert_eq!(bits(&back), bits(&table));
        prop_assert_eq!(back, table);
    }

    #[test]
    fn any_bytes_are_taken_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(&bytes, &Limits::default());
        let _ = read(&[HEADER.as_bytes(), &bytes].concat(), &Limits::default());
    }

    #[test]
    fn any_fields_are_taken_or_refused(rows in proptest::collection::vec(proptest::collection::vec(
        "[a-z0-9.eE+\\-\"\\n ]{0,6}|nan|inf|school|clerk|yes|no|7|57", 8), 0..6)) {
        let text = rows.iter().map(|r| r.join(",") + "\n").collect::<String>();
        let _ = read([HEADER, &text].concat().as_bytes(), &Limits::default());
    }

    #[test]
    fn any_schema_text_is_taken_or_refused(text in "(id|label|features|name|kind|min|max|=|\\[|\\]|\"|1|\n| |a){0,60}") {
        let _ = FeatureSchema::from_toml(&text);
    }
}

/// A file of ids alone has a line for each, even where the id is a blank, which may be one.
#[test]
fn an_id_of_blanks_is_no_blank_line() {
    let schema = || FeatureSchema::from_toml("id = \"id\"\n").unwrap();
    let read = |text: &[u8]| {
        FeatureTable::from_reader(schema(), Path::new("ids.csv"), text, &Limits::default()).unwrap()
    };
    let table = read(b"id\nr1\n\" \"\n");
    let mut written = Vec::new();
    table.write_csv(&mut written).unwrap();
    assert_eq!(read(&written).ids(), &RecordIds::new(["r1", " "]).unwrap());
}
