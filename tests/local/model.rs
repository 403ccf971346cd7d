//! `LocalTimer` and `FixedTimer` against the models that the fuzzer uses, too.

use crate::support::properties::holds;
use crate::support::{fixed_model, local_model};

#[test]
fn a_local_timer_does_what_the_model_does() {
    holds(1024, 2048, local_model::check);
}

#[test]
fn a_fixed_timer_does_what_the_model_does() {
    holds(256, 1024, fixed_model::check);
}

#[test]
fn past_findings() {
    for (name, case) in local_model::findings() {
        println!("{name}");
        local_model::check(&case);
    }
}
