//! The formats of the public data sets: files, columns, classes. The facts are from the sets' own
//! descriptions.

use vfl_core::data::schema::FeatureKind;

use super::names::DatasetName;
use super::split::Part;
use super::variant::Variant;

pub(super) struct Source {
    /// Alternatives, each a list of files that belong together; the first complete one is read.
    pub(super) files: &'static [&'static [(&'static str, Option<Part>)]],
    pub(super) delimiter: Delimiter,
    pub(super) header: Header,
    /// All columns but the last, which is the label.
    pub(super) columns: Vec<Column>,
    /// The label column's name, where there is a header.
    pub(super) label: &'static str,
    /// The classes in the order that numbers them.
    pub(super) classes: &'static [Class],
}

#[derive(Clone, Copy)]
pub(super) enum Delimiter {
    Blank,
    CommaOrBlank,
    Char(char),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Header {
    None,
    /// A line of column names, which must be the expected ones.
    Named,
    /// An optional first line that starts with `|` and holds no data.
    Comment,
}

pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: ColumnKind,
}

#[derive(Clone, Copy)]
pub(super) enum ColumnKind {
    Number(FeatureKind),
    /// Categories. The list is the natural order of some or all of them, which come first.
    Category(&'static [&'static str]),
    Drop,
}

/// A class as the file spells it, and its name.
pub(super) struct Class {
    pub(super) raw: &'static str,
    pub(super) name: &'static str,
}

macro_rules! classes {
    ($($raw:literal => $name:literal),+ $(,)?) => { &[$(Class { raw: $raw, name: $name }),+] };
}

const NUMERIC: ColumnKind = ColumnKind::Number(FeatureKind::Numeric);
const ORDINAL: ColumnKind = ColumnKind::Number(FeatureKind::Ordinal);
const BINARY: ColumnKind = ColumnKind::Number(FeatureKind::Binary);
const CATEGORY: ColumnKind = ColumnKind::Category(&[]);

/// Returns the description of a public set of text in a variant that the caller has checked; `None`
/// for the synthetic set and images.
pub(super) fn source(name: DatasetName, variant: Variant) -> Option<Source> {
    Some(match name {
        DatasetName::Synthetic
        | DatasetName::Mnist
        | DatasetName::Cifar10
        | DatasetName::Cifar100 => return None,
        DatasetName::Satellite => satellite(),
        DatasetName::Robot => robot(),
        DatasetName::Bank => bank(variant),
        DatasetName::Adult => adult(variant),
        DatasetName::Pendigits => pendigits(),
        DatasetName::Grid => grid(variant),
        DatasetName::Credit => credit(),
        DatasetName::Drive => drive(),
    })
}

impl DatasetName {
    /// Returns the number of columns that describe a record in a variant, each counted once
    /// whatever its encoding; `None` for images and the synthetic set.
    #[must_use]
    pub fn columns(self, variant: Variant) -> Option<usize> {
        let source = source(self, variant)?;
        Some(
            source.columns.iter().filter(|column| !matches!(column.kind, ColumnKind::Drop)).count(),
        )
    }
}

fn column((name, kind): (&str, ColumnKind)) -> Column {
    Column { name: name.to_owned(), kind }
}

fn numbered(count: usize, name: impl Fn(usize) -> String) -> Vec<Column> {
    (0..count).map(|i| Column { name: name(i), kind: NUMERIC }).collect()
}

fn satellite() -> Source {
    Source {
        files: &[&[("sat.trn", Some(Part::Train)), ("sat.tst", Some(Part::Test))]],
        delimiter: Delimiter::Blank,
        header: Header::None,
        // Nine pixels of a 3 × 3 neighbourhood, row by row, each with its four spectral bands.
        columns: numbered(36, |i| format!("pixel{}_band{}", i / 4 + 1, i % 4 + 1)),
        label: "",
        classes: classes!("1" => "red soil", "2" => "cotton crop", "3" => "grey soil", "4" => "damp grey soil",
            "5" => "vegetation stubble", "7" => "very damp grey soil"),
    }
}

fn robot() -> Source {
    Source {
        files: &[&[("sensor_readings_24.data", None)]],
        delimiter: Delimiter::Char(','),
        header: Header::None,
        columns: numbered(24, |i| format!("us{}", i + 1)),
        label: "",
        classes: classes!("Slight-Right-Turn" => "Slight-Right-Turn", "Move-Forward" => "Move-Forward",
            "Sharp-Right-Turn" => "Sharp-Right-Turn", "Slight-Left-Turn" => "Slight-Left-Turn"),
    }
}

fn bank(variant: Variant) -> Source {
    const EDUCATION: &[&str] = &[
        "illiterate",
        "basic.4y",
        "basic.6y",
        "basic.9y",
        "high.school",
        "professional.course",
        "university.degree",
        "unknown",
    ];
    const MONTHS: &[&str] =
        &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let (duration, campaign, confidence) = match variant {
        Variant::All => (NUMERIC, NUMERIC, NUMERIC),
        Variant::Authors => (NUMERIC, ColumnKind::Drop, CATEGORY),
        _ => (ColumnKind::Drop, NUMERIC, NUMERIC),
    };
    let columns = [
        ("age", NUMERIC),
        ("job", CATEGORY),
        ("marital", CATEGORY),
        ("education", ColumnKind::Category(EDUCATION)),
        ("default", CATEGORY),
        ("housing", CATEGORY),
        ("loan", CATEGORY),
        ("contact", CATEGORY),
        ("month", ColumnKind::Category(MONTHS)),
        ("day_of_week", ColumnKind::Category(&["mon", "tue", "wed", "thu", "fri"])),
        ("duration", duration),
        ("campaign", campaign),
        ("pdays", NUMERIC),
        ("previous", NUMERIC),
        ("poutcome", CATEGORY),
        ("emp.var.rate", NUMERIC),
        ("cons.price.idx", NUMERIC),
        ("cons.conf.idx", confidence),
        ("euribor3m", NUMERIC),
        ("nr.employed", NUMERIC),
    ];
    Source {
        files: &[&[("bank-additional-full.csv", None)]],
        delimiter: Delimiter::Char(';'),
        header: Header::Named,
        columns: columns.map(column).into(),
        label: "y",
        classes: classes!("no" => "no", "yes" => "yes"),
    }
}

fn adult(variant: Variant) -> Source {
    let education = if variant == Variant::WithoutEducation { ColumnKind::Drop } else { CATEGORY };
    let columns = [
        ("age", NUMERIC),
        ("workclass", CATEGORY),
        ("fnlwgt", NUMERIC),
        ("education", education),
        ("education-num", ORDINAL),
        ("marital-status", CATEGORY),
        ("occupation", CATEGORY),
        ("relationship", CATEGORY),
        ("race", CATEGORY),
        ("sex", CATEGORY),
        ("capital-gain", NUMERIC),
        ("capital-loss", NUMERIC),
        ("hours-per-week", NUMERIC),
        ("native-country", CATEGORY),
    ];
    Source {
        files: &[&[("adult.data", Some(Part::Train)), ("adult.test", Some(Part::Test))]],
        delimiter: Delimiter::Char(','),
        header: Header::Comment,
        columns: columns.map(column).into(),
        label: "",
        // The test file ends its labels in a dot, which the reader takes off.
        classes: classes!("<=50K" => "<=50K", ">50K" => ">50K"),
    }
}

fn pendigits() -> Source {
    Source {
        files: &[&[("pendigits.tra", Some(Part::Train)), ("pendigits.tes", Some(Part::Test))]],
        delimiter: Delimiter::Char(','),
        header: Header::None,
        columns: numbered(16, |i| format!("{}{}", ['x', 'y'][i % 2], i / 2 + 1)),
        label: "",
        classes: classes!("0" => "0", "1" => "1", "2" => "2", "3" => "3", "4" => "4", "5" => "5", "6" => "6",
            "7" => "7", "8" => "8", "9" => "9"),
    }
}

fn grid(variant: Variant) -> Source {
    let stab = if variant == Variant::WithStab { NUMERIC } else { ColumnKind::Drop };
    let names = ["tau1", "tau2", "tau3", "tau4", "p1", "p2", "p3", "p4", "g1", "g2", "g3", "g4"];
    let mut columns: Vec<Column> = names.map(|name| column((name, NUMERIC))).into();
    columns.push(column(("stab", stab)));
    Source {
        files: &[&[("Data_for_UCI_named.csv", None)]],
        delimiter: Delimiter::Char(','),
        header: Header::Named,
        columns,
        label: "stabf",
        classes: classes!("stable" => "stable", "unstable" => "unstable"),
    }
}

fn credit() -> Source {
    // Education, marriage and the repayment states are codes written as numbers; J and Luo et al.
    // use them as numbers.
    let columns = [
        ("ID", ColumnKind::Drop),
        ("LIMIT_BAL", NUMERIC),
        ("SEX", BINARY),
        ("EDUCATION", ORDINAL),
        ("MARRIAGE", ORDINAL),
        ("AGE", NUMERIC),
        ("PAY_0", ORDINAL),
        ("PAY_2", ORDINAL),
        ("PAY_3", ORDINAL),
        ("PAY_4", ORDINAL),
        ("PAY_5", ORDINAL),
        ("PAY_6", ORDINAL),
        ("BILL_AMT1", NUMERIC),
        ("BILL_AMT2", NUMERIC),
        ("BILL_AMT3", NUMERIC),
        ("BILL_AMT4", NUMERIC),
        ("BILL_AMT5", NUMERIC),
        ("BILL_AMT6", NUMERIC),
        ("PAY_AMT1", NUMERIC),
        ("PAY_AMT2", NUMERIC),
        ("PAY_AMT3", NUMERIC),
        ("PAY_AMT4", NUMERIC),
        ("PAY_AMT5", NUMERIC),
        ("PAY_AMT6", NUMERIC),
    ];
    Source {
        files: &[&[("UCI_Credit_Card.csv", None)]],
        delimiter: Delimiter::Char(','),
        header: Header::Named,
        columns: columns.map(column).into(),
        label: "default.payment.next.month",
        classes: classes!("0" => "no default", "1" => "default"),
    }
}

fn drive() -> Source {
    const SAMPLES: &[(&str, Option<Part>)] =
        &[("sensorless_subset_5500.csv", None), ("sensorless_subset_extra_1975.csv", None)];
    Source {
        // The whole set, separated by blanks, or else the samples of it, separated by commas.
        files: &[&[("Sensorless_drive_diagnosis.txt", None)], SAMPLES],
        delimiter: Delimiter::CommaOrBlank,
        header: Header::None,
        columns: numbered(48, |i| format!("f{:02}", i + 1)),
        label: "",
        classes: classes!("1" => "1", "2" => "2", "3" => "3", "4" => "4", "5" => "5", "6" => "6", "7" => "7",
            "8" => "8", "9" => "9", "10" => "10", "11" => "11"),
    }
}
