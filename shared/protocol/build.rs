//! Generates the wire contract from `proto/` with a pure-Rust protobuf compiler, so that a checkout
//! builds with cargo alone.

use prost::Message;

/// Messages that are written by hand (src/packed.rs, src/rows.rs), with their fields: what
/// is added to the contract is to be added there and here.
const BY_HAND: &[(&str, &[Field])] = &[
    (
        "RecordIds",
        &[
            (1, "text", "TYPE_STRING", "LABEL_OPTIONAL", ""),
            (2, "ends", "TYPE_UINT32", "LABEL_REPEATED", ""),
        ],
    ),
    (
        "PredictResponse",
        &[
            (1, "model_version", "TYPE_STRING", "LABEL_OPTIONAL", ""),
            (2, "row_status", "TYPE_ENUM", "LABEL_REPEATED", ".vfl.v1.RowStatus"),
            (3, "release", "TYPE_MESSAGE", "LABEL_OPTIONAL", ".vfl.v1.Release"),
        ],
    ),
    (
        "ComputeLogitsResponse",
        &[
            (1, "row_status", "TYPE_ENUM", "LABEL_REPEATED", ".vfl.v1.RowStatus"),
            (2, "logit_shares", "TYPE_MESSAGE", "LABEL_OPTIONAL", ".vfl.v1.Matrix"),
            (3, "question", "TYPE_UINT64", "LABEL_OPTIONAL", ""),
            (4, "refused", "TYPE_MESSAGE", "LABEL_OPTIONAL", ".vfl.v1.ShareRefusal"),
        ],
    ),
];

/// Number, name, type, label, and the name of the type of a message or an enum.
type Field = (i32, &'static str, &'static str, &'static str, &'static str);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Asked when it runs: a build script that was compiled elsewhere would read the contract there.
    let root = std::path::PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    println!("cargo:rerun-if-changed={}", root.display());
    let files =
        ["common", "alignment", "private_release", "coordinator", "passive_party", "active_party"]
            .map(|name| format!("vfl/v1/{name}.proto"));
    let own = protox::compile(files, [&root])?;
    for (message, fields) in BY_HAND {
        let files = own.file.iter().flat_map(|file| &file.message_type);
        let in_contract = files.filter(|m| m.name() == *message).flat_map(|m| &m.field);
        let in_contract = in_contract.map(|f| {
            (f.number(), f.name(), f.r#type().as_str_name(), f.label().as_str_name(), f.type_name())
        });
        // A field with presence would be another one in Rust.
        let presence =
            own.file.iter().flat_map(|file| &file.message_type).filter(|m| m.name() == *message);
        let presence = presence.flat_map(|m| &m.field).any(|f| f.proto3_optional());
        if presence || !in_contract.eq(fields.iter().copied()) {
            return Err(
                format!("vfl.v1.{message} has other fields than its code in src/rpc").into()
            );
        }
    }
    let open = protox::compile(["inference/open_inference.proto"], [&root])?;
    // What reflection shows: the files without comments and places.
    let mut shown = own.clone();
    shown.file.extend(open.file.iter().cloned());
    shown.file.iter_mut().for_each(|file| file.source_code_info = None);
    std::fs::write(out.join("descriptors.bin"), shown.encode_to_vec())?;
    tonic_prost_build::configure()
        .codec_path("crate::Codec")
        .extern_path(".vfl.v1.RecordIds", "crate::packed::RecordIds")
        .extern_path(".vfl.v1.PredictResponse", "crate::rows::PredictResponse")
        .extern_path(".vfl.v1.ComputeLogitsResponse", "crate::rows::ComputeLogitsResponse")
        .bytes(".vfl.v1.Matrix")
        .bytes(".vfl.v1.Ciphertexts")
        .bytes(".vfl.v1.AlignmentFrame")
        .bytes(".vfl.v1.ComputationPiece")
        .bytes(".vfl.v1.PrivateReleaseRequest")
        .bytes(".vfl.v1.PrivateReleaseSession")
        .bytes(".vfl.v1.RowsLookUp")
        .compile_fds(own)?;
    tonic_prost_build::configure()
        .codec_path("crate::FlatCodec")
        .bytes(".inference")
        .btree_map(".inference")
        .compile_fds(open)?;
    Ok(())
}
