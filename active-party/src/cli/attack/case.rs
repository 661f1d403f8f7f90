//! The parts that case files of all kinds share: the kind, and matrices and records in JSON.

use nalgebra::{DMatrix, DVector};
use serde::Deserialize;
use vfl_attack::Method;

/// The kind of a case, which says what there is to attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Records of a model whose parameters are known.
    Attack,
    /// The values of one feature of a model whose parameters are unknown.
    OneFeature,
    /// Auxiliary records from which the parameters are estimated.
    ShadowModel,
}

/// The fields of a case that say how to read the rest.
#[derive(Deserialize)]
struct CaseHeader {
    schema: u32,
    kind: String,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Attack, Self::OneFeature, Self::ShadowModel];

    fn as_str(self) -> &'static str {
        match self {
            Self::Attack => "attack",
            Self::OneFeature => "one_feature",
            Self::ShadowModel => "shadow_model",
        }
    }

    /// Reads the kind from the text of a case file.
    pub(super) fn of(text: &str) -> Result<Self, String> {
        let head: CaseHeader =
            serde_json::from_str(text).map_err(|e| vfl_core::json::json_error(&e))?;
        if head.schema != 1 {
            return Err(format!("`schema` is {}, expected schema 1", head.schema));
        }
        Self::ALL.into_iter().find(|kind| kind.as_str() == head.kind).ok_or_else(|| {
            let kind: String = head.kind.chars().take(80).collect();
            format!(
                "`kind` is {kind:?}, expected one of: {}",
                Self::ALL.map(Self::as_str).join(", ")
            )
        })
    }

    /// Returns the kind whose own method has this name; `None` for the names of attacks.
    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::OneFeature, Self::ShadowModel].into_iter().find(|kind| kind.as_str() == name)
    }

    /// Parses the names of the attacks to run on records. There must be at least one.
    pub(super) fn methods(self, names: &[impl AsRef<str>]) -> Result<Vec<Method>, String> {
        if names.is_empty() {
            let all = Method::on_one_release()
                .chain(Method::informed())
                .map(Method::as_str)
                .collect::<Vec<_>>()
                .join(", ");
            return Err(format!(
                "a case of kind {:?} needs the name of an attack (--attack): {all}",
                self.as_str()
            ));
        }
        let method = |name: &str| {
            name.parse::<Method>().map_err(|unknown| match Self::named(name) {
                Some(kind) => {
                    format!(
                        "{0} runs on a case of kind {0:?}, this is one of kind {1:?}",
                        kind.as_str(),
                        self.as_str()
                    )
                }
                None => unknown.to_string(),
            })
        };
        names.iter().map(|name| method(name.as_ref())).collect()
    }

    /// Checks that no method is named except the kind's own.
    pub(super) fn own_method(self, names: &[impl AsRef<str>]) -> Result<(), String> {
        let own = self.as_str();
        match names.iter().map(AsRef::as_ref).find(|name| *name != own) {
            None => Ok(()),
            Some(other) => {
                let other: String = other.chars().take(80).collect();
                Err(format!(
                    "a case of kind {own:?} has one method, {own}, and {other:?} was asked for"
                ))
            }
        }
    }
}

/// Reads the adversary's part of a model: W_act (k × d_act) and b (k). k is at least 2, and all
/// values are finite.
pub(super) fn own_parameters(
    w_act: &[Vec<f64>],
    b: Vec<f64>,
) -> Result<(DMatrix<f64>, DVector<f64>), String> {
    if b.len() < 2 {
        return Err(format!(
            "`b` has {} entries, a model has at least 2 classes (binary is k = 2)",
            b.len()
        ));
    }
    if !b.iter().all(|v| v.is_finite()) {
        return Err("`b` holds a value that is not finite".into());
    }
    Ok((weights("w_act", b.len(), w_act)?, DVector::from_vec(b)))
}

/// Reads a matrix of k rows, one per class.
pub(super) fn weights(name: &str, k: usize, rows: &[Vec<f64>]) -> Result<DMatrix<f64>, String> {
    if rows.len() != k {
        return Err(format!("`{name}` has {} rows, `b` says there are {k} classes", rows.len()));
    }
    let d = rows[0].len();
    if let Some(at) = rows.iter().position(|row| row.len() != d) {
        return Err(format!(
            "row {at} of `{name}` has {} columns, the first has {d}",
            rows[at].len()
        ));
    }
    if !rows.iter().flatten().all(|v| v.is_finite()) {
        return Err(format!("`{name}` holds a value that is not finite"));
    }
    Ok(DMatrix::from_row_iterator(k, d, rows.iter().flatten().copied()))
}

/// Reads a matrix with one column of d values per record.
pub(super) fn columns<'a>(
    name: &str,
    d: usize,
    records: impl ExactSizeIterator<Item = &'a Vec<f64>>,
) -> Result<DMatrix<f64>, String> {
    let n = records.len();
    let mut values = Vec::with_capacity(d * n);
    for (at, record) in records.enumerate() {
        if record.len() != d {
            return Err(format!(
                "`{name}` of record {at} has {} entries, expected {d}",
                record.len()
            ));
        }
        if !record.iter().all(|v| v.is_finite()) {
            return Err(format!("`{name}` of record {at} holds a value that is not finite"));
        }
        values.extend_from_slice(record);
    }
    Ok(DMatrix::from_vec(d, n, values))
}
