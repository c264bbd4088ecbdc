//! Libraries that replace system calls in a child process, by `LD_PRELOAD`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles a library of this folder into a directory.
pub fn compile(directory: &Path, name: &str) -> PathBuf {
    let library = directory.join(name).with_extension("so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../fjall/tests/support/{name}.c"));
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-w", "-o"])
        .args([&library, &source])
        .status()
        .expect("a C compiler, as Rust itself needs for linking");
    assert!(status.success());
    library
}
