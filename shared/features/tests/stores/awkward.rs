//! Awkward tables: each store gives the same features, or the same refusal that names the problem.

use std::path::Path;
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
use vfl_core::data::{DecimalMark, Separator};
use vfl_core::types::RecordIds;
use vfl_features::stores::{
    DataConfig, ParquetConfig, PostgresConfig, SqliteConfig, TableFile, load_sqlite,
};

use crate::site::{ids, server};

/// The features of some records, or the words of a refusal.
type Expected = Result<&'static [f64], &'static str>;

async fn asked(config: &DataConfig, ids: &RecordIds) -> Result<Vec<f64>, String> {
    let features = config.open().map_err(|e| e.to_string())?;
    let found = features.lookup(ids).await.map_err(|e| e.to_string())?;
    match found.held.len() == ids.len() {
        true => Ok(found.block.matrix().as_slice().to_vec()),
        false => Err(format!("{} of {} records", found.held.len(), ids.len())),
    }
}

fn compare(what: &str, got: Result<Vec<f64>, String>, expected: Expected) {
    match (&got, expected) {
        (Ok(values), Ok(wanted)) if values == wanted => {}
        (Err(error), Err(words)) if error.contains(words) => {}
        _ => panic!("{what}: {got:?}, expected {expected:?}"),
    }
}

/// The age in years, from 0 to 100, and the job of a record.
const TABLE: &str = "id = \"id\"\n[[features]]\nname = \"age\"\nkind = \"numeric\"\nmin = 0\nmax = 100\n\
                     [[features]]\nname = \"job\"\nkind = \"categorical\"\ncategories = [\"clerk\", \"a,b;c\"]\n";

/// A form of a file, the same from CSV in memory and loaded into SQLite.
#[tokio::test(flavor = "multi_thread")]
async fn every_form_of_a_file_is_read_or_refused_by_name() {
    const SEMICOLON: (Option<Separator>, Option<DecimalMark>) = (Some(Separator::Semicolon), None);
    const COMMA: (Option<Separator>, Option<DecimalMark>) = (None, Some(DecimalMark::Comma));
    const BOTH: Expected = Ok(&[0.25, 1.0, 0.0, 0.5, 0.0, 1.0]);
    const PLAIN: (Option<Separator>, Option<DecimalMark>) = (None, None);
    let latin = b"id,age,job\na,25,cl\xe9rk\nb,50,clerk\n".as_slice();
    let utf16: Vec<u8> = "\u{feff}id,age\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let utf16_be: Vec<u8> = "\u{feff}id,age\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
    let cases: [(&str, &[u8], _, Expected); 38] = [
        ("plain", b"id,age,job\na,25,clerk\nb,50,\"a,b;c\"\n", PLAIN, BOTH),
        ("another order", b"job,id,age\nclerk,a,25\n\"a,b;c\",b,50\n", PLAIN, BOTH),
        ("byte order mark", b"\xef\xbb\xbfid,age,job\na,25,clerk\nb,50,\"a,b;c\"\n", PLAIN, BOTH),
        ("CRLF", b"id,age,job\r\na,25,clerk\r\nb,50,\"a,b;c\"\r\n", PLAIN, BOTH),
        ("no last line feed", b"id,age,job\na,25,clerk\nb,50,\"a,b;c\"", PLAIN, BOTH),
        ("blank lines", b"\nid,age,job\n\na,25,clerk\n  \nb,50,\"a,b;c\"\n\n", PLAIN, BOTH),
        ("semicolons", b"id;age;job\na;25;clerk\nb;50;\"a,b;c\"\n", PLAIN, BOTH),
        ("tabs", b"id\tage\tjob\na\t25\tclerk\nb\t50\ta,b;c\n", PLAIN, BOTH),
        ("bars", b"id|age|job\na|25|clerk\nb|50|a,b;c\n", PLAIN, BOTH),
        ("sep=", b"sep=;\r\nid;age;job\r\na;25;clerk\r\nb;50;\"a,b;c\"\r\n", PLAIN, BOTH),
        (
            "sep= after a mark",
            b"\xef\xbb\xbfsep=|\nid|age|job\na|25|clerk\nb|50|a,b;c\n",
            PLAIN,
            BOTH,
        ),
        (
            "a comma in the header",
            b"id;age;job;pay, monthly\na;25;clerk;1\n",
            PLAIN,
            Err("the schema does not declare"),
        ),
        ("a separator by option", b"id;age;job\na;25;clerk\nb;50;\"a,b;c\"\n", SEMICOLON, BOTH),
        ("another separator", b"id,age,job\na,25,clerk\n", SEMICOLON, Err("does not declare this")),
        ("decimal commas", b"id;age;job\na;25,0;clerk\nb;50;\"a,b;c\"\n", COMMA, BOTH),
        (
            "quoted decimal commas",
            b"id,age,job\na,\"25,0\",clerk\nb,\"5,e1\",\"a,b;c\"\n",
            COMMA,
            BOTH,
        ),
        ("decimal commas unsaid", b"id;age;job\na;25,0;clerk\nb;5;clerk\n", PLAIN, Err("decimal")),
        (
            "points unsaid",
            b"id;age;job\na;25.0;clerk\nb;5;clerk\n",
            COMMA,
            Err("decimal comma, as"),
        ),
        ("thousands", b"id;age;job\na;\"1,025.0\";clerk\nb;5;clerk\n", PLAIN, Err("not a number")),
        ("thousands by commas", b"id;age;job\na;1,025,0;clerk\n", COMMA, Err("not a number")),
        ("blanks", b" id , age,job \na, 25 ,clerk \nb,50,\"a,b;c\"\n", PLAIN, BOTH),
        ("UTF-16", &utf16, PLAIN, Err("UTF-16")),
        ("UTF-16 of another order", &utf16_be, PLAIN, Err("UTF-16")),
        ("Latin-1", latin, PLAIN, Err("line 2, column job: not UTF-8")),
        (
            "two carriage returns",
            b"id,age,job\r\r\na,25,clerk\r\r\nb,50,\"a,b;c\"\r\r\n",
            PLAIN,
            BOTH,
        ),
        ("returns, separator said", b"id;age\ra;25\r", SEMICOLON, Err("carriage returns alone")),
        (
            "files put together",
            b"id,age,job\na,25,clerk\n\xef\xbb\xbfid,age,job\nb,50,clerk\n",
            PLAIN,
            Err("line 3: the header is repeated"),
        ),
        (
            "blank fields of tabs",
            b"id\tage\tjob\na\t25\tclerk\n\t\t\n",
            PLAIN,
            Err("line 3, column"),
        ),
        ("carriage returns", b"id,age,job\ra,25,clerk\r", PLAIN, Err("carriage returns alone")),
        (
            "a separator at the end",
            b"id,age,job,\na,25,clerk,\n",
            PLAIN,
            Err("column 4 has no name"),
        ),
        ("an index", b",id,age,job\n0,a,25,clerk\n", PLAIN, Err("column 1 has no name")),
        ("no header", b"a,25,clerk\nb,50,clerk\n", PLAIN, Err("does not declare this column")),
        (
            "the header twice",
            b"id,age,job\na,25,clerk\nid,age,job\nb,50,clerk\n",
            PLAIN,
            Err("line 3: the header is repeated"),
        ),
        ("a column twice", b"id,age,age,job\na,25,25,clerk\n", PLAIN, Err("column twice")),
        (
            "an open quote",
            b"id,age,job\na,25,\"clerk\nb,50,clerk\n",
            PLAIN,
            Err("line 2: a quoted"),
        ),
        (
            "a line that is cut",
            b"id,age,job\na,25,clerk\nb,5",
            PLAIN,
            Err("line 3: 2 fields where"),
        ),
        ("no record", b"id,age,job\n", PLAIN, Err("there is no record")),
        ("nothing", b"", PLAIN, Err("the file is empty")),
    ];
    for (what, text, (separator, decimal), expected) in cases {
        let dir = tempfile::tempdir().unwrap();
        let (csv, schema) = (dir.path().join("x.csv"), dir.path().join("x.toml"));
        std::fs::write(&csv, text).unwrap();
        std::fs::write(&schema, TABLE).unwrap();
        let csv_config =
            DataConfig { csv: Some(csv.clone()), separator, decimal, ..DataConfig::of(&schema) };
        let wanted = ids(["a", "b"]);
        compare(what, asked(&csv_config, &wanted).await, expected);
        let sqlite = SqliteConfig::new(dir.path().join("x.sqlite"));
        let dialect =
            vfl_core::data::CsvDialect { separator, decimal: decimal.unwrap_or_default() };
        let file = TableFile { path: &csv, dialect };
        let declared = vfl_core::data::read_schema(&schema).unwrap();
        let loaded = match load_sqlite(&sqlite, &declared, file, false).await {
            Err(error) => Err(error.to_string()),
            Ok(_) => {
                let config = DataConfig { sqlite: Some(sqlite), ..DataConfig::of(&schema) };
                asked(&config, &wanted).await
            }
        };
        compare(&format!("{what}, loaded"), loaded, expected);
    }
}

/// A value of a Parquet file of one row.
enum ParquetValue {
    Text(&'static str),
    Double(f64),
    Int(i32),
    Long(i64),
    Null(&'static str),
}

use ParquetValue::{Double, Int, Long, Null, Text};

fn write_parquet(path: &Path, kind: &str, value: &ParquetValue) {
    let message = format!("message t {{ REQUIRED BYTE_ARRAY id (UTF8); OPTIONAL {kind}; }}");
    let schema = Arc::new(parse_message_type(&message).unwrap());
    let file = std::fs::File::create(path).unwrap();
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut id = group.next_column().unwrap().unwrap();
    id.typed::<ByteArrayType>().write_batch(&["a".into()], None, None).unwrap();
    id.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    macro_rules! put {
        ($kind:ty, $values:expr, $level:expr) => {
            column.typed::<$kind>().write_batch($values, Some(&[$level]), None).map(drop).unwrap()
        };
    }
    match value {
        Text(text) => put!(ByteArrayType, &[ByteArray::from(*text)], 1),
        Double(value) => put!(DoubleType, &[*value], 1),
        Int(value) => put!(Int32Type, &[*value], 1),
        Long(value) => put!(Int64Type, &[*value], 1),
        Null("DOUBLE") => put!(DoubleType, &[], 0),
        Null(_) => put!(ByteArrayType, &[], 0),
    }
    SerializedColumnWriter::close(column).unwrap();
    group.close().unwrap();
    writer.close().unwrap();
}

/// A value, in the forms that stores have for it.
struct Value {
    what: &'static str,
    /// The feature's kind, with its range or categories.
    feature: &'static str,
    /// The text of a file.
    csv: &'static str,
    /// Type and value of a Parquet file.
    parquet: (&'static str, ParquetValue),
    /// A literal of SQLite.
    sqlite: &'static str,
    /// Type and literal of PostgreSQL.
    postgres: (&'static str, &'static str),
    expected: Expected,
}

const NUMBER: &str = "kind = \"numeric\"\nmin = 0\nmax = 200";
const GAP: &str = "kind = \"numeric\"\nmin = 0\nmax = 200\nmissing = 50";
const TAIL: &str =
    "kind = \"numeric\"\nmin = 0\nmax = 200\nmissing = 10\nscale = { quantiles = [0, 10, 200] }";
const DATE: &str = "kind = \"date\"\nmin = \"2020-01-01\"\nmax = \"2020-01-11\"";
const DATE_GAP: &str =
    "kind = \"date\"\nmin = \"2020-01-01\"\nmax = \"2020-01-11\"\nmissing = \"2020-01-06\"";
const TRUTH: &str = "kind = \"binary\"";
const WORD: &str = "kind = \"ordinal\"\ncategories = [\"7\", \"NA\", \"x\"]\nother = \"x\"";
const STRICT: &str = "kind = \"ordinal\"\ncategories = [\"7\", \"NA\", \"x\"]";

fn values() -> Vec<Value> {
    let of = |what, feature, csv, parquet, sqlite, postgres, expected| Value {
        what,
        feature,
        csv,
        parquet,
        sqlite,
        postgres,
        expected,
    };
    let utf8 = "BYTE_ARRAY v (UTF8)";
    // The same text from every store.
    let text = |what, feature, text: &'static str, literal, expected| {
        of(what, feature, text, (utf8, Text(text)), literal, ("TEXT", literal), expected)
    };
    let finite = Err("not finite");
    vec![
        of(
            "a decimal",
            NUMBER,
            "12.5",
            ("DOUBLE v", Double(12.5)),
            "12.5",
            ("NUMERIC", "12.5"),
            Ok(&[0.0625]),
        ),
        of(
            "cents",
            NUMBER,
            "12.50",
            ("INT32 v (DECIMAL(9,2))", Int(1250)),
            "12.50",
            ("NUMERIC(9,2)", "12.50"),
            Ok(&[0.0625]),
        ),
        of(
            "a whole number",
            NUMBER,
            "50",
            ("INT32 v", Int(50)),
            "50",
            ("SMALLINT", "50"),
            Ok(&[0.25]),
        ),
        of("a long", NUMBER, "50", ("INT64 v", Long(50)), "50.0", ("BIGINT", "50"), Ok(&[0.25])),
        of("money", NUMBER, "50", ("DOUBLE v", Double(50.0)), "'50'", ("MONEY", "50"), Ok(&[0.25])),
        of(
            "NaN",
            NUMBER,
            "NaN",
            ("DOUBLE v", Double(f64::NAN)),
            "'NaN'",
            ("FLOAT8", "'NaN'"),
            finite,
        ),
        of(
            "NaN with a rule",
            GAP,
            "nan",
            ("DOUBLE v", Double(f64::NAN)),
            "'nan'",
            ("FLOAT8", "'NaN'"),
            Ok(&[0.25, 1.0]),
        ),
        of(
            "an infinity",
            NUMBER,
            "inf",
            ("DOUBLE v", Double(f64::INFINITY)),
            "9e999",
            ("FLOAT8", "'inf'"),
            finite,
        ),
        of(
            "NULL",
            NUMBER,
            "",
            ("DOUBLE v", Null("DOUBLE")),
            "NULL",
            ("FLOAT8", "NULL"),
            Err("(`missing` in the schema)"),
        ),
        of(
            "NULL with a rule",
            GAP,
            "",
            ("DOUBLE v", Null("DOUBLE")),
            "NULL",
            ("INT", "NULL"),
            Ok(&[0.25, 1.0]),
        ),
        of(
            "a long tail",
            TAIL,
            "105",
            ("DOUBLE v", Double(105.0)),
            "105",
            ("NUMERIC", "105.0"),
            Ok(&[0.75, 0.0]),
        ),
        of(
            "no value of a long tail",
            TAIL,
            "",
            ("DOUBLE v", Null("DOUBLE")),
            "NULL",
            ("FLOAT8", "NULL"),
            Ok(&[0.5, 1.0]),
        ),
        of("a truth", TRUTH, "TRUE", ("INT32 v", Int(1)), "'yes'", ("BOOL", "true"), Ok(&[1.0])),
        of(
            "a date",
            DATE,
            "2020-01-06",
            ("INT32 v (DATE)", Int(18_267)),
            "'2020-01-06'",
            ("DATE", "'2020-01-06'"),
            Ok(&[0.5]),
        ),
        of(
            "a time",
            DATE,
            "2020-01-06T11:00:00Z",
            ("INT64 v (TIMESTAMP(MILLIS,true))", Long(18_267 * 86_400_000 + 39_600_000)),
            "'2020-01-06 11:00:00'",
            ("TIMESTAMPTZ", "'2020-01-06 12:00:00+01'"),
            Ok(&[0.5]),
        ),
        of(
            "no date",
            DATE_GAP,
            " ",
            ("BYTE_ARRAY v (UTF8)", Null("")),
            "NULL",
            ("DATE", "NULL"),
            Ok(&[0.5, 1.0]),
        ),
        of("a coded word", STRICT, "7", ("INT32 v", Int(7)), "7", ("INT", "7"), Ok(&[0.0])),
        of(
            "char(n)",
            STRICT,
            "x  ",
            ("BYTE_ARRAY v", Text("x  ")),
            "'x  '",
            ("CHAR(9)", "'x'"),
            Ok(&[1.0]),
        ),
        text("leading zeros", NUMBER, "0050", "'0050'", Ok(&[0.25])),
        text("an exponent", NUMBER, " 5E+1 ", "' 5E+1 '", Ok(&[0.25])),
        text("past a double", NUMBER, "1e400", "'1e400'", finite),
        text("thousands", NUMBER, "1,025", "'1,025'", Err("not a number")),
        text("a currency", NUMBER, "$50", "'$50'", Err("not a number")),
        text("a currency behind", NUMBER, "50 EUR", "'50 EUR'", Err("not a number")),
        text("a percentage", NUMBER, "50%", "'50%'", Err("not a number")),
        text("NA", NUMBER, "NA", "'NA'", Err("stands for a missing value")),
        text("NA with a rule", GAP, "NA", "'NA'", Ok(&[0.25, 1.0])),
        text("n/a", GAP, "n/a", "'n/a'", Ok(&[0.25, 1.0])),
        text("NULL as text", GAP, "NULL", "'NULL'", Ok(&[0.25, 1.0])),
        text("a dash", GAP, "-", "'-'", Ok(&[0.25, 1.0])),
        text("a question mark", GAP, "?", "'?'", Ok(&[0.25, 1.0])),
        text("a word with a rule", GAP, "old", "'old'", Err("not a number")),
        text("an infinity with a rule", GAP, "-inf", "'-inf'", finite),
        text("a total row", NUMBER, "1025", "'1025'", Err("outside its declared range 0 to 200")),
        text("yes", TRUTH, "Yes", "'Yes'", Ok(&[1.0])),
        text("no", TRUTH, " n", "' n'", Ok(&[0.0])),
        text("neither", TRUTH, "2", "'2'", Err("a binary feature is 0 or 1")),
        text("day before month", DATE, "06.01.2020", "'06.01.2020'", Err("YYYY-MM-DD")),
        text("month before day", DATE, "01/06/2020", "'01/06/2020'", Err("YYYY-MM-DD")),
        text("a date that is none", DATE, "2020-02-30", "'2020-02-30'", Err("YYYY-MM-DD")),
        text("NA for a date", DATE_GAP, "NA", "'NA'", Ok(&[0.5, 1.0])),
        text("NA of a list", STRICT, "NA", "'NA'", Ok(&[0.5])),
        text("a word outside", STRICT, "y", "'y'", Err("not one of the 3 declared categories")),
        text("a word of the rest", WORD, "y", "'y'", Ok(&[1.0])),
        text("no word of the rest", WORD, " ", "' '", Err("the field is empty")),
        text("another case", STRICT, "X", "'X'", Err("not one of the 3 declared categories")),
    ]
}

/// A value, in memory and on disk, in both databases.
#[tokio::test(flavor = "multi_thread")]
async fn every_form_of_a_value_is_the_same_in_every_store() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let schema = path("x.toml");
    let wanted = ids(["a"]);
    let server = server();
    let scratch = format!("awkward_{:016x}", rand::random_range(0..u64::MAX));
    let values = values();
    let url = format!("sqlite:{}?mode=rwc", path("x.sqlite").display());
    let mut sqlite = SqliteConnection::connect(&url).await.unwrap();
    let mut admin = match &server {
        Some(server) => {
            let mut admin = PgConnection::connect(server).await.unwrap();
            let create = AssertSqlSafe(format!("CREATE SCHEMA {scratch}"));
            sqlx::query(create).execute(&mut admin).await.unwrap();
            Some(admin)
        }
        None => None,
    };
    for (at, Value { what, feature, csv, parquet, sqlite: literal, postgres, expected }) in
        values.iter().enumerate()
    {
        std::fs::write(&schema, format!("id = \"id\"\n[[features]]\nname = \"v\"\n{feature}\n"))
            .unwrap();
        let of = DataConfig::of(&schema);
        std::fs::write(path("x.csv"), format!("id,v\na,\"{csv}\"\n")).unwrap();
        let config = DataConfig { csv: Some(path("x.csv")), ..of.clone() };
        compare(&format!("{what}, CSV"), asked(&config, &wanted).await, *expected);
        write_parquet(&path("x.parquet"), parquet.0, &parquet.1);
        for memory in [true, false] {
            let parquet = ParquetConfig { memory, ..ParquetConfig::new(path("x.parquet")) };
            let config = DataConfig { parquet: Some(parquet), ..of.clone() };
            let got = asked(&config, &wanted).await;
            compare(&format!("{what}, Parquet, in memory: {memory}"), got, *expected);
        }
        let table = format!("t{at}");
        for statement in [
            format!("CREATE TABLE {table} (id TEXT PRIMARY KEY, v)"),
            format!("INSERT INTO {table} VALUES ('a', {literal})"),
        ] {
            sqlx::query(AssertSqlSafe(statement)).execute(&mut sqlite).await.unwrap();
        }
        let file = SqliteConfig { table: table.clone(), ..SqliteConfig::new(path("x.sqlite")) };
        let config = DataConfig { sqlite: Some(file), ..of.clone() };
        compare(&format!("{what}, SQLite"), asked(&config, &wanted).await, *expected);
        let (Some(server), Some(admin)) = (&server, &mut admin) else { continue };
        for statement in [
            format!("CREATE TABLE {scratch}.{table} (id TEXT PRIMARY KEY, v {})", postgres.0),
            format!("INSERT INTO {scratch}.{table} VALUES ('a', {})", postgres.1),
        ] {
            sqlx::query(AssertSqlSafe(statement)).execute(&mut *admin).await.unwrap();
        }
        let store = PostgresConfig::new(server, format!("{scratch}.{table}"));
        let config = DataConfig { postgres: Some(store), ..of };
        compare(&format!("{what}, PostgreSQL"), asked(&config, &wanted).await, *expected);
    }
    if let Some(mut admin) = admin {
        let drop = AssertSqlSafe(format!("DROP SCHEMA {scratch} CASCADE"));
        sqlx::query(drop).execute(&mut admin).await.unwrap();
    }
}

/// Ids are text: what is written otherwise is another id, and the same one twice is refused.
#[tokio::test(flavor = "multi_thread")]
async fn ids_are_compared_as_they_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let (csv, schema) = (dir.path().join("x.csv"), dir.path().join("x.toml"));
    let features = "[[features]]\nname = \"v\"\nkind = \"numeric\"\nmin = 0\nmax = 1\n";
    std::fs::write(&schema, format!("id = \"id\"\n{features}")).unwrap();
    let config = DataConfig { csv: Some(csv.clone()), ..DataConfig::of(&schema) };
    for (rows, asked_id, expected) in [
        ("007,1\n7,0\n", "007", Ok(&[1.0][..])),
        ("123.0,1\n", "123", Err("0 of 1 records")),
        ("1E+05,1\n", "100000", Err("0 of 1 records")),
        ("\"a;b\",1\n", "a;b", Ok(&[1.0])),
        ("a,1\na,0\n", "a", Err("line 3, column id: an earlier line has the same record id")),
        (",1\n", "a", Err("line 2, column id: record id at position 0 is empty")),
    ] {
        std::fs::write(&csv, format!("id,v\n{rows}")).unwrap();
        compare(rows, asked(&config, &ids([asked_id])).await, expected);
    }
}
