//! Strings that stores like to stumble over.

/// Keys that differ from each other in every way that an encoding may lose.
pub(crate) fn keys() -> Vec<String> {
    let mut keys: Vec<String> = [
        "it's \"quoted\" `so`",
        "path/with//slashes/",
        "back\\slash\\",
        "line\nbreak\r\n\ttab",
        "emoji 🦀🌍👩‍👩‍👧",
        "#?%&=+;,@!*'()[]",
        "%2F%00%",
        " leading and trailing ",
        "..",
        ".",
        "case",
        "CASE",
        "caf\u{e9}",
        "cafe\u{301}",
        "a",
        "a\u{0}",
        "a\u{0}b",
        "a\u{1}",
        "ab",
        "\u{0}",
        "\u{7f}\u{80}\u{ffff}\u{10ffff}",
        "null",
        "{\"json\":true}",
        "'; DROP TABLE instances; --",
        "p|q:r::s$t",
        "مرحبا עברית",
    ]
    .map(str::to_owned)
    .into();
    keys.push("k".repeat(1024));
    keys.push(format!("{}z", "k".repeat(1023)));
    keys.push("€".repeat(341));
    keys
}
