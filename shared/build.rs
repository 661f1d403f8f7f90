//! Generates the wire contract from `proto/` with a pure-Rust protobuf compiler, so that a checkout builds with cargo alone.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Asked when it runs: a build script that was compiled elsewhere would read the contract there.
    let root = std::path::PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let files = ["common", "coordinator", "passive_party", "active_party"].map(|name| format!("vfl/v1/{name}.proto"));
    let descriptors = protox::compile(files, [&root])?;
    tonic_prost_build::configure()
        .codec_path("crate::rpc::Codec")
        .bytes(".vfl.v1.Matrix")
        .bytes(".vfl.v1.Ciphertexts")
        .compile_fds(descriptors)?;
    Ok(())
}
