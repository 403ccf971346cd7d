//! Random operations on every kind of wheel, each step compared with the sorted map.

use crate::support::properties::{cases, config};
use crate::support::wheel_model::{self, Case};
use proptest::prelude::*;

proptest! {
    #![proptest_config(config(1024))]

    #[test]
    fn wheels_behave_like_the_sorted_map(case in cases::<Case>(1024)) {
        wheel_model::check(&case);
    }
}
