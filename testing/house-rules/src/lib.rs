//! The files of this repository, for checks that no compiler makes.

// This crate is test support: a panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// All files under a folder whose names end so, by their paths from the root, in order.
pub fn files(under: &str, ending: &str) -> Vec<String> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.join(under)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
            match path.is_dir() {
                true if name == "target" || name.ends_with("/target") || name.starts_with(".git") => {}
                true => folders.push(path),
                false if name.ends_with(ending) => found.push(name),
                false => {}
            }
        }
    }
    found.sort();
    found
}

/// The text of a file.
pub fn text(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A line of Rust without its string literals: those hold stored names, which outlive the names in the code.
pub fn without_strings(line: &str) -> String {
    let mut kept = String::new();
    let mut is_inside = false;
    let mut before = ' ';
    for c in line.chars() {
        if c == '"' && before != '\\' && before != '\'' {
            is_inside = !is_inside;
        } else if !is_inside {
            kept.push(c);
        }
        before = c;
    }
    kept
}

/// The words of a text: what stands between other characters than letters, digits and underscores.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
}
