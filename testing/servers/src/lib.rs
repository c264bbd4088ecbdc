//! Real object stores for tests, which nobody here wrote: [`Azurite`] for `az://` and [`Moto`] for `s3://`.
//!
//! ```no_run
//! use perennial_servers::Moto;
//!
//! let Some(moto) = Moto::start() else { return };
//! moto.create_bucket("bucket");
//! println!("connect to {}", moto.endpoint());
//! ```
//!
//! The first use installs the server, at a pinned version and with pinned dependencies, into `target/parts`: Azurite by
//! npm, moto by pip into a virtual environment. Processes that start together install once, behind a file lock.
//! The server listens on a free port of the loopback, and `start` returns when it responds.
//!
//! # Where a tool is missing
//!
//! Azurite needs `node` and `npm`, moto needs `python3` with `venv` or `pip`, both need `sh`. Where one is missing, or
//! the installation fails (no network), `start` writes one line, `not run: …`, and returns `None`; the test
//! returns, and counts as not run. With `PERENNIAL_REQUIRE=all` in the environment, as in `.ci/run`, it panics instead.
//!
//! # When a server ends
//!
//! On drop, so also when the test panics. A server also ends when the process that started it does, in whatever
//! way: a shell that runs next to it holds the other end of a pipe, and ends the server when the pipe is closed.
//! That is how the servers of `shared()`, which are never dropped, end.
//!
//! # What they prove, and what they do not
//!
//! | | Azurite 3.35.0 | moto 5.2.5 |
//! |---|---|---|
//! | a second create | 409, refused | 412, refused |
//! | a stale `If-Match` | 412, refused | 412, refused |
//! | ETag | new for every write | the MD5 of the content, as on S3: equal content, equal tag |
//! | `Last-Modified` | whole seconds | whole seconds |
//! | signature | checked: a wrong key is refused | ignored: any key will do |
//! | conditions of concurrent requests | atomic | atomic here; by itself moto checks and writes without a lock (`moto.py`) |
//! | data | in memory, or in a directory, where it survives a clean stop, not a kill | in memory |
//!
//! Both are correctness tools: they say nothing about the speed or the limits of the real services.

mod azurite;
mod http;
mod install;
mod moto;
mod part;
mod server;
mod tool;

pub use azurite::Azurite;
pub use moto::Moto;
pub use part::{Installed, Part, require};
