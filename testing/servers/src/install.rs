//! Installs a package once, whichever process comes first.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The file that is written last. It holds what was installed, and by which tool.
const MARKER: &str = "installed.txt";

/// Where the packages go: `parts` in the target directory that this program was built in.
pub(crate) fn directory() -> PathBuf {
    // Cargo marks its target directory, wherever that is, as a cache.
    let program = std::env::current_exe().unwrap_or_default();
    let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    target.map_or_else(default, Path::to_owned).join("parts")
}

/// Runs `install` on a new directory unless that was done before with the same `stamp`. A process that comes while
/// another one installs waits for it.
pub(crate) fn once(
    directory: &Path,
    stamp: &str,
    install: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<(), String> {
    let marker = directory.join(MARKER);
    let is_done = || fs::read_to_string(&marker).is_ok_and(|found| found == stamp);
    if is_done() {
        return Ok(());
    }
    let failed = |error| format!("{} could not be written: {error}", directory.display());
    // Held until this function returns, or the process dies.
    let _lock = lock(directory).map_err(failed)?;
    if is_done() {
        return Ok(());
    }
    if directory.exists() {
        fs::remove_dir_all(directory).map_err(failed)?;
    }
    fs::create_dir_all(directory).map_err(failed)?;
    install(directory)?;
    fs::write(&marker, stamp).map_err(failed)
}

fn lock(directory: &Path) -> std::io::Result<File> {
    let mut path = directory.as_os_str().to_owned();
    path.push(".lock");
    let path = PathBuf::from(path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let lock = File::create(path)?;
    lock.lock()?;
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn callers_at_the_same_time_install_once() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("parts/part-1.0.0");
        let (count, barrier) = (AtomicU32::new(0), Barrier::new(8));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    barrier.wait();
                    let install = |directory: &Path| {
                        count.fetch_add(1, Ordering::SeqCst);
                        // Gives up the processor, so that others come meanwhile.
                        std::thread::yield_now();
                        fs::write(directory.join("program"), "whole").map_err(|error| error.to_string())
                    };
                    once(&directory, "stamp", install).unwrap();
                    assert_eq!(fs::read_to_string(directory.join("program")).unwrap(), "whole");
                });
            }
        });
        assert_eq!(count.into_inner(), 1);
    }

    #[test]
    fn an_installation_that_failed_is_made_again_from_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("part");
        let half = |directory: &Path| {
            fs::write(directory.join("half"), "").unwrap();
            Err("no network".to_owned())
        };
        assert_eq!(once(&directory, "stamp", half).unwrap_err(), "no network");
        let whole = |directory: &Path| {
            assert!(!directory.join("half").exists());
            Ok(())
        };
        once(&directory, "stamp", whole).unwrap();
        once(&directory, "stamp", |_| panic!("it is installed")).unwrap();
    }

    #[test]
    fn another_version_of_anything_is_installed_anew() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("part");
        once(&directory, "python 3.11", |_| Ok(())).unwrap();
        let mut was_run = false;
        let install = |_: &Path| {
            was_run = true;
            Ok(())
        };
        once(&directory, "python 3.12", install).unwrap();
        assert!(was_run);
    }

    #[test]
    fn parts_go_to_the_target_directory() {
        let target = directory().parent().unwrap().to_owned();
        assert!(target.join("CACHEDIR.TAG").is_file(), "{}", target.display());
    }
}
