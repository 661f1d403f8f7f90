//! Makes the rows of `scripts/bulk.sh`, in bounded memory: a passive party's in a Parquet file, an active party's in CSV, and lists of
//! record ids.
//!
//! ```text
//! bulk_rows ROWS DIR      passive.parquet, active.csv, their schemas, in-order.ids and random.ids in DIR
//! bulk_rows ROWS --csv    the passive party's rows on standard output
//! ```
#![allow(missing_docs)]

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::index::sample;

/// Features of the passive party; the active party has one more.
const FEATURES: u64 = 10;
/// Rows of a row group, as writers make them.
const GROUP: usize = 1 << 20;
/// The most ids of a list.
const LISTED: usize = 1_000_000;

fn id(row: usize) -> String {
    format!("r{row:08}")
}

/// A number in [0, 1) that looks drawn (SplitMix64), the same each time.
fn value(row: usize, column: u64) -> f64 {
    let mut z = (row as u64 * 16 + column + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// Depends on features of both parties in four of five rows: a training of classes that features tell without an error ends early.
fn label(row: usize) -> &'static str {
    let passive = value(row, 0) + value(row, 1) - value(row, 2);
    let told = value(row, FEATURES + 1) >= 0.2;
    if (passive + 2.0 * value(row, FEATURES) > 1.5) == told { "yes" } else { "no" }
}

fn parquet(path: &Path, rows: usize) -> Result<(), Box<dyn Error>> {
    let features: String = (0..FEATURES).map(|at| format!("REQUIRED DOUBLE f{at}; ")).collect();
    let kind = parse_message_type(&format!(
        "message rows {{ REQUIRED BYTE_ARRAY id (UTF8); {features}}}"
    ))?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let file = File::create(path)?;
    let mut writer = SerializedFileWriter::new(file, Arc::new(kind), Arc::new(properties))?;
    for from in (0..rows).step_by(GROUP) {
        let to = (from + GROUP).min(rows);
        let mut group = writer.next_row_group()?;
        let mut at = 0;
        while let Some(mut column) = group.next_column()? {
            for part in (from..to).step_by(1 << 14) {
                let part = part..(part + (1 << 14)).min(to);
                if at == 0 {
                    let ids: Vec<ByteArray> =
                        part.map(|row| ByteArray::from(id(row).into_bytes())).collect();
                    column.typed::<ByteArrayType>().write_batch(&ids, None, None)?;
                } else {
                    let values: Vec<f64> = part.map(|row| value(row, at - 1)).collect();
                    column.typed::<DoubleType>().write_batch(&values, None, None)?;
                }
            }
            column.close()?;
            at += 1;
        }
        group.close()?;
    }
    writer.close()?;
    Ok(())
}

fn csv(out: &mut dyn Write, rows: usize) -> std::io::Result<()> {
    let names: Vec<String> = (0..FEATURES).map(|at| format!("f{at}")).collect();
    writeln!(out, "id,{}", names.join(","))?;
    for row in 0..rows {
        write!(out, "{}", id(row))?;
        (0..FEATURES).try_for_each(|at| write!(out, ",{}", value(row, at)))?;
        writeln!(out)?;
    }
    out.flush()
}

fn schema(path: &Path, head: &str, features: &[String]) -> std::io::Result<()> {
    let feature = |name: &String| {
        format!("[[features]]\nname = \"{name}\"\nkind = \"numeric\"\nmin = 0.0\nmax = 1.0\n")
    };
    std::fs::write(
        path,
        format!("id = \"id\"\n{head}{}", features.iter().map(feature).collect::<String>()),
    )
}

fn all(dir: &Path, rows: usize) -> Result<(), Box<dyn Error>> {
    parquet(&dir.join("passive.parquet"), rows)?;
    let names: Vec<String> = (0..FEATURES).map(|at| format!("f{at}")).collect();
    schema(&dir.join("passive.schema.toml"), "", &names)?;
    let label_table = "[label]\ncolumn = \"label\"\nclasses = [\"no\", \"yes\"]\n";
    schema(&dir.join("active.schema.toml"), label_table, &["a".to_owned()])?;
    let mut active = BufWriter::new(File::create(dir.join("active.csv"))?);
    writeln!(active, "id,a,label")?;
    for row in 0..rows {
        writeln!(active, "{},{},{}", id(row), value(row, FEATURES), label(row))?;
    }
    active.flush()?;
    let list = |name: &str, rows: &mut dyn Iterator<Item = usize>| {
        let mut out = BufWriter::new(File::create(dir.join(name))?);
        for row in rows {
            writeln!(out, "{}", id(row))?;
        }
        out.flush()
    };
    let listed = rows.min(LISTED);
    list("in-order.ids", &mut (0..listed))?;
    list("random.ids", &mut sample(&mut StdRng::seed_from_u64(7), rows, listed).into_iter())?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rows, place] = &arguments[..] else {
        return Err("usage: bulk_rows ROWS DIR, or bulk_rows ROWS --csv".into());
    };
    let rows: usize = rows.parse()?;
    if !(1..=99_999_999).contains(&rows) {
        return Err("ROWS is from 1 to 99999999".into());
    }
    match place.as_str() {
        "--csv" => Ok(csv(&mut BufWriter::new(std::io::stdout().lock()), rows)?),
        dir => all(Path::new(dir), rows),
    }
}
