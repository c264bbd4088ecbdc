//! A program that starts other programs: until such a child has become that program, it has every file of its parent
//! open, with the locks.

#![cfg(target_os = "linux")]
// Running code between fork and exec is unsafe; this code only writes to a pipe and reads from another.
#![allow(clippy::unwrap_used, unsafe_code)]

use perennial_fjall::{Settings, open};
use std::io::{Read, Write, pipe};
use std::os::unix::process::CommandExt;
use std::process::Command;

#[test]
fn a_closed_store_opens_again_while_a_child_is_being_started() {
    let directory = tempfile::tempdir().unwrap();
    for is_new in [true, false] {
        let store = open(directory.path(), Settings::default()).unwrap();
        let (mut forked, mut tell) = pipe().unwrap();
        let (mut wait, go_on) = pipe().unwrap();
        let child = std::thread::spawn(move || {
            let mut command = Command::new("true");
            let pause = move || {
                tell.write_all(b"x")?;
                wait.read_exact(&mut [0])
            };
            unsafe { command.pre_exec(pause) };
            command.status().unwrap()
        });
        forked.read_exact(&mut [0]).unwrap();
        drop(store);
        let opened = open(directory.path(), Settings::default());
        (&go_on).write_all(b"x").unwrap();
        assert!(child.join().unwrap().success());
        if let Err(error) = opened {
            panic!("is new: {is_new}: {error}");
        }
    }
}
