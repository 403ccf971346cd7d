//! `LocalTimer` and `FixedTimer` against the models that the fuzzer uses, too.

use crate::support::properties::{cases, config};
use crate::support::{fixed_model, local_model};
use proptest::prelude::*;

proptest! {
    #![proptest_config(config(1024))]

    #[test]
    fn a_local_timer_does_what_the_model_does(case in cases::<local_model::Case>(2048)) {
        local_model::check(&case);
    }
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn a_fixed_timer_does_what_the_model_does(case in cases::<fixed_model::Case>(1024)) {
        fixed_model::check(&case);
    }
}

#[test]
fn past_findings() {
    for (name, case) in local_model::findings() {
        println!("{name}");
        local_model::check(&case);
    }
}
