//! Where cargo puts what a test runs as a process.

use std::{path::PathBuf, process::Command};

/// Builds an example and gives its path. Cargo builds examples for `cargo test --workspace`, but not for a single test.
///
/// # Panics
///
/// If it does not build.
#[must_use]
pub fn example(name: &str) -> PathBuf {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // The features of the whole workspace, so that nothing is built that `cargo test` has built already.
    cargo.args(["build", "--workspace", "--all-features", "--message-format=json", "--example", name]);
    cargo.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo.output().expect("cargo runs");
    assert!(output.status.success(), "{name} does not build:\n{}", String::from_utf8_lossy(&output.stderr));
    let messages = String::from_utf8(output.stdout).expect("cargo writes UTF-8");
    let executable =
        messages.lines().filter_map(|message| message.split_once(r#""executable":""#)).find_map(|(_, path)| {
            let path = path.split('"').next()?.replace(r"\\", r"\");
            (PathBuf::from(&path).file_stem()? == name).then_some(path)
        });
    executable.unwrap_or_else(|| panic!("cargo has not told where {name} is:\n{messages}")).into()
}
