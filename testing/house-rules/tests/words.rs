//! Names that were given up stay given up, and the pages name what exists.
#![allow(clippy::unwrap_used)]

use perennial_house_rules::{files, root, text, without_strings, words};

/// Names of before, each with the word that took its place. Stored names and metrics keep them, in string literals.
const GIVEN_UP: [(&str, &str); 34] = [
    ("Patient", "RetryStore"),
    ("patience", "a name for its purpose"),
    ("PATIENCE", "a name for its purpose"),
    ("Roomy", "ChunkedStore"),
    ("roomy", "chunked"),
    ("outlined", "spilled"),
    ("lookout", "poller"),
    ("Lookout", "Poller"),
    ("Rhythm", "Cadence"),
    ("joint", "batch"),
    ("Joined", "BatchOutcome"),
    ("Chance", "OptionalOp"),
    ("foresight", "arrival claim"),
    ("Foresight", "ArrivalClaim"),
    ("Foreseen", "PendingClaim"),
    ("Usher", "ReservationReaper"),
    ("unwanted", "unused"),
    ("heard", "consumed"),
    ("enclosed", "inline"),
    ("Enclosed", "InlineMessage"),
    ("stray", "phantom lease"),
    ("Stray", "PhantomLease"),
    ("Draftsman", "CommitBuilder"),
    ("Letter", "QueuedMessage"),
    ("condemn", "two-phase delete"),
    ("condemned", "deletion"),
    ("Condemned", "Deletion"),
    ("goodbye", "await_intents"),
    ("farewell", "removal_op"),
    ("tally", "counters"),
    ("Tally", "Counters"),
    ("settle", "coalesce, publish, promote, resolve or end"),
    ("settled", "coalesced, published, resolved or ended"),
    ("settling", "coalescing, resolving"),
];

#[test]
fn names_that_were_given_up_do_not_come_back() {
    let mut found = Vec::new();
    let sources = ["store", "kv", "fjall", "cosmos", "workflow", "perennial"].map(|name| format!("crates/{name}/src"));
    for file in sources.iter().flat_map(|folder| files(folder, ".rs")) {
        let text = text(&file);
        let lines = text.lines().enumerate();
        for (number, line) in lines.filter(|(_, line)| !line.contains("`tally`") && !line.contains("`settled`")) {
            let line = without_strings(line);
            let old = |word: &&str| GIVEN_UP.iter().find(|(old, _)| old == word);
            let hits = words(&line).filter_map(|word| old(&word));
            found.extend(hits.map(|(old, new)| format!("{file}:{}: {old} is {new} now", number + 1)));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The pages that name files.
fn pages() -> Vec<String> {
    let top = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(str::to_owned);
    top.into_iter().chain(files("docs", ".md")).collect()
}

/// What stands between backticks, or is the target of a link, and looks like a path in this repository.
fn paths(page: &str) -> Vec<String> {
    let quoted = page.split('`').skip(1).step_by(2);
    let linked = page
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', '#']).next());
    let is_path = |text: &&str| {
        ["crates/", "testing/", "benches/", "docs/"]
            .iter()
            .any(|folder| text.starts_with(folder))
            && !text.contains([' ', '…', '*', '<', '{'])
    };
    quoted.chain(linked).filter(is_path).map(str::to_owned).collect()
}

#[test]
fn the_pages_name_files_that_exist() {
    let mut missing = Vec::new();
    let mut count = 0;
    for page in pages() {
        for path in paths(&text(&page)) {
            count += 1;
            if !root().join(&path).exists() {
                missing.push(format!("{page}: {path}"));
            }
        }
    }
    assert!(count > 40, "only {count} paths were found");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn the_architecture_names_every_crate() {
    let page = text("ARCHITECTURE.md");
    let manifests = ["crates", "testing", "benches"].map(|folder| files(folder, "Cargo.toml"));
    let mut missing = Vec::new();
    for manifest in manifests.iter().flatten() {
        let text = text(manifest);
        let name = text
            .lines()
            .find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
        let name = name.unwrap();
        if !page.contains(&format!("| `{name}` |")) {
            missing.push(name.to_owned());
        }
    }
    assert!(missing.is_empty(), "not in the table of crates: {missing:?}");
}

#[test]
fn a_check_that_cannot_fail_is_none() {
    assert_eq!(
        without_strings(r#"let tally = "settle \" more"; // usher"#),
        "let tally = ; // usher"
    );
    assert_eq!(
        words("a.b_c(d)").filter(|word| !word.is_empty()).collect::<Vec<_>>(),
        ["a", "b_c", "d"]
    );
    assert_eq!(
        paths("see `crates/x.rs` and [y](docs/y.md#z), `crates/{a,b}`"),
        ["crates/x.rs", "docs/y.md"]
    );
}
