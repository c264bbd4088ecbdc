//! Listings: in pages that are requests of their own, and possibly late.

use crate::faulty::{Draft, FaultyBucket, sender};
use crate::{Fault, Method};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ListResult, ObjectMeta, ObjectStore, Result};
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

/// Entries of one page, as on S3.
const PAGE: usize = 1_000;

/// What is left to list.
enum Cursor {
    Start,
    Rest(Vec<ObjectMeta>),
}

/// All objects under a prefix, behind an offset.
pub(crate) fn pages(
    bucket: FaultyBucket,
    prefix: Option<Path>,
    offset: Option<Path>,
) -> BoxStream<'static, Result<ObjectMeta>> {
    let page = move |cursor| next(bucket.clone(), prefix.clone(), offset.clone(), cursor);
    let pages = stream::try_unfold(Cursor::Start, page);
    pages
        .map_ok(|page| stream::iter(page.into_iter().map(Ok)))
        .try_flatten()
        .boxed()
}

/// The next page.
async fn next(
    bucket: FaultyBucket,
    prefix: Option<Path>,
    offset: Option<Path>,
    cursor: Cursor,
) -> Result<Option<(Vec<ObjectMeta>, Cursor)>> {
    let draft = Draft::new(Method::List, &prefix.clone().unwrap_or_default());
    let mut entries = match cursor {
        Cursor::Start => first(&bucket, draft, prefix, offset).await?,
        Cursor::Rest(rest) if rest.is_empty() => return Ok(None),
        Cursor::Rest(rest) => bucket.pass(draft, sender(move || ready(Ok(rest.clone())))).await?,
    };
    let rest = entries.split_off(entries.len().min(PAGE));
    Ok(Some((entries, Cursor::Rest(rest))))
}

/// The first page, and everything behind it: a listing shows one moment.
async fn first(
    bucket: &FaultyBucket,
    draft: Draft,
    prefix: Option<Path>,
    offset: Option<Path>,
) -> Result<Vec<ObjectMeta>> {
    let inner = Arc::clone(&bucket.inner);
    let send = move || {
        let entries = match &offset {
            Some(offset) => inner.list_with_offset(prefix.as_ref(), offset),
            None => inner.list(prefix.as_ref()),
        };
        entries.try_collect::<Vec<_>>()
    };
    let (mut entries, fault) = bucket.pass_with_fault(draft, sender(send)).await?;
    let is_listed = visible(bucket, fault.as_ref());
    entries.retain(|entry| is_listed(&entry.location));
    Ok(entries)
}

/// The objects and folders right under a prefix. A folder with nothing but objects that a late listing lacks is not
/// listed either.
pub(crate) async fn folders(bucket: &FaultyBucket, prefix: Option<Path>) -> Result<ListResult> {
    let draft = Draft::new(Method::List, &prefix.clone().unwrap_or_default());
    let inner = Arc::clone(&bucket.inner);
    let send = move || {
        let (inner, prefix) = (Arc::clone(&inner), prefix.clone());
        async move { inner.list_with_delimiter(prefix.as_ref()).await }
    };
    let (mut listed, fault) = bucket.pass_with_fault(draft, sender(send)).await?;
    if bucket.list_lag(fault.as_ref()) > Duration::ZERO {
        let is_listed = visible(bucket, fault.as_ref());
        listed.objects.retain(|entry| is_listed(&entry.location));
        let mut folders = Vec::new();
        for folder in listed.common_prefixes {
            let entries: Vec<_> = bucket.inner.list(Some(&folder)).try_collect().await?;
            if entries.iter().any(|entry| is_listed(&entry.location)) {
                folders.push(folder);
            }
        }
        listed.common_prefixes = folders;
    }
    Ok(listed)
}

/// Which objects a listing of now shows.
fn visible(bucket: &FaultyBucket, fault: Option<&Fault>) -> impl Fn(&Path) -> bool {
    let (lag, now_ms) = (bucket.list_lag(fault), bucket.clock.now_ms());
    let write_times = Arc::clone(&bucket.write_times);
    move |path| write_times.is_listed(path, now_ms, lag)
}
