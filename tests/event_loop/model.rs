//! An event loop's timer and its remote, taking turns, against the model that the fuzzer uses, too.

use crate::support::properties::{cases, config};
use crate::support::shard_model::{self, Case};
use proptest::prelude::*;

proptest! {
    #![proptest_config(config(1024))]

    #[test]
    fn owner_and_remote_do_what_the_model_says(case in cases::<Case>(2048)) {
        shard_model::check(&case);
    }
}

#[test]
fn past_findings() {
    for (name, case) in shard_model::findings() {
        println!("{name}");
        shard_model::check(&case);
    }
}
