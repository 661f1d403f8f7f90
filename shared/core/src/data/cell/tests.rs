//! The conversion of raw values.

#![allow(clippy::unwrap_used)]
use super::*;

const SCHEMA: &str = r#"
    id = "id"
    [[features]]
    name = "age"
    kind = "numeric"
    min = 0
    max = 4
    [[features]]
    name = "job"
    kind = "categorical"
    categories = ["1", "true"]
"#;

#[test]
fn a_number_beside_its_grid_is_refused_without_showing_it() {
    let text = "id = \"id\"\n[[features]]\nname = \"f\"\nkind = \"numeric\"\nmin = -0.1\nmax = 0.2\nstep = 0.01";
    let schema = FeatureSchema::from_toml(text).unwrap();
    let read =
        |text| schema.read_feature(0, Cell::Text(text), &mut [0.0]).map_err(|e| e.to_string());
    for on in ["-0.1", "-0.03", "0", "0.07", "0.13", "0.2"] {
        assert_eq!(read(on), Ok(()), "{on}");
    }
    let refused = read("0.125").unwrap_err();
    assert!(refused.contains("step of 0.01 from -0.1") && !refused.contains("0.125"), "{refused}");
}

/// NULL, blank text and NaN are the same missing value, which counts as the schema says.
#[test]
fn missing_values_follow_the_rule_of_their_column() {
    let schema = FeatureSchema::from_toml(
        r#"
        id = "id"
        [[features]]
        name = "age"
        kind = "numeric"
        min = 0
        max = 4
        step = 1
        missing = 3
        [[features]]
        name = "job"
        kind = "categorical"
        categories = ["clerk", "unknown"]
        missing = "unknown"
        [[features]]
        name = "degree"
        kind = "ordinal"
        categories = ["", "school", "university"]
        missing = "school"
        [[features]]
        name = "strict"
        kind = "binary"
        "#,
    )
    .unwrap();
    let names: Vec<_> = schema.features().iter().map(|f| f.name.as_str()).collect();
    let expected = ["age", "age is missing", "job=clerk", "job=unknown", "degree", "strict"];
    assert_eq!(names, expected);
    let read = |column, cell| {
        let mut values = [0.0; 6];
        let read = schema.read_feature(column, cell, &mut values);
        read.map(|()| values).map_err(|e| e.to_string())
    };
    assert_eq!(read(0, Cell::Text("nan")), read(0, Cell::Missing));
    assert!(read(1, Cell::Text("nan")).is_err());
    let null = [Cell::Missing, Cell::Text(" "), Cell::Real(f64::NAN)];
    for cell in null {
        assert_eq!(read(0, cell), Ok([0.75, 1.0, 0.0, 0.0, 0.0, 0.0]));
        assert_eq!(read(1, cell), Ok([0.0, 0.0, 0.0, 1.0, 0.0, 0.0]));
        assert!(read(3, cell).is_err());
    }
    assert_eq!(read(0, Cell::Text("3")), Ok([0.75, 0.0, 0.0, 0.0, 0.0, 0.0]));
    // Blank text is a category of its own here.
    assert_eq!(read(2, Cell::Missing).map(|values| values[4]), Ok(0.5));
    assert_eq!(read(2, Cell::Text("")).map(|values| values[4]), Ok(0.0));
    assert!(read(1, Cell::Text("baker")).is_err() && read(0, Cell::Text("old")).is_err());
    assert!(read(0, Cell::Real(f64::INFINITY)).is_err());
    let may: Vec<bool> = schema.source_columns().iter().map(|c| c.may_be_missing).collect();
    assert_eq!(may, [false, true, true, true, false]);
    assert_eq!(FeatureSchema::from_toml(&schema.to_toml().unwrap()).unwrap(), schema);
    let encodings = schema.encodings();
    assert_eq!(encodings.len(), schema.len());
    let said = ["0 to 4, 3 where missing", "is missing", "is \"clerk\""];
    assert_eq!(encodings[..3], said);
    assert_eq!(encodings[3], "is \"unknown\" or missing");
    assert!(encodings[4].ends_with(", \"school\" where missing"));
}

/// A date counts in days, and a binary feature takes the words of truth values.
#[test]
fn dates_and_truth_values_are_numbers() {
    let schema = FeatureSchema::from_toml(
        r#"
        id = "id"
        [[features]]
        name = "opened"
        kind = "date"
        min = "2020-01-01"
        max = "2024-01-01"
        missing = "2022-01-01"
        [[features]]
        name = "staff"
        kind = "binary"
        [[features]]
        name = "week"
        kind = "date"
        min = "2024-01-01"
        max = "2024-01-15"
        step = 7
        clamp = true
        "#,
    )
    .unwrap();
    let read = |column, cell| {
        let mut values = [0.0; 4];
        let read = schema.read_feature(column, cell, &mut values);
        read.map(|()| values).map_err(|e| e.to_string())
    };
    let days = 1461.0;
    let opened = &schema.features()[0];
    assert_eq!((opened.max - opened.min, opened.step), (days, Some(1.0)));
    assert_eq!(read(0, Cell::Text("2024-01-01 13:00:00")), Ok([1.0, 0.0, 0.0, 0.0]));
    assert_eq!(read(0, Cell::Text("2020-01-02")), Ok([1.0 / days, 0.0, 0.0, 0.0]));
    assert_eq!(read(0, Cell::Missing), Ok([731.0 / days, 1.0, 0.0, 0.0]));
    let late = read(0, Cell::Text("2024-01-02")).unwrap_err();
    assert!(late.contains("2020-01-01 to 2024-01-01"), "{late}");
    let wrong = read(0, Cell::Text("01/02/2024")).unwrap_err();
    assert!(wrong.contains("YYYY-MM-DD") && !wrong.contains("01/02"), "{wrong}");
    assert!(read(0, Cell::Integer(20_200_101)).is_err());
    for (word, expected) in [("True", 1.0), ("NO", 0.0), ("y", 1.0), ("f", 0.0), ("1", 1.0)] {
        assert_eq!(read(1, Cell::Text(word)).map(|values| values[2]), Ok(expected), "{word}");
    }
    assert!(read(1, Cell::Text("maybe")).is_err());
    assert!(read(2, Cell::Text("2024-01-09")).is_err());
    assert_eq!(read(2, Cell::Text("2030-01-09")).map(|values| values[3]), Ok(1.0));
    assert_eq!(FeatureSchema::from_toml(&schema.to_toml().unwrap()).unwrap(), schema);
    let encodings = schema.encodings();
    let range = "days from 2020-01-01 to 2024-01-01, 2022-01-01 where missing";
    assert_eq!(encodings[..2], [range, "is missing"]);
    let weeks = schema.of_columns(&["week".into(), "opened".into()], false);
    let names: Vec<_> = weeks.features().iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["week", "opened", "opened is missing"]);
    assert_eq!(FeatureSchema::from_toml(&weeks.to_toml().unwrap()).unwrap(), weeks);
    let text: Vec<bool> = schema.source_columns().iter().map(|c| c.number).collect();
    assert_eq!(text, [false, false, true, false]);
    for (wrong, says) in [
        ("min = \"2020-01-01\"", "needs min and max"),
        ("min = \"2020-01-01\"\nmax = 3", "needs min and max"),
        ("min = \"2020-01-01\"\nmax = \"1.2.2024\"", "needs min and max"),
        ("min = \"2020-01-01\"\nmax = \"2024-01-01\"\nstep = 0.5", "whole number of days"),
        ("min = \"2020-01-01\"\nmax = \"2024-01-01\"\nmissing = 5", "is a date"),
    ] {
        let text = format!("id = \"id\"\n[[features]]\nname = \"f\"\nkind = \"date\"\n{wrong}");
        let error = FeatureSchema::from_toml(&text).unwrap_err().to_string();
        assert!(error.contains(says), "{wrong}: {error}");
    }
}

/// Range, step, clamp and the rule for gaps are of the source's values, whatever the scale.
#[test]
fn a_value_is_checked_before_its_scale() {
    let schema = FeatureSchema::from_toml(
        r#"
        id = "id"
        [[features]]
        name = "income"
        kind = "numeric"
        min = 1
        max = 100
        step = 1
        clamp = true
        missing = 10
        scale = "log"
        "#,
    )
    .unwrap();
    let read = |cell| {
        let mut values = [0.0; 2];
        schema.read_feature(0, cell, &mut values).map(|()| values).map_err(|e| e.to_string())
    };
    assert_eq!(read(Cell::Integer(10)), Ok([0.5, 0.0]));
    assert_eq!(read(Cell::Missing), Ok([0.5, 1.0]));
    assert_eq!(read(Cell::Text("-3")), Ok([0.0, 0.0]));
    assert_eq!(read(Cell::Real(1e300)), Ok([1.0, 0.0]));
    assert!(read(Cell::Real(2.5)).unwrap_err().contains("step"));
}

/// However a source stores a value, it means the same.
#[test]
fn every_form_of_a_value_is_read_alike() {
    let schema = FeatureSchema::from_toml(SCHEMA).unwrap();
    let read = |column, cell| {
        let mut values = [0.0; 3];
        schema.read_feature(column, cell, &mut values).map(|()| values).map_err(|e| e.to_string())
    };
    for cell in [Cell::Text(" 1 "), Cell::Real(1.0), Cell::Integer(1)] {
        assert_eq!(read(0, cell), Ok([0.25, 0.0, 0.0]));
        assert_eq!(read(1, cell), Ok([0.0, 1.0, 0.0]));
    }
    assert_eq!(read(0, Cell::Bool(true)), Ok([0.25, 0.0, 0.0]));
    assert_eq!(read(1, Cell::Bool(true)), Ok([0.0, 0.0, 1.0]));
    for cell in [Cell::Missing, Cell::Real(f64::NAN), Cell::Integer(5), Cell::Text("")] {
        assert!(read(0, cell).is_err());
    }
    assert!(read(1, Cell::Missing).unwrap_err().contains("NULL"));
    let names: Vec<_> =
        schema.source_columns().into_iter().map(|c| (c.name, c.target, c.number)).collect();
    let wanted = [
        ("id", ColumnRole::Id, false),
        ("age", ColumnRole::Column(0), true),
        ("job", ColumnRole::Column(1), false),
    ];
    assert_eq!(names, wanted.map(|(name, target, number)| (name.to_owned(), target, number)));
}

/// A text that is not listed counts as the category of the others, and blank text does not.
#[test]
fn unlisted_texts_count_as_the_other_category() {
    let schema = FeatureSchema::from_toml(
        r#"
        id = "id"
        [[features]]
        name = "town"
        kind = "categorical"
        categories = ["Paris", "none", "other"]
        missing = "none"
        other = "other"
        [[features]]
        name = "size"
        kind = "ordinal"
        categories = ["s", "m"]
        other = "m"
        "#,
    )
    .unwrap();
    let read = |column, cell| {
        let mut values = [0.0; 4];
        let read = schema.read_feature(column, cell, &mut values);
        read.map(|()| values).map_err(|e| e.to_string())
    };
    assert_eq!(read(0, Cell::Text("Lyon")), Ok([0.0, 0.0, 1.0, 0.0]));
    assert_eq!(read(0, Cell::Integer(7)), Ok([0.0, 0.0, 1.0, 0.0]));
    assert_eq!(read(0, Cell::Missing), Ok([0.0, 1.0, 0.0, 0.0]));
    assert_eq!(read(0, Cell::Text(" ")), Ok([0.0, 1.0, 0.0, 0.0]));
    assert_eq!(read(1, Cell::Text("xl")), Ok([0.0, 0.0, 0.0, 1.0]));
    assert!(read(1, Cell::Text("")).is_err() && read(1, Cell::Missing).is_err());
    assert_eq!(FeatureSchema::from_toml(&schema.to_toml().unwrap()).unwrap(), schema);
    let one = schema.of_columns(&["size".into()], false);
    assert_eq!(FeatureSchema::from_toml(&one.to_toml().unwrap()).unwrap(), one);
    let encodings = schema.encodings();
    assert_eq!(encodings[1..3], ["is \"none\" or missing", "is \"other\" or not listed"]);
    assert_eq!(encodings[3], "\"s\" < \"m\", \"m\" for other texts");
    for (wrong, says) in [
        ("kind = \"categorical\"\ncategories = [\"a\"]\nother = \"b\"", "add it to them"),
        ("kind = \"numeric\"\nmin = 0\nmax = 1\nother = \"b\"", "it has none"),
    ] {
        let text = format!("id = \"id\"\n[[features]]\nname = \"f\"\n{wrong}");
        let error = FeatureSchema::from_toml(&text).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

/// A number of a file with decimal commas; the same text is an id or a category as it stands.
#[test]
fn numbers_may_have_a_decimal_comma() {
    for (text, number) in [("1,5", Some(1.5)), (" -2,25e1 ", Some(-22.5)), ("7", Some(7.0))] {
        assert_eq!(Cell::CommaText(text).number().ok(), number, "{text}");
    }
    for text in ["1.5", "1.234,5", "1,234,5", "1,5 EUR", ",", "1e999", "NA", "."] {
        assert!(Cell::CommaText(text).number().is_err(), "{text}");
    }
    assert_eq!(Cell::CommaText("1,5").text().unwrap(), "1,5");
    assert_eq!(Cell::CommaText("2024-01-02").date().ok(), Cell::Text("2024-01-02").date().ok());
    assert!(Cell::CommaText(".").is_missing(true) && !Cell::CommaText("NA").is_missing(false));
}
