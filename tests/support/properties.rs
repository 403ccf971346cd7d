//! The models as properties: proptest makes the bytes that a case is chosen from, and shortens those of one
//! that fails.

use super::choices::case;
use arbitrary::Arbitrary;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::fmt::Debug;

/// Checks so many cases, or as many as `PROPTEST_CASES` says, each chosen from up to so many bytes.
#[track_caller]
pub(crate) fn holds<C>(cases: u32, bytes: usize, check: fn(&C))
where
    C: for<'a> Arbitrary<'a> + Debug,
{
    let usual = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() {
        usual.cases
    } else {
        cases
    };
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        ..usual
    };
    let chosen = prop::collection::vec(any::<u8>(), 32..bytes)
        .prop_filter_map("too few bytes for a case", |bytes| case::<C>(&bytes));
    let check = |case| {
        check(&case);
        Ok(())
    };
    TestRunner::new(config).run(&chosen, check).unwrap();
}
