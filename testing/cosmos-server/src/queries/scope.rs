//! Queries that cannot be run without a plan.

use super::sql::{Token, keyword_at, pair_at};
use crate::call::{Call, header};
use crate::reply::Refusal;

/// A query over all partitions must be marked as such, and its result must be the pages of all partitions one after the
/// other: the gateway merges nothing. SDKs request a plan, run it range by range and merge themselves.
pub(super) fn check(call: &Call, tokens: &[Token]) -> Result<(), Refusal> {
    if call.is_scoped() {
        return Ok(());
    }
    if !call.says(header::CROSS_PARTITION) {
        let message = "Cross partition query is required but disabled: set x-ms-documentdb-query-enablecrosspartition \
                       to true, name a partition key, or a partition key range.";
        return Err(Refusal::bad_request(message));
    }
    match needs_merging(tokens) {
        Some(what) => {
            let message = format!(
                "The provided cross partition query can not be directly served by the gateway: {what} needs a query \
                 plan and a merge by the client."
            );
            Err(Refusal::new(400, 1004, "BadRequest", message))
        }
        None => Ok(()),
    }
}

/// The part of a query whose result is wrong if each partition evaluates it separately.
fn needs_merging(tokens: &[Token]) -> Option<&'static str> {
    if pair_at(tokens, "ORDER", "BY").is_some() {
        return Some("ORDER BY");
    }
    if pair_at(tokens, "GROUP", "BY").is_some() {
        return Some("GROUP BY");
    }
    for keyword in ["TOP", "DISTINCT", "OFFSET"] {
        if keyword_at(tokens, keyword).next().is_some() {
            return Some(keyword);
        }
    }
    ["COUNT", "SUM", "MIN", "MAX", "AVG"].into_iter().find(|function| {
        keyword_at(tokens, function).any(|at| tokens.get(at + 1).is_some_and(|next| next.is_sign('(')))
    })
}
