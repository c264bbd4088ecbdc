//! The settings that a container must have.

use azure_data_cosmos::models::{
    CompositeIndex, CompositeIndexOrder, CompositeIndexProperty, ContainerProperties, IndexingMode, IndexingPolicy,
    TimeToLive,
};

/// The path of the partition key.
pub(crate) const PARTITION_KEY: &str = "/partition";

/// The paths that queries filter and sort by. Nothing else is indexed: every index makes every write more expensive.
/// `slot` is not among them, because no engine filters by it; a query that does is slower, not wrong. A container may
/// index more than this.
const INDEXED: [&str; 10] = [
    "/partition/?",
    "/lane/?",
    "/topic/?",
    "/arrival/?",
    "/due/?",
    "/kind/?",
    "/status/?",
    "/name/?",
    "/parent/?",
    "/completed/?",
];

/// Pairs of which queries filter by the first and sort or narrow by the second.
const COMPOSITE: [[&str; 2]; 2] = [["/lane", "/arrival"], ["/lane", "/due"]];

/// A container with the right settings.
#[cfg_attr(not(any(feature = "init", test)), allow(dead_code))]
pub(crate) fn properties(id: &str) -> ContainerProperties {
    let mut policy = IndexingPolicy::default().with_indexing_mode(IndexingMode::Consistent);
    policy.automatic = true;
    for path in INDEXED {
        policy = policy.with_included_path(path);
    }
    policy = policy.with_excluded_path("/*");
    for paths in COMPOSITE {
        let properties = paths.map(|path| CompositeIndexProperty::new(path, CompositeIndexOrder::Ascending));
        let index = properties
            .into_iter()
            .fold(CompositeIndex::default(), CompositeIndex::with_property);
        policy = policy.with_composite_index(index);
    }
    ContainerProperties::new(id.to_owned(), PARTITION_KEY.into())
        .with_indexing_policy(policy)
        .with_default_ttl(TimeToLive::NoDefault)
}

/// A wrong setting of a container, and whether it can be repaired.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The partition key, which cannot be changed.
    PartitionKey(String),
    /// A setting that `init` repairs.
    Repairable(String),
}

/// The first wrong setting of a container.
pub(crate) fn flaw(properties: &ContainerProperties) -> Option<Flaw> {
    let paths: Vec<&str> = properties
        .partition_key
        .paths()
        .iter()
        .map(|path| path.as_ref())
        .collect();
    if paths != [PARTITION_KEY] {
        return Some(Flaw::PartitionKey(paths.join(", ")));
    }
    if properties.default_ttl != TimeToLive::NoDefault {
        let why = "its time to live must be on and without a default (-1)";
        return Some(Flaw::Repairable(why.to_owned()));
    }
    let Some(policy) = &properties.indexing_policy else {
        return Some(Flaw::Repairable("it has no indexing policy".to_owned()));
    };
    if policy.indexing_mode == Some(IndexingMode::None) {
        return Some(Flaw::Repairable("its indexing is switched off".to_owned()));
    }
    let is_indexed = |path: &str| {
        policy
            .included_paths
            .iter()
            .any(|found| found.path == path || found.path == "/*")
    };
    if let Some(path) = INDEXED.into_iter().find(|path| !is_indexed(path)) {
        return Some(Flaw::Repairable(format!("{path} is not indexed")));
    }
    let has = |paths: &[&str; 2]| {
        let is_it = |index: &CompositeIndex| {
            index
                .properties
                .iter()
                .map(|property| property.path.as_str())
                .eq(*paths)
                && index
                    .properties
                    .iter()
                    .all(|property| property.order == CompositeIndexOrder::Ascending)
        };
        policy.composite_indexes.iter().any(is_it)
    };
    let missing = COMPOSITE.into_iter().find(|paths| !has(paths));
    missing.map(|paths| Flaw::Repairable(format!("the composite index of {} is missing", paths.join(" and "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_with_the_right_settings_has_no_flaw() {
        assert_eq!(flaw(&properties("c")), None);
    }

    /// Earlier releases indexed `slot` too.
    #[test]
    fn a_container_that_indexes_more_has_no_flaw() {
        let mut earlier = properties("c");
        let policy = earlier.indexing_policy.take().unwrap();
        earlier = earlier.with_indexing_policy(policy.with_included_path("/slot/?"));
        assert_eq!(flaw(&earlier), None);
    }

    /// Users without the account's key create the container with `az` and the policy in the documentation.
    #[test]
    fn the_documented_policy_is_the_one_that_is_made() {
        let documented = include_str!("../../../docs/cosmos-indexing-policy.json");
        let documented: serde_json::Value = serde_json::from_str(documented).unwrap();
        let made = serde_json::to_value(properties("c")).unwrap();
        assert_eq!(made["indexingPolicy"], documented, "{:#}", made["indexingPolicy"]);
    }

    #[test]
    fn every_flaw_is_found() {
        let mut other = properties("c");
        other.partition_key = "/pk".into();
        assert_eq!(flaw(&other), Some(Flaw::PartitionKey("/pk".to_owned())));
        let mut other = properties("c");
        other.default_ttl = TimeToLive::Forever;
        assert!(matches!(flaw(&other), Some(Flaw::Repairable(why)) if why.contains("time to live")));
        let mut other = properties("c");
        other.indexing_policy = None;
        assert!(matches!(flaw(&other), Some(Flaw::Repairable(_))));
        for n in 0..INDEXED.len() {
            let mut other = properties("c");
            let policy = other.indexing_policy.as_mut().unwrap();
            let path = policy.included_paths.remove(n).path;
            assert!(matches!(flaw(&other), Some(Flaw::Repairable(why)) if why.contains(&path)));
        }
        for n in 0..COMPOSITE.len() {
            let mut other = properties("c");
            other.indexing_policy.as_mut().unwrap().composite_indexes.remove(n);
            assert!(matches!(flaw(&other), Some(Flaw::Repairable(why)) if why.contains("composite")));
        }
    }
}
