//! The examples, run as they stand: in memory and on disk.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, dead_code)]

#[path = "../examples/approval.rs"]
mod approval;
#[path = "../examples/continue_as_new.rs"]
mod continue_as_new;
#[path = "../examples/hello.rs"]
mod hello;
#[path = "../examples/many_processes.rs"]
mod many_processes;
#[path = "../examples/order.rs"]
mod order;

/// A store in memory, and one in a directory that lives as long as what is returned with it.
fn urls() -> (tempfile::TempDir, [String; 2]) {
    let directory = tempfile::tempdir().unwrap();
    let file = perennial::url_of(directory.path().join("store"));
    (directory, ["memory:".to_owned(), file])
}

#[tokio::test]
async fn hello_greets_and_a_second_run_finds_the_greeting() {
    let (_directory, [memory, file]) = urls();
    for url in [&memory, &file, &file] {
        assert_eq!(hello::run(url).await.unwrap(), "Hello, Rust!");
    }
}

#[tokio::test]
async fn an_order_is_paid_and_received() {
    let (_directory, urls) = urls();
    for url in &urls {
        let ended = order::run(url).await.unwrap();
        assert_eq!(ended, "order 17 paid with 4200 cents, received by Ada");
    }
}

#[tokio::test]
async fn a_meter_is_read_in_executions_of_their_own() {
    let (_directory, urls) = urls();
    for url in &urls {
        assert_eq!(continue_as_new::run(url).await.unwrap(), (79, 10));
    }
}

#[tokio::test]
async fn expenses_are_approved_refused_and_forgotten() {
    let (_directory, urls) = urls();
    for url in &urls {
        let ended = approval::run(url).await.unwrap();
        let expected = [
            "paid 42 EUR",
            "refused: we are a small company",
            "nobody has decided in time",
        ];
        assert_eq!(ended, expected);
    }
}

#[tokio::test]
async fn squares_are_added_up() {
    // With several processes on Cosmos DB: testing/cosmos-tests.
    assert_eq!(many_processes::run("memory:").await.unwrap(), 2_870);
}
