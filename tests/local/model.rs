//! `LocalTimer` against the model that the fuzzer uses, too.

use crate::support::local_model;
use crate::support::properties::holds;

#[test]
fn a_local_timer_does_what_the_model_does() {
    holds(1024, 2048, local_model::check);
}

#[test]
fn past_findings() {
    for (name, case) in local_model::findings() {
        println!("{name}");
        local_model::check(&case);
    }
}
