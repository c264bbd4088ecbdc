//! Where a tool is missing, a test says so in one line, and fails if nothing may be left out.

use crate::child;
use perennial_servers::{Azurite, Moto, Part, require};
use std::process::Command;

/// One of the tests below, on a machine without any tool.
fn without_tools(name: &str) -> Command {
    let mut command = child::test(name);
    command.env("PATH", "/nowhere").env_remove("PERENNIAL_REQUIRE");
    command
}

const TESTS: [(&str, &str); 3] = [
    (
        "missing::needs_azurite",
        "Azurite 3.35.0 needs Node.js: `node` is not on this machine",
    ),
    (
        "missing::needs_moto",
        "moto 5.2.5 needs Python: `python3` is not on this machine",
    ),
    (
        "missing::needs_a_part",
        "moto 5.2.5 needs Python: `python3` is not on this machine",
    ),
];

#[test]
fn a_test_without_its_server_is_not_run() {
    for (name, reason) in TESTS {
        let (passed, output) = child::run(&mut without_tools(name));
        assert!(passed, "{output}");
        let said: Vec<_> = output.lines().filter(|line| line.contains("not run: ")).collect();
        assert_eq!(said, [format!("not run: {name}: {reason}")]);
    }
}

#[test]
fn a_test_without_its_server_fails_where_everything_is_required() {
    for (name, reason) in TESTS {
        let (passed, output) = child::run(without_tools(name).env("PERENNIAL_REQUIRE", "all"));
        assert!(!passed, "{output}");
        let message = format!("PERENNIAL_REQUIRE=all is set, but {reason}");
        assert!(output.contains(&message), "{output}");
    }
}

#[test]
fn a_value_that_means_nothing_is_refused() {
    let (passed, output) = child::run(without_tools("missing::needs_azurite").env("PERENNIAL_REQUIRE", "al"));
    assert!(!passed, "{output}");
    assert!(output.contains("set it to \"all\", or not at all"), "{output}");
}

#[test]
#[ignore = "run by the tests above"]
fn needs_azurite() {
    assert!(Azurite::start().is_none());
}

#[test]
#[ignore = "run by the tests above"]
fn needs_moto() {
    assert!(Moto::shared().is_none());
}

#[test]
#[ignore = "run by the tests above"]
fn needs_a_part() {
    assert!(require(Part::Moto).is_none());
}
