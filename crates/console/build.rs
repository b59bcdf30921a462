//! Builds the console with npm, and compresses its files for the binary.
//!
//! The files are those of `console/dist` if that is there and not older than its sources. Otherwise npm builds them from
//! a copy of the sources in the build's own folder, so that the tree is never written to. Without npm, or when it fails,
//! the console is a page that says how to get it: a build never fails for npm.

#![allow(clippy::print_stdout, reason = "the language of build scripts")]

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use anyhow::{Context as _, ensure};
use sha2::{Digest, Sha256};

/// The sources of the built files, from `console/`. A copy keeps their places, so that the build finds the definitions of
/// the gRPC packages where they are in the tree.
const SOURCES: [&str; 9] = [
    "index.html",
    "package.json",
    "package-lock.json",
    ".npmrc",
    "tsconfig.json",
    "vite.config.ts",
    "vite.descriptors.ts",
    "src",
    "../crates/dialects/proto",
];
const PAGE: &str = include_str!("src/absent.html");

struct Source {
    /// From `console/`.
    path: String,
    changed: SystemTime,
}

fn main() -> anyhow::Result<()> {
    let console = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("../../console");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/absent.html");
    let files = found(&console, &out.join("npm")).unwrap_or_else(|error| {
        println!("cargo:warning=the binary has no console, only a page that says how to get it: {error:#}");
        // A build of the console by hand is then noticed.
        if console.exists() {
            println!("cargo:rerun-if-changed={}", console.display());
        }
        Vec::new()
    });
    embed(&files, &out)
}

/// The built files; npm builds them in `folder` where `console/dist` cannot be used.
fn found(console: &Path, folder: &Path) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut sources = Vec::new();
    for name in SOURCES {
        find(console, name, &mut sources)?;
        println!("cargo:rerun-if-changed={}", console.join(name).display());
    }
    let dist = console.join("dist");
    if is_fresh(&dist, &sources) {
        println!("cargo:rerun-if-changed={}", dist.display());
        return read(&dist);
    }
    read(&build(console, &sources, folder)?)
}

/// The files of a source, which is a file or a folder.
fn find(console: &Path, name: &str, found: &mut Vec<Source>) -> anyhow::Result<()> {
    let path = console.join(name);
    if path.is_dir() {
        for entry in fs::read_dir(&path)? {
            find(console, &format!("{name}/{}", entry?.file_name().to_string_lossy()), found)?;
        }
    } else {
        let changed = fs::metadata(&path).with_context(|| format!("console/{name}"))?.modified()?;
        found.push(Source { path: name.to_owned(), changed });
    }
    Ok(())
}

fn is_fresh(dist: &Path, sources: &[Source]) -> bool {
    let built = fs::metadata(dist.join("index.html")).and_then(|file| file.modified());
    built.is_ok_and(|built| sources.iter().all(|source| source.changed <= built))
}

/// Builds the files in `folder`, and returns the folder that they are in.
fn build(console: &Path, sources: &[Source], folder: &Path) -> anyhow::Result<PathBuf> {
    for name in ["src", "dist"] {
        let old = folder.join(name);
        if old.exists() {
            fs::remove_dir_all(old)?;
        }
    }
    for source in sources {
        let copy = folder.join(&source.path);
        fs::create_dir_all(copy.parent().context("a folder")?)?;
        fs::copy(console.join(&source.path), copy)?;
    }
    // Packages stay while their lock file is the same.
    let lock = fs::read(console.join("package-lock.json"))?;
    let stamp = folder.join("node_modules/.installed");
    if fs::read(&stamp).ok().as_ref() != Some(&lock) {
        npm(
            folder,
            &["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", "--fetch-timeout=20000"],
        )?;
        fs::write(stamp, lock)?;
    }
    npm(folder, &["run", "build"])?;
    Ok(folder.join("dist"))
}

fn npm(folder: &Path, words: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new("npm");
    let output = command.args(words).current_dir(folder).stdin(Stdio::null()).output().context("npm cannot be run")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let said = text.lines().map(str::trim).find(|line| line.starts_with("npm error")).unwrap_or_default();
    ensure!(output.status.success(), "npm {}: {}: {said}", words.first().unwrap_or(&""), output.status);
    Ok(())
}

/// The files of a folder by their paths in it, in order.
fn read(folder: &Path) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let (mut files, mut folders) = (Vec::new(), vec![String::new()]);
    while let Some(prefix) = folders.pop() {
        for entry in fs::read_dir(folder.join(&prefix))? {
            let entry = entry?;
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                folders.push(format!("{path}/"));
            } else {
                files.push((path, fs::read(entry.path())?));
            }
        }
    }
    ensure!(files.iter().any(|(path, _)| path == "index.html"), "{} has no index.html", folder.display());
    files.sort();
    Ok(files)
}

/// Writes the table of files, and the files themselves.
fn embed(files: &[(String, Vec<u8>)], out: &Path) -> anyhow::Result<()> {
    let page = [("index.html".to_owned(), PAGE.as_bytes().to_vec())];
    let (is_built, files) = if files.is_empty() { (false, &page[..]) } else { (true, files) };
    let folder = out.join("files");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let mut table = format!("pub const IS_BUILT: bool = {is_built};\nstatic FILES: &[ConsoleFile] = &[\n");
    for (number, (path, plain)) in files.iter().enumerate() {
        let etag: String = Sha256::digest(plain).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(plain)?;
        let mut brotli = Vec::new();
        let params = brotli::enc::BrotliEncoderParams::default();
        brotli::BrotliCompress(&mut &plain[..], &mut brotli, &params)?;
        write!(table, "    ConsoleFile {{ path: {path:?}, etag: {etag:?}")?;
        for (form, bytes) in [("gzip", &gzip.finish()?), ("brotli", &brotli)] {
            let name = format!("{number}.{form}");
            fs::write(folder.join(&name), bytes)?;
            write!(table, ", {form}: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/files/{name}\"))")?;
        }
        table.push_str(" },\n");
    }
    table.push_str("];\n");
    fs::write(out.join("files.rs"), table)?;
    Ok(())
}
