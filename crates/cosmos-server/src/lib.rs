//! A Cosmos DB server for tests.
