//! The variants of the public sets: the columns that the papers take of the same files.
#![allow(clippy::unwrap_used)]

use vfl_datasets::{
    DataError, Dataset, DatasetName, DatasetSpec, Encoding, MeanOver, Variant, load,
};
use vfl_testing::data_set;

/// The spec of an included set.
fn spec(name: DatasetName) -> DatasetSpec {
    DatasetSpec::new(name, None, 7)
}

fn loaded(spec: &DatasetSpec) -> Dataset {
    load(spec).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn bank_has_three_column_sets() {
    let mut spec = spec(DatasetName::Bank);
    let text = loaded(&spec);
    let names = |set: &Dataset| set.features().iter().map(|f| f.name.clone()).collect::<Vec<_>>();
    assert!(
        !names(&text).contains(&"duration".into()) && names(&text).contains(&"campaign".into())
    );

    spec.variant = Variant::Authors;
    spec.encoding = Encoding::MeanLabel { over: MeanOver::AllRows };
    let authors = loaded(&spec);
    assert_eq!(authors.features().len(), 19);
    assert!(
        names(&authors).contains(&"duration".into())
            && !names(&authors).contains(&"campaign".into())
    );
    // The confidence index is a category there: its range is one of label means.
    let confidence = authors.features().iter().find(|f| f.name == "cons.conf.idx").unwrap();
    assert!((0.0..=1.0).contains(&confidence.min) && confidence.max <= 1.0);
    let plain = text.features().iter().find(|f| f.name == "cons.conf.idx").unwrap();
    assert_eq!((plain.min, plain.max), (-50.8, -26.9));
    // Counted with awk: 894 of the 1373 records whose last campaign succeeded are of class yes, the highest share.
    let outcome = authors.features().iter().find(|f| f.name == "poutcome").unwrap();
    assert!((outcome.max - 894.0 / 1373.0).abs() < 1e-12, "{}", outcome.max);

    spec.variant = Variant::All;
    spec.encoding = Encoding::Ordinal;
    let all = loaded(&spec);
    assert_eq!(
        (all.features().len(), names(&all)[10].as_str(), names(&all)[11].as_str()),
        (20, "duration", "campaign")
    );
}

/// The numbers that the papers print: V table I, J table 1, P section 5.2. There drive has 48 features and 11 classes. Drive is a
/// sample of 7475 of its 58 509 records beside the project.
#[test]
fn variants_are_as_wide_as_the_papers_say() {
    let test = "variants_are_as_wide_as_the_papers_say";
    // The set, its variant, columns, classes, records.
    let cases = [
        (DatasetName::Bank, Variant::WithoutDuration, 19, 2, 41188),
        (DatasetName::Bank, Variant::Authors, 19, 2, 41188),
        (DatasetName::Bank, Variant::All, 20, 2, 41188),
        (DatasetName::Adult, Variant::All, 14, 2, 48842),
        (DatasetName::Adult, Variant::WithoutEducation, 13, 2, 48842),
        (DatasetName::Grid, Variant::WithoutStab, 12, 2, 10000),
        (DatasetName::Grid, Variant::WithStab, 13, 2, 10000),
        (DatasetName::Drive, Variant::All, 48, 11, 7475),
    ];
    for (name, variant, columns, classes, records) in cases {
        assert_eq!(name.columns(variant), Some(columns), "{name} {variant}");
        let Some(mut spec) = data_set(name, 7, test) else { continue };
        spec.variant = variant;
        let set = loaded(&spec);
        assert_eq!(
            (set.variant(), set.columns(), set.features().len()),
            (variant, columns, columns),
            "{name} {variant}"
        );
        assert_eq!(
            (set.class_names().len(), set.records()),
            (classes, records),
            "{name} {variant}"
        );
        // Of the sets with several variants, all have categories but grid.
        if name != DatasetName::Drive && name != DatasetName::Grid {
            spec.encoding = Encoding::OneHot;
            let one_hot = loaded(&spec);
            assert!(
                one_hot.columns() == columns && one_hot.features().len() > columns,
                "{name} {variant}"
            );
        }
    }
    assert_eq!(DatasetName::Synthetic.columns(Variant::All), None);
    let mut spec = spec(DatasetName::Bank);
    spec.variant = Variant::WithStab;
    let error = load(&spec).unwrap_err();
    assert!(matches!(error, DataError::Variant(_)), "{error:?}");
    assert!(error.to_string().ends_with("it has: without_duration, authors, all"), "{error}");
}

/// The description of grid: unstable where the margin `stab` is above 0.
#[test]
fn the_sign_of_stab_is_the_class_of_every_record_of_grid() {
    let test = "the_sign_of_stab_is_the_class_of_every_record_of_grid";
    let Some(mut spec) = data_set(DatasetName::Grid, 7, test) else { return };
    let without = loaded(&spec);
    spec.variant = Variant::WithStab;
    let with = loaded(&spec);
    let stab = &with.features()[12];
    assert_eq!((stab.name.as_str(), with.class_names()[1].as_str()), ("stab", "unstable"));
    for (x, &label) in with.x().row(12).iter().zip(with.labels()) {
        let margin = stab.min + x * (stab.max - stab.min);
        assert_eq!(margin > 0.0, label == 1, "{margin:e}");
    }
    // Nothing else changes.
    assert_eq!(with.x().rows(0, 12), without.x().rows(0, 12));
    assert_eq!((with.labels(), with.split()), (without.labels(), without.split()));
}

/// V's 13 columns of adult as we read them: `education-num` says what `education` does, in every record.
#[test]
fn education_of_adult_is_a_copy() {
    let Some(mut spec) = data_set(DatasetName::Adult, 7, "education_of_adult_is_a_copy") else {
        return;
    };
    let all = loaded(&spec);
    let row = |set: &Dataset, name: &str| set.features().iter().position(|f| f.name == name);
    let (words, number) = (row(&all, "education").unwrap(), row(&all, "education-num").unwrap());
    let mut number_of = std::collections::HashMap::new();
    for x in all.x().column_iter() {
        let said = number_of.entry(x[words].to_bits()).or_insert(x[number]);
        assert_eq!(*said, x[number]);
    }
    assert_eq!(number_of.len(), 16);
    spec.variant = Variant::WithoutEducation;
    let some = loaded(&spec);
    assert!(row(&some, "education").is_none() && row(&some, "education-num").is_some());
    assert_ne!(some.data_hash(), all.data_hash());
}
