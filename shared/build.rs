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
