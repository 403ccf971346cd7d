//! The simulation example, on a smaller scale: it checks itself against queueing theory.

#[allow(dead_code, reason = "the example's `main` is not used here")]
#[path = "../../examples/simulation.rs"]
mod simulation;

use simulation::{Scenario, erlang_c, run, simulate};

#[test]
fn the_simulation_agrees_with_theory() {
    let worst = run(60_000, false).unwrap();
    assert!(worst > 0.0, "it is a simulation, not the formula");
}

#[test]
fn erlangs_formula_is_the_known_one() {
    // With one server the probability to wait is the load; M/M/2 at 0.5: 1/3.
    assert!((erlang_c(1, 0.5).0 - 0.5).abs() < 1e-12);
    assert!((erlang_c(2, 0.5).0 - 1.0 / 3.0).abs() < 1e-12);
}

#[test]
fn a_simulation_is_repeatable() {
    let scenario = Scenario { servers: 3, load: 0.9, arrivals: 5_000, patience: None, retries: 0 };
    let outcomes = [simulate(scenario, 1), simulate(scenario, 1), simulate(scenario, 2)];
    let ends = outcomes.map(|outcome| (outcome.end, outcome.mean_wait, outcome.events));
    assert!(ends[0] == ends[1] && ends[0] != ends[2]);
}
