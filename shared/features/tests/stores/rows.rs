//! The records of the tests.

/// A record with raw values; `None` is NULL.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) income: Option<f64>,
    pub(crate) phone: Option<bool>,
    pub(crate) degree: Option<String>,
    pub(crate) job: Option<String>,
    pub(crate) outcome: Option<String>,
}

pub(crate) const SCHEMA: &str = r#"
    id = "customer id"
    [label]
    column = "outcome"
    classes = ["no", "yes"]
    [[features]]
    name = "income"
    kind = "numeric"
    min = -1
    max = 2
    [[features]]
    name = "phone"
    kind = "binary"
    [[features]]
    name = "degree"
    kind = "ordinal"
    categories = ["none", "school", "university"]
    [[features]]
    name = "Job"
    kind = "categorical"
    categories = ["clerk", "a \"b\", c", "unknown"]
"#;

pub(crate) const NAMES: [&str; 6] = ["customer id", "income", "phone", "degree", "Job", "outcome"];

/// Record number `i`, with values that no short decimal gives.
pub(crate) fn row(i: usize) -> Row {
    let pick = |from: &[&str]| Some(from[i % from.len()].to_owned());
    Row {
        id: format!("r{i}"),
        income: Some((i as f64 * 0.7).sin() + 1.0 / 3.0),
        phone: Some(i.is_multiple_of(3)),
        degree: pick(&["none", "school", "university"]),
        job: pick(&["clerk", "a \"b\", c", "unknown"]),
        outcome: pick(&["no", "yes"]),
    }
}

pub(crate) fn rows(n: usize) -> Vec<Row> {
    (0..n).map(row).collect()
}

/// The rows as CSV; NULL as an empty field.
pub(crate) fn csv(rows: &[Row]) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut out = NAMES.map(quoted).join(",") + "\n";
    for row in rows {
        let text = |value: &Option<String>| value.as_deref().map(quoted).unwrap_or_default();
        let income = row.income.map(|v| v.to_string()).unwrap_or_default();
        let phone = row.phone.map(|v| u8::from(v).to_string()).unwrap_or_default();
        let fields =
            [quoted(&row.id), income, phone, text(&row.degree), text(&row.job), text(&row.outcome)];
        out += &(fields.join(",") + "\n");
    }
    out
}
