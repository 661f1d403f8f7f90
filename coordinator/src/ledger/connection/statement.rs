//! A statement with its parameters, for either engine.

/// A parameter of a statement.
#[derive(Clone, Copy)]
pub(crate) enum Arg<'a> {
    /// A value of SQL type BIGINT.
    Int(i64),
    /// A value of SQL type TEXT.
    Text(&'a str),
    /// A value of SQL type BYTEA.
    Bytes(&'a [u8]),
}

macro_rules! bound {
    ($sql:expr, $args:expr) => {{
        let mut query = sqlx::query($sql);
        for arg in $args {
            query = match *arg {
                Arg::Int(value) => query.bind(value),
                Arg::Text(value) => query.bind(value.to_owned()),
                Arg::Bytes(value) => query.bind(value.to_vec()),
            };
        }
        query
    }};
}
pub(super) use bound;
