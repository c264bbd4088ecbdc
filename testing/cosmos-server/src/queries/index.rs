//! Orders that no index can give.

use super::sql::{Token, pair_at};
use crate::reply::Refusal;
use serde_json::Value;

/// One column of an ORDER BY.
#[derive(Debug, PartialEq, Eq)]
struct Column {
    path: Vec<String>,
    descending: bool,
}

/// Refuses an order that the container's indexing policy cannot give. What we cannot read passes.
pub(super) fn check(tokens: &[Token], container: &Value) -> Result<(), Refusal> {
    let Some(columns) = columns(tokens) else {
        return Ok(());
    };
    let policy = container.get("indexingPolicy").unwrap_or(&Value::Null);
    match columns.as_slice() {
        [] => Ok(()),
        [column] if is_indexed(&column.path, policy) => Ok(()),
        [column] => {
            let path = column.path.join("/");
            let message = format!("The order-by item /{path} is excluded from the index of the container.");
            Err(Refusal::bad_request(message))
        }
        columns if has_composite(columns, policy) => Ok(()),
        _ => Err(Refusal::bad_request(
            "The order by query does not have a corresponding composite index that it can be served from.",
        )),
    }
}

/// The columns of the ORDER BY, if there is one and it names nothing but properties.
fn columns(tokens: &[Token]) -> Option<Vec<Column>> {
    let at = pair_at(tokens, "ORDER", "BY")?;
    let mut rest = tokens.get(at + 2..)?.iter().peekable();
    let mut columns = Vec::new();
    loop {
        let Token::Word(_alias) = rest.next()? else {
            return None;
        };
        let mut path = Vec::new();
        while let Some(token) = rest.next_if(|token| token.is_sign('.') || token.is_sign('[')) {
            path.push(match rest.next()? {
                Token::Word(name) if token.is_sign('.') => name.clone(),
                Token::Text(name) if token.is_sign('[') => name.clone(),
                _ => return None,
            });
            if token.is_sign('[') && !rest.next()?.is_sign(']') {
                return None;
            }
        }
        if path.is_empty() {
            return None;
        }
        let direction = rest.next_if(|token| token.is("ASC") || token.is("DESC"));
        columns.push(Column {
            path,
            descending: direction.is_some_and(|direction| direction.is("DESC")),
        });
        match rest.next() {
            Some(token) if token.is_sign(',') => {}
            None => return Some(columns),
            Some(token) if token.is("OFFSET") => return Some(columns),
            Some(_) => return None,
        }
    }
}

/// Whether a property is indexed: the longest path of the policy that covers it decides.
fn is_indexed(path: &[String], policy: &Value) -> bool {
    if policy.get("indexingMode").and_then(Value::as_str) == Some("none") {
        return false;
    }
    // Documented: these two are indexed whatever the policy says.
    if matches!(path, [name] if name == "id" || name == "_ts") {
        return true;
    }
    let best = |list: &str| {
        let paths = policy.get(list).and_then(Value::as_array).into_iter().flatten();
        let patterns = paths.filter_map(|entry| entry.get("path").and_then(Value::as_str));
        patterns.filter_map(|pattern| precision(pattern, path)).max()
    };
    // A policy that lists nothing indexes everything.
    if policy.get("includedPaths").is_none() && policy.get("excludedPaths").is_none() {
        return true;
    }
    best("includedPaths") > best("excludedPaths")
}

/// How precisely a pattern covers a path; nothing if it does not.
fn precision(pattern: &str, path: &[String]) -> Option<usize> {
    let parts = parts(pattern);
    let (last, fixed) = parts.split_last()?;
    let covers = path.get(..fixed.len()).is_some_and(|start| start == fixed);
    match last.as_str() {
        "?" if covers && fixed.len() == path.len() => Some(fixed.len() * 2 + 1),
        "*" if covers => Some(fixed.len() * 2),
        _ => None,
    }
}

fn parts(pattern: &str) -> Vec<String> {
    let parts = pattern.split('/').filter(|part| !part.is_empty());
    parts.map(|part| part.trim_matches('"').to_owned()).collect()
}

/// Documented: a composite index serves an order that has its paths, all of them in its sequence, and either its
/// directions or the opposite of each.
fn has_composite(columns: &[Column], policy: &Value) -> bool {
    let indexes = policy
        .get("compositeIndexes")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let mut indexes = indexes.filter_map(Value::as_array);
    indexes.any(|index| {
        let same_paths = index.len() == columns.len()
            && index.iter().zip(columns).all(|(entry, column)| {
                let path = entry.get("path").and_then(Value::as_str).unwrap_or_default();
                parts(path) == column.path
            });
        let same_direction = |(entry, column): (&Value, &Column)| {
            let order = entry.get("order").and_then(Value::as_str).unwrap_or("ascending");
            order.eq_ignore_ascii_case("descending") == column.descending
        };
        let same = index.iter().zip(columns).filter(|pair| same_direction(*pair)).count();
        same_paths && (same == 0 || same == columns.len())
    })
}
