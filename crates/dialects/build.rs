//! Compiles the definitions of all gRPC services into one `FileDescriptorSet`, for server reflection and for tests.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

use prost::Message as _;

const FILES: [&str; 5] = [
    "lf/a2a/v1/a2a.proto",
    "a2a/v1/a2a.proto",
    "grpc/health/v1/health.proto",
    "grpc/reflection/v1/reflection.proto",
    "grpc/reflection/v1alpha/reflection.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"])?;
    let out = env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?;
    fs::write(Path::new(&out).join("descriptors.bin"), descriptors.encode_to_vec())?;
    Ok(())
}
