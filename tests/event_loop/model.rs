//! An event loop's timer and its remote, taking turns, against the model that the fuzzer uses, too.

use crate::support::properties::holds;
use crate::support::shard_model;

#[test]
fn owner_and_remote_do_what_the_model_says() {
    holds(1024, 2048, shard_model::check);
}

#[test]
fn past_findings() {
    for (name, case) in shard_model::findings() {
        println!("{name}");
        shard_model::check(&case);
    }
}
