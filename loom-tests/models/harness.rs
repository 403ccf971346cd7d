//! What the scenarios are made of: a runner, threads, and things that can be counted.
//!
//! A scenario is a closure without randomness and without a clock. It starts threads with [`spawn`], joins
//! all of them, and asserts. What it checks at the end it keeps in plain std atomics (`support::ledger`, [`Bell`]):
//! those are no part of the model, so they cost no interleavings and order nothing by accident.

use crate::sync::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

pub(super) use super::support::ledger::{Ledger, Payload};

#[cfg(tickwheel_loom)]
pub(super) use loom::thread::{JoinHandle, yield_now};
#[cfg(not(tickwheel_loom))]
pub(super) use std::thread::{JoinHandle, yield_now};

/// How many preemptions loom tries in one execution; `None`: any number, the proof is complete.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    pub(super) full: Option<usize>,
    /// In `run.sh --quick`.
    pub(super) quick: Option<usize>,
    /// Whether it has one thread, so that there is nothing to explore.
    pub(super) alone: bool,
}

/// No bound at all.
pub(super) const UNBOUNDED: Bound = Bound {
    full: None,
    quick: None,
    alone: false,
};

/// A unit test of what the models are made of: one thread, one execution.
pub(super) const UNIT: Bound = Bound {
    alone: true,
    ..UNBOUNDED
};

/// The fewest executions of threads that meet.
#[cfg(tickwheel_loom)]
const LEAST_EXECUTIONS: u64 = 3;

/// Any number of preemptions in the full run, `quick` of them in the quick one.
pub(super) const fn bounded_when_quick(quick: usize) -> Bound {
    Bound {
        quick: Some(quick),
        ..UNBOUNDED
    }
}

/// At most `full` preemptions, and `quick` in the quick run.
pub(super) const fn bounded(full: usize, quick: usize) -> Bound {
    Bound {
        full: Some(full),
        quick: Some(quick),
        ..UNBOUNDED
    }
}

/// Returns the bound that suits the epoch: the real one has many atomics of its own.
pub(super) const fn by_epoch(real: Bound, stand_in: Bound) -> Bound {
    if cfg!(crossbeam_loom) { real } else { stand_in }
}

/// Whether producers of this execution leave their fence to the owner's `membarrier`, which loom's side models.
pub(super) fn fence_for_all(is_light: bool) {
    #[cfg(tickwheel_loom)]
    if is_light {
        crate::sync::explored::watched::make_asymmetric();
    }
    #[cfg(not(tickwheel_loom))]
    let _ = is_light;
}

/// Starts a thread of the scenario.
pub(super) fn spawn<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
    #[cfg(tickwheel_loom)]
    return crate::sync::explored::watched::spawn(body);
    #[cfg(not(tickwheel_loom))]
    std::thread::spawn(body)
}

/// As [`spawn`], on a share of what the threads have in common.
pub(super) fn spawn_with<S: Send + Sync + 'static, R: Send + 'static>(
    shared: &Arc<S>,
    body: impl FnOnce(&S) -> R + Send + 'static,
) -> JoinHandle<R> {
    let shared = Arc::clone(shared);
    spawn(move || body(&shared))
}

/// Explores a scenario under its own name.
pub(super) fn explore<F: Fn() + Send + Sync + 'static>(bound: Bound, scenario: F) {
    explore_as(name_of(&scenario), bound, scenario);
}

/// Runs a scenario: exhaustively under loom, many times on real threads otherwise.
#[cfg(tickwheel_loom)]
pub(super) fn explore_as<F: Fn() + Send + Sync + 'static>(
    name: &'static str,
    bound: Bound,
    scenario: F,
) {
    let quick = std::env::var_os("TICKWHEEL_MODELS").is_some_and(|mode| mode == "quick");
    let executions = Arc::new(AtomicU64::new(0));
    let mut model = loom::model::Builder::new();
    model.preemption_bound = if quick { bound.quick } else { bound.full };
    // These two end an exploration early and let it pass: no variable may set them.
    model.max_duration = None;
    model.max_permutations = None;
    model.max_branches = 50_000;
    let started = Instant::now();
    let count = Arc::clone(&executions);
    model.check(move || {
        count.fetch_add(1, Ordering::Relaxed);
        crate::sync::explored::begin_execution();
        scenario();
    });
    let threads = crate::sync::explored::watched::started() + 1;
    let executions = executions.load(Ordering::Relaxed);
    if bound.alone {
        assert_eq!((threads, executions), (1, 1), "{name} is no unit test");
    } else {
        assert!(
            executions >= LEAST_EXECUTIONS,
            "{name} explores {executions} executions: let threads meet, or call it a `UNIT`"
        );
    }
    let bound = match model.preemption_bound {
        _ if bound.alone => "unit".to_owned(),
        None => "none".to_owned(),
        Some(bound) => bound.to_string(),
    };
    println!(
        "MODEL {name} threads={threads} bound={bound} executions={executions} seconds={:.2}",
        started.elapsed().as_secs_f64(),
    );
    crate::sync::explored::weakened::print_met(name);
}

/// See the other form.
#[cfg(not(tickwheel_loom))]
pub(super) fn explore_as<F: Fn() + Send + Sync + 'static>(name: &str, bound: Bound, scenario: F) {
    /// Rounds, unless the time is over before that.
    const ROUNDS: usize = 2000;
    const LEAST_ROUNDS: usize = 50;
    const TIME: std::time::Duration = std::time::Duration::from_millis(250);
    let _ = (bound.full, bound.quick, bound.alone);
    let started = Instant::now();
    let mut rounds = 0;
    while rounds < ROUNDS && (rounds < LEAST_ROUNDS || started.elapsed() < TIME) {
        scenario();
        rounds += 1;
    }
    println!("{name}: {rounds} rounds");
}

/// `room::scenario` of a closure written in that function.
pub(super) fn name_of<F>(scenario: &F) -> &'static str {
    let name = std::any::type_name_of_val(scenario);
    let name = name.split_once("models::").map_or(name, |(_, name)| name);
    name.split_once("::{{").map_or(name, |(name, _)| name)
}

/// A cell whose accesses loom checks: what is written here before an event must be seen after it.
pub(super) struct Probe(UnsafeCell<u64>);

// SAFETY: to be proven by the scenarios: loom fails if two accesses are not ordered.
unsafe impl Sync for Probe {}
// SAFETY: a plain number.
unsafe impl Send for Probe {}

impl Probe {
    pub(super) fn new() -> Self {
        Self(UnsafeCell::new(0))
    }

    pub(super) fn set(&self, value: u64) {
        self.0.with_mut(|cell| {
            // SAFETY: the scenario orders all accesses, which loom checks.
            unsafe { *cell = value }
        });
    }

    pub(super) fn get(&self) -> u64 {
        self.0.with(|cell| {
            // SAFETY: as in `set`.
            unsafe { *cell }
        })
    }
}

/// Counts how often an owner was woken.
#[derive(Clone, Default)]
pub(super) struct Bell(Arc<AtomicU64>);

impl Bell {
    pub(super) fn ring(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// To be asked when every thread is joined.
    pub(super) fn rings(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}
