//! The engine on a manual clock, with a worker and without, against the model that the fuzzer uses, too.

use crate::support::engine_manual::{self, Case};
use crate::support::properties::{cases, config};
use proptest::prelude::*;

proptest! {
    #![proptest_config(config(1024))]

    #[test]
    fn any_run_of_operations_fires_what_the_model_says(case in cases::<Case>(2048)) {
        engine_manual::check(&case);
    }
}
