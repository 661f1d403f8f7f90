//! Tests of schemas.

#![allow(clippy::unwrap_used)]
use super::*;

const FULL: &str = r#"
    id = "customer"
    [label]
    column = "outcome"
    classes = ["no", "yes"]
    [[features]]
    name = "age"
    kind = "numeric"
    min = 17
    max = 98
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
"#;

#[test]
fn categories_become_a_group_of_binary_features() {
    let schema = FeatureSchema::from_toml(FULL).unwrap();
    let names: Vec<_> = schema.features().iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["age", "phone", "degree", "job=clerk", "job=unknown"]);
    assert_eq!(schema.features()[4].group.as_deref(), Some("job"));
    let encodings = schema.encodings();
    assert_eq!(encodings.len(), schema.len());
    assert_eq!(
        &encodings[2..],
        ["\"none\" < \"school\" < \"university\"", "is \"clerk\"", "is \"unknown\""]
    );
    assert_eq!(schema.features()[4].kind, FeatureKind::Binary);
    assert_eq!((schema.features()[2].min, schema.features()[2].max), (0.0, 2.0));
    assert_eq!(FeatureSchema::from_toml(&schema.to_toml().unwrap()).unwrap(), schema);
}

#[test]
fn a_grid_is_a_share_of_the_range_before_and_after_normalisation() {
    let cents = r#"
        id = "id"
        [[features]]
        name = "amount"
        kind = "numeric"
        min = -0.1
        max = 0.2
        step = 0.01
        tolerance = 0.03
        [[features]]
        name = "degree"
        kind = "ordinal"
        categories = ["none", "school", "university"]
        [[features]]
        name = "free"
        kind = "numeric"
        min = 0
        max = 1
        [[features]]
        name = "constant"
        kind = "numeric"
        min = 3
        max = 3
        step = 1
    "#;
    let schema = FeatureSchema::from_toml(cents).unwrap();
    let grids = |schema: &FeatureSchema| {
        schema.features().iter().map(FeatureSpec::grid).collect::<Vec<_>>()
    };
    let expected = [Some(1.0 / 30.0), Some(0.5), None, None];
    assert_eq!(grids(&schema), expected);
    assert_eq!(FeatureSchema::from_toml(&schema.to_toml().unwrap()).unwrap(), schema);
    let normalised = schema.normalised();
    assert_eq!(grids(&normalised), expected);
    assert!((normalised.features()[0].tolerance.unwrap() - 0.1).abs() < 1e-15);
    assert_eq!(FeatureSchema::from_toml(&normalised.to_toml().unwrap()).unwrap(), normalised);
    // An ordinal feature of a file that an earlier version normalised.
    let old =
        FeatureSpec { kind: FeatureKind::Ordinal, ..FeatureSpec::numeric("degree", 0.0, 1.0) };
    assert_eq!(old.grid(), None);
}

#[test]
fn a_scale_is_read_applied_and_written() {
    let text = r#"
        id = "id"
        [[features]]
        name = "income"
        kind = "numeric"
        min = 1
        max = 10000
        step = 1
        tolerance = 50
        scale = "log"
        [[features]]
        name = "debt"
        kind = "numeric"
        min = 0
        max = 80
        scale = { yeo_johnson = 0.5 }
        [[features]]
        name = "late"
        kind = "ordinal"
        min = 0
        max = 100
        scale = { quantiles = [0, 1, 5, 100] }
    "#;
    let schema = FeatureSchema::from_toml(text).unwrap();
    assert_eq!(FeatureSchema::from_toml(&schema.to_toml().unwrap()).unwrap(), schema);
    let [income, debt, late] = schema.features() else { panic!("three features") };
    for (feature, value, unit) in [
        (income, 1.0, 0.0),
        (income, 10.0, 0.25),
        (income, 10_000.0, 1.0),
        (debt, 15.0, 6.0 / 16.0),
        (debt, 80.0, 1.0),
        (late, 3.0, 0.5),
    ] {
        let name = &feature.name;
        assert!((feature.normalise(value) - unit).abs() < 1e-15, "{name} {value}");
        assert!((feature.in_units(unit) - value).abs() < 1e-11, "{name} {unit}");
    }
    assert_eq!((income.in_units(-0.5), income.in_units(1.5)), (1.0, 10_000.0));
    // Equal steps of the source are no grid of what the model takes.
    assert_eq!([income.grid(), late.grid()], [None, None]);
    let encodings = schema.encodings();
    assert_eq!(encodings[0], "1 to 10000, scale log");
    assert_eq!(encodings[1], "0 to 80, scale yeo_johnson 0.5");
    let normalised = schema.normalised();
    let specs = normalised.features();
    assert!(specs.iter().all(|f| (f.min, f.max, &f.scale) == (0.0, 1.0, &None)));
    assert_eq!((specs[0].tolerance, specs[0].step), (None, None));
}

#[test]
fn bad_schemas_are_refused() {
    let feature = |body: &str| format!("id = \"id\"\n[[features]]\nname = \"f\"\n{body}\n");
    let cases = [
        (feature("kind = \"numeric\"\nmin = 0\nmax = 1\nunit = \"m\""), "unknown field `unit`"),
        ("id = \"id\"\nrows = 3".into(), "unknown field `rows`"),
        (feature("kind = \"number\"\nmin = 0\nmax = 1"), "unknown variant `number`"),
        (feature("kind = \"numeric\"\nmin = 0"), "a numeric feature needs min and max"),
        (feature("kind = \"numeric\"\nmin = 2\nmax = 1"), "min is above max"),
        (feature("kind = \"numeric\"\nmin = 0\nmax = inf"), "not finite"),
        (feature("kind = \"numeric\"\nmin = nan\nmax = 1"), "not finite"),
        (feature("kind = \"numeric\"\nmin = -1.7e308\nmax = 1.7e308"), "not finite"),
        (feature("kind = \"numeric\"\nmin = 0\nmax = 1\nstep = 0"), "a finite number above 0"),
        (feature("kind = \"numeric\"\nmin = 0\nmax = 1\nstep = -0.5"), "a finite number above 0"),
        (feature("kind = \"numeric\"\nmin = 0\nmax = 1\nstep = nan"), "a finite number above 0"),
        (feature("kind = \"numeric\"\nmin = 0\nmax = 1\nstep = 0.3"), "does not divide the range"),
        (feature("kind = \"numeric\"\nmin = 0\nmax = 1\nstep = 3"), "does not divide the range"),
        (
            feature("kind = \"ordinal\"\nmin = 17.5\nmax = 98\nstep = 1"),
            "does not divide the range",
        ),
        (feature("kind = \"numeric\"\nmin = 1e15\nmax = 2e15\nstep = 0.01"), "too fine"),
        (feature("kind = \"numeric\"\nmin = 0\nmax = 1\ntolerance = 0"), "its tolerance must be"),
        (feature("kind = \"numeric\"\nmin = 0\nmax = 1\ntolerance = inf"), "its tolerance must be"),
        (feature("kind = \"numeric\"\nmin = 0\nmax = 1\nscale = \"log\""), "of numbers above 0"),
        (feature("kind = \"numeric\"\nmin = 0\nmax = 1\nscale = \"root\""), "unknown variant"),
        (
            feature("kind = \"numeric\"\nmin = 0\nmax = 9\nscale = { quantiles = [0, 5, 5, 9] }"),
            "must increase",
        ),
        (
            feature("kind = \"numeric\"\nmin = 1\nmax = 9\nscale = { box_cox = 1000 }"),
            "take another power",
        ),
        (feature("kind = \"binary\"\nscale = { yeo_johnson = 0 }"), "takes no scale"),
        (
            feature("kind = \"ordinal\"\ncategories = [\"a\", \"b\"]\nscale = \"log\""),
            "categories take no",
        ),
        (
            feature("kind = \"date\"\nmin = \"2020-01-01\"\nmax = \"2024-01-01\"\nscale = \"log\""),
            "a date counts in days",
        ),
        (feature("kind = \"binary\"\nstep = 1"), "takes no step"),
        (feature("kind = \"binary\"\ntolerance = 1"), "takes no tolerance"),
        (
            feature("kind = \"ordinal\"\ncategories = [\"a\", \"b\"]\nstep = 1"),
            "categories take no",
        ),
        (
            feature("kind = \"numeric\"\nmin = 0\nmax = 1\nmissing = 2"),
            "not a value of the feature",
        ),
        (feature("kind = \"binary\"\nmissing = 0.5"), "not a value of the feature"),
        (feature("kind = \"numeric\"\nmin = 0\nmax = 1\nmissing = \"a\""), "is a number"),
        (feature("kind = \"binary\"\ngroup = \"g\"\nmissing = 0"), "a column of a group"),
        (
            feature("kind = \"categorical\"\ncategories = [\"a\"]\nmissing = \"b\""),
            "not one of its categories",
        ),
        (
            feature("kind = \"ordinal\"\ncategories = [\"a\"]\nmissing = 1"),
            "not one of its categories",
        ),
        (feature("kind = \"categorical\""), "needs its categories"),
        (feature("kind = \"categorical\"\ncategories = [\"a\", \"a\"]"), "twice"),
        (
            feature("kind = \"categorical\"\ncategories = [\"a\", \"b\"]\nmin = 0"),
            "categories take no min",
        ),
        (feature("kind = \"binary\"\ncategories = [\"a\", \"b\"]"), "takes no categories"),
        (format!("{FULL}\n[[features]]\nname = \"age\"\nkind = \"binary\""), "declared twice"),
        (
            format!("{FULL}\n[[features]]\nname = \"job=clerk\"\nkind = \"binary\""),
            "declared twice",
        ),
        (format!("{FULL}\n[[features]]\nname = \"customer\"\nkind = \"binary\""), "declared twice"),
        (feature("kind = \"categorical\"\ncategories = [\"a\", \" b\"]"), "not a valid name"),
        ("id = \"\"".into(), "not a valid name"),
        ("id = \"\u{feff}id\"".into(), "a byte order mark"),
        ("id = \"a\"\n[label]\ncolumn = \"y\"\nclasses = [\"1\"]".into(), "1 classes"),
        ("id = \"a\"\n[label]\ncolumn = \"a\"\nclasses = [\"1\", \"2\"]".into(), "declared twice"),
    ];
    for (text, expected) in cases {
        let error = FeatureSchema::from_toml(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}\n→ {error}\nexpected: {expected}");
    }
}
