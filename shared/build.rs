//! Generates the wire contract from `proto/` with a pure-Rust protobuf compiler, so that a checkout builds with cargo alone.

use prost::Message;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Asked when it runs: a build script that was compiled elsewhere would read the contract there.
    let root = std::path::PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../proto");
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    println!("cargo:rerun-if-changed={}", root.display());
    let files = ["common", "alignment", "coordinator", "passive_party", "active_party"]
        .map(|name| format!("vfl/v1/{name}.proto"));
    let own = protox::compile(files, [&root])?;
    // This message is written by hand (src/rpc/packed.rs): a field that is added to the contract is to be added there and here.
    let ids = own.file.iter().flat_map(|file| &file.message_type).find(|message| message.name() == "RecordIds");
    let fields = ids.into_iter().flat_map(|message| &message.field);
    let fields = fields.map(|f| (f.number(), f.name(), f.r#type().as_str_name(), f.label().as_str_name()));
    let by_hand = [(1, "text", "TYPE_STRING", "LABEL_OPTIONAL"), (2, "ends", "TYPE_UINT32", "LABEL_REPEATED")];
    if !fields.eq(by_hand) {
        return Err("vfl.v1.RecordIds has other fields than src/rpc/packed.rs".into());
    }
    let open = protox::compile(["inference/open_inference.proto"], [&root])?;
    // What reflection shows: the files without comments and places.
    let mut shown = own.clone();
    shown.file.extend(open.file.iter().cloned());
    shown.file.iter_mut().for_each(|file| file.source_code_info = None);
    std::fs::write(out.join("descriptors.bin"), shown.encode_to_vec())?;
    tonic_prost_build::configure()
        .codec_path("crate::rpc::Codec")
        // Written by hand: most of what a message of predictions has beside its matrix.
        .extern_path(".vfl.v1.RecordIds", "crate::rpc::packed::RecordIds")
        .bytes(".vfl.v1.Matrix")
        .bytes(".vfl.v1.Ciphertexts")
        .bytes(".vfl.v1.AlignmentFrame")
        .compile_fds(own)?;
    tonic_prost_build::configure()
        .codec_path("crate::rpc::FlatCodec")
        .bytes(".inference")
        .btree_map(".inference")
        .compile_fds(open)?;
    Ok(())
}
