//! Verifies what the engine trusts when it opens: its manifests, and the metadata of the tables that they name.
//!
//! Each table of a store is a folder. Its file `current` names the current version and the checksum of the file `vN`
//! that describes it; `vN` names the files of the table and of its large values. The engine does not verify that
//! checksum: a flipped bit there would lose records, or request more memory than there is.
//!
//! Data blocks are not read here, so that a large store opens as quickly as a small one. The engine verifies each of
//! them when it reads it.

use crate::OpenError;
use crate::archive::{Archive, Section, are_blocks, check_block};
use crate::bytes::Reader;
use crate::files::{Files, Opened, flaw};
use perennial_kv::Table;
use std::collections::BTreeSet;
use std::io;
use xxhash_rust::xxh3::xxh3_128;

const VERSION: &str = "data/version";
const VERSION_CONTENTS: &[u8] = b"FJL\x03";
const TREES: &str = "data/keyspaces";
/// A version, a checksum, the kind of checksum.
const CURRENT_LENGTH: usize = 8 + 16 + 1;
/// The references of a table to large values have no checksum of their own. They are verified in tables up to this
/// length.
const WHOLE_TABLE_LIMIT: u64 = 4 * 1024 * 1024;

/// Sections of old tables up to this length are verified whenever a store opens.
const SHORT: u64 = 64 * 1024;

/// Verifies everything that opening relies on, of all tables.
pub(crate) fn check(files: &Files) -> Result<(), OpenError> {
    if files.read(VERSION)? != VERSION_CONTENTS {
        return Err(files.damaged(format!("{VERSION} cannot be decoded")));
    }
    // The engine's own table of tables is number 0, and ours follow.
    let mut missing: BTreeSet<String> = (0..=Table::ALL.len()).map(|number| number.to_string()).collect();
    for (name, is_folder) in files.entries(TREES)? {
        if !is_folder {
            continue;
        }
        if !missing.remove(&name) {
            return Err(files.damaged(format!("{TREES}/{name} does not belong there")));
        }
        check_tree(files, &format!("{TREES}/{name}"), is_small(&name))?;
    }
    match missing.first() {
        Some(name) => Err(files.damaged(format!("{TREES}/{name} is missing"))),
        None => Ok(()),
    }
}

/// Whether a table is small and nothing works without its records: the table of tables, and the store's own data.
fn is_small(name: &str) -> bool {
    name == "0" || name == Table::ALL.len().to_string()
}

fn check_tree(files: &Files, tree: &str, is_small: bool) -> Result<(), OpenError> {
    let current = format!("{tree}/current");
    let Some((version, checksum)) = read_current(&files.read(&current)?) else {
        return Err(files.damaged(format!("{current} cannot be decoded")));
    };
    let name = format!("{tree}/v{version}");
    if !files.exists(&name)? {
        return Err(files.damaged(format!("{name}, which {current} names, is missing")));
    }
    if xxh3_128(&files.read(&name)?) != checksum {
        return Err(files.damaged(format!(
            "{name} and {current} do not fit together: one of them is damaged"
        )));
    }
    let manifest = Manifest::read(&mut files.open(&name)?).map_err(|error| files.failed(&name, error))?;
    for table in &manifest.tables {
        let name = format!("{tree}/tables/{}", table.number);
        if is_small && xxh3_128(&files.read(&name)?) != table.checksum {
            return Err(files.damaged(format!("{name} does not match its checksum")));
        }
        let checked = table.check(&mut files.open(&name)?, &manifest.values);
        checked.map_err(|error| files.failed(&name, error))?;
    }
    for values in &manifest.values {
        let name = format!("{tree}/blobs/{values}");
        check_values(&mut files.open(&name)?).map_err(|error| files.failed(&name, error))?;
    }
    Ok(())
}

fn read_current(bytes: &[u8]) -> Option<(u64, u128)> {
    let mut reader = Reader(bytes);
    let found = (reader.u64()?, reader.u128()?);
    (bytes.len() == CURRENT_LENGTH && reader.byte()? == 0).then_some(found)
}

/// The files that a version is made of.
struct Manifest {
    tables: Vec<TableFile>,
    /// Files of large values.
    values: BTreeSet<u64>,
}

/// A file of a table, as described by a manifest.
struct TableFile {
    number: u64,
    /// The checksum of the whole file.
    checksum: u128,
    /// New tables are on level 0, and the older a table is, the deeper it is.
    level: u8,
}

impl Manifest {
    fn read(file: &mut Opened) -> io::Result<Self> {
        let archive = Archive::read(file)?;
        let tables = archive.required("tables")?.read(file)?;
        let values = archive.required("blob_files")?.read(file)?;
        let unknown = || flaw("cannot be decoded");
        Ok(Self {
            tables: read_tables(&tables).ok_or_else(unknown)?,
            values: read_values(&values).ok_or_else(unknown)?,
        })
    }
}

/// Tables are listed by level, and within a level by run.
fn read_tables(section: &[u8]) -> Option<Vec<TableFile>> {
    let mut reader = Reader(section);
    let mut tables = Vec::new();
    for level in 0..reader.byte()? {
        for _run in 0..reader.byte()? {
            for _table in 0..reader.u32()? {
                let number = reader.u64()?;
                let checksum_kind = reader.byte()?;
                let checksum = reader.u128()?;
                let _first_sequence_number = reader.u64()?;
                let table = TableFile {
                    number,
                    checksum,
                    level,
                };
                (checksum_kind == 0).then(|| tables.push(table))?;
            }
        }
    }
    Some(tables)
}

fn read_values(section: &[u8]) -> Option<BTreeSet<u64>> {
    let mut reader = Reader(section);
    let mut values = BTreeSet::new();
    for _file in 0..reader.u32()? {
        values.insert(reader.u64()?);
        let _checksum_kind = reader.byte()?;
        let _checksum = reader.u128()?;
    }
    Some(values)
}

impl TableFile {
    /// Verifies the sections of a table that locate its records.
    fn check(&self, file: &mut Opened, values: &BTreeSet<u64>) -> io::Result<()> {
        let archive = Archive::read(file)?;
        check_block(&archive.required("meta")?.read(file)?, "metadata")?;
        archive.required("tli")?;
        for (name, what) in [("tli", "index"), ("filter_tli", "filter"), ("filter", "filter")] {
            // A partitioned filter is many blocks, which are read when they are needed.
            let is_partitioned = name == "filter" && archive.section("filter_tli").is_some();
            match archive.section(name) {
                Some(section) if !is_partitioned && self.is_read_early(section) => {
                    check_block(&section.read(file)?, what)?
                }
                _ => {}
            }
        }
        let Some(links) = archive.section("linked_blob_files") else {
            return Ok(());
        };
        let links = read_links(&links.read(file)?).ok_or_else(|| flaw("has damaged references to large values"))?;
        if let Some(lost) = links.difference(values).next() {
            return Err(flaw(format!("refers to large values in file {lost}, which is unknown")));
        }
        if file.length <= WHOLE_TABLE_LIMIT {
            check_links(&file.part(0, file.length)?, archive.required("data")?, self.checksum)?;
        }
        Ok(())
    }

    /// Whether the engine reads a section when it opens, or the section is short enough not to matter. In a large store
    /// the others are too much to read; the engine verifies them when it needs them.
    fn is_read_early(&self, section: Section) -> bool {
        self.level <= 1 || section.length <= SHORT
    }
}

/// Verifies the references to large values, which have no checksum, by the checksum of the whole table. A damaged block
/// of records explains a mismatch as well: that damages its records, not the store.
fn check_links(table: &[u8], records: Section, checksum: u128) -> io::Result<()> {
    let records = usize::try_from(records.length).ok().and_then(|end| table.get(..end));
    match xxh3_128(table) != checksum && records.is_some_and(are_blocks) {
        true => Err(flaw("does not match its checksum")),
        false => Ok(()),
    }
}

/// The files of large values to which a table refers.
fn read_links(section: &[u8]) -> Option<BTreeSet<u64>> {
    let mut reader = Reader(section);
    let count = reader.u32()?;
    let mut links = BTreeSet::new();
    for _link in 0..count {
        let number = reader.u64()?;
        let _count_and_bytes = reader.take(8 + 8 + 8)?;
        links.insert(number).then_some(())?;
    }
    reader.0.is_empty().then_some(links)
}

/// Verifies the metadata of a file of large values. Each value has its own checksum.
fn check_values(file: &mut Opened) -> io::Result<()> {
    let archive = Archive::read(file)?;
    let metadata = archive.required("meta")?.read(file)?;
    match metadata.strip_prefix(b"META") {
        Some(block) => check_block(block, "metadata"),
        None => Err(flaw("has a damaged metadata block")),
    }
}
