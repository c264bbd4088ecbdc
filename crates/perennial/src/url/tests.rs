use super::*;

fn path(url: &str) -> PathBuf {
    match parse(url) {
        Ok(Target::Directory(path)) => path,
        other => panic!("{url} gave {other:?}"),
    }
}

fn refused(url: &str) -> String {
    match parse(url) {
        Err(error) => error.to_string(),
        Ok(target) => panic!("{url} gave {target:?}"),
    }
}

/// Refused, with advice that is itself accepted.
fn advised(url: &str, advice: &str, then: &Target) {
    let told = refused(url);
    assert!(told.contains(&format!("write {advice:?}")), "{url}: {told}");
    assert_eq!(&parse(advice).unwrap(), then, "{url}");
}

#[test]
fn directories_are_absolute_relative_or_escaped() {
    assert_eq!(path("file:///var/lib/app"), PathBuf::from("/var/lib/app"));
    assert_eq!(path("file://./data"), PathBuf::from("./data"));
    assert_eq!(path("file://../data"), PathBuf::from("../data"));
    assert_eq!(path("file:data"), PathBuf::from("data"));
    assert_eq!(path("file:./data"), PathBuf::from("./data"));
    assert_eq!(path("file:/data"), PathBuf::from("/data"));
    assert_eq!(path("file:///a%20b"), PathBuf::from("/a b"));
    assert_eq!(path("file:///a b"), PathBuf::from("/a b"));
    assert_eq!(path("file://localhost/a"), PathBuf::from("/a"));
    assert_eq!(path("file://LOCALHOST/a"), PathBuf::from("/a"));
    assert_eq!(path("file:///caf%C3%a9"), PathBuf::from("/café"));
}

#[test]
fn schemes_are_read_in_any_case() {
    for url in ["FILE:///a", "File:///a", "fILE:/a"] {
        assert_eq!(path(url), PathBuf::from("/a"));
    }
    for url in ["MEMORY:", "Memory://"] {
        assert_eq!(parse(url).unwrap(), Target::Memory);
    }
    for url in ["Cosmos://account/db/c", "COSMOS+HTTP://127.0.0.1:8081/db/c"] {
        assert_eq!(parse(url).unwrap(), Target::Cosmos);
    }
}

#[test]
fn cosmos_db_is_known_whatever_follows() {
    for url in ["cosmos://account/db/c", "cosmos+http://127.0.0.1:8081/db/c", "cosmos:"] {
        assert_eq!(parse(url).unwrap(), Target::Cosmos);
    }
    for url in ["cosmos+https://account/db/c", "Cosmos DB://a/b/c"] {
        assert!(refused(url).contains("names no known store"));
    }
    assert!(refused("cosmos").contains("no scheme"));
}

#[test]
fn what_is_no_url_is_answered_with_what_to_write() {
    let directory = |path: &str| Target::Directory(PathBuf::from(path));
    advised("memory", "memory:", &Target::Memory);
    advised("Memory", "memory:", &Target::Memory);
    advised("memory:name", "memory:", &Target::Memory);
    advised("./data", "file://./data", &directory("./data"));
    advised("../data", "file://../data", &directory("../data"));
    advised(".", "file://.", &directory("."));
    advised("/var/lib/app", "file:///var/lib/app", &directory("/var/lib/app"));
    advised("/a:b", "file:///a:b", &directory("/a:b"));
    advised("./50% off?", "file://./50%25 off%3F", &directory("./50% off?"));
    for empty in ["", "  "] {
        let told = refused(empty);
        assert!(
            told.contains("empty") && told.contains("\"memory:\"") && told.contains("file://./"),
            "{told}"
        );
    }
    assert!(refused("~/data").contains("file:///home/me/data"));
    assert!(refused("data").contains("file://./NAME"));
}

#[test]
fn a_missing_dot_is_pointed_out() {
    let told = refused("file://data");
    assert!(
        told.contains("\"file://./data\"") && told.contains("\"file:///data\""),
        "{told}"
    );
    let told = refused("file://server/share");
    assert!(
        told.contains("\"file://./server/share\"") && told.contains("\"file:///server/share\""),
        "{told}"
    );
    for url in ["file:", "file://", "file://localhost"] {
        assert!(refused(url).contains("names no directory"), "{url}");
    }
}

#[test]
fn a_directory_has_no_parameters() {
    for url in ["file:///a?b=c", "file://./a?", "file:a?b", "file://localhost/a?b"] {
        assert!(refused(url).contains("\"%3F\""), "{url}");
    }
    for url in ["file:///a#b", "file:a#"] {
        assert!(refused(url).contains("\"%23\""), "{url}");
    }
    assert_eq!(path("file:///a%3Fb%23c"), PathBuf::from("/a?b#c"));
}

/// Of all bytes that may follow a percent sign, only pairs of hexadecimal digits pass.
#[test]
fn only_hexadecimal_digits_follow_a_percent_sign() {
    let ascii = || (1..=127u8).map(char::from);
    for high in ascii() {
        for low in ascii() {
            let url = format!("file:///a%{high}{low}b");
            let fine = high.is_ascii_hexdigit() && low.is_ascii_hexdigit();
            // Beyond ASCII a byte alone is no character, and a NUL has no place in a path.
            let fine = fine && high.to_digit(16).is_some_and(|high| high < 8) && (high, low) != ('0', '0');
            assert_eq!(parse(&url).is_ok(), fine, "{url:?}");
        }
    }
    for cut in ["file:///a%", "file:///a%2", "file:///%+5", "file:///%-1"] {
        assert!(refused(cut).contains("hexadecimal"), "{cut}");
    }
}

#[test]
fn a_nul_byte_is_refused() {
    for url in ["file:///a%00b", "file:///a\0b", "file:%00"] {
        assert!(refused(url).contains("NUL"), "{url:?}");
    }
}

#[test]
fn every_path_has_a_url_that_names_it() {
    let names = [
        "a",
        "a b",
        "50%",
        "%41",
        "?",
        "#",
        "a?b#c%",
        "é",
        "@",
        "a:b",
        "localhost",
    ];
    for name in names {
        for path_ in [
            name.to_owned(),
            format!("/{name}"),
            format!("./{name}"),
            format!("x/{name}/y"),
        ] {
            let named = directory_of(&url_of(&path_)).unwrap().unwrap();
            let same = |path: &Path| {
                path.components()
                    .filter(|part| part.as_os_str() != ".")
                    .collect::<PathBuf>()
            };
            assert_eq!(same(&named), same(Path::new(&path_)), "{path_}");
        }
    }
}

#[test]
fn a_secret_is_not_repeated() {
    for url in [
        "postgres://user:hunter2@host/db",
        "user:hunter2@host",
        "hunter2",
        "memory://user:hunter2@host",
        "file://user:hunter2@host/path",
    ] {
        assert!(!refused(url).contains("hunter2"), "{}", refused(url));
    }
    assert!(refused("postgres://user:hunter2@host/db").contains("postgres"));
}
