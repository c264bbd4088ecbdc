//! How a list of functions becomes a list of tests.
//!
//! Each suite has one list macro, which hands its functions, by module, to one of the macros below.

/// Makes one test of every end-to-end scenario.
///
/// The argument is an expression for a fresh [`Backend`](crate::Backend); it may `.await`. The calling crate needs
/// `tokio` with its multi-threaded runtime.
#[macro_export]
macro_rules! e2e_tests {
    ($backend:expr $(,)?) => {
        $crate::__e2e_list! { __scenario_tests ($backend) }
    };
}

/// Makes one test of every contract point that the runtime's own suite does not reach.
///
/// The argument is an expression for a fresh [`Backend`](crate::Backend); it may `.await`. The calling crate needs
/// `tokio` with its multi-threaded runtime.
#[macro_export]
macro_rules! contract_tests {
    ($backend:expr $(,)?) => {
        $crate::__contract_list! { __scenario_tests ($backend) }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __scenario_tests {
    ($suite:ident ($backend:expr) $($module:ident { $($name:ident)* })*) => { $(
        mod $module {
            #[allow(unused_imports)]
            use super::*;
            $crate::__scenario_module! { $suite $module ($backend) $($name)* }
        }
    )* };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __scenario_module {
    ($suite:ident $module:ident ($backend:expr) $($name:ident)*) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let backend = $backend;
            $crate::Harness::run(backend, async |h| $crate::$suite::$module::$name(h).await).await;
        }
    )* };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __factory_tests {
    ($suite:ident ($factory:expr) $($module:ident { $($name:ident)* })*) => { $(
        mod $module {
            #[allow(unused_imports)]
            use super::*;
            $crate::__factory_module! { $suite $module ($factory) $($name)* }
        }
    )* };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __factory_module {
    ($suite:ident $module:ident ($factory:expr) $($name:ident)*) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let factory = $factory;
            $crate::$suite::$module::$name(&factory).await;
        }
    )* };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __names {
    ($suite:ident () $($module:ident { $($name:ident)* })*) => {
        &[$($(concat!(stringify!($module), "::", stringify!($name))),*),*]
    };
}

/// Checks that `names` lists each public async function of the modules in a folder of this crate, once.
#[cfg(test)]
pub(crate) fn assert_lists_all(names: &[&str], folder: &str) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut found = Vec::new();
    for file in std::fs::read_dir(folder).expect("the folder is there") {
        let path = file.expect("a file").path();
        let module = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .expect("a name")
            .to_owned();
        let source = std::fs::read_to_string(&path).expect("a source file");
        let functions = source
            .lines()
            .filter_map(|line| line.strip_prefix("pub async fn ")?.split('(').next());
        found.extend(functions.map(|function| format!("{module}::{function}")));
    }
    found.sort_unstable();
    let mut listed = names.to_vec();
    listed.sort_unstable();
    assert_eq!(listed, found);
}
