//! Settings of every kind, and which of them have to be refused.

use arbitrary::Arbitrary;
use std::collections::HashSet;
use std::time::Duration;
use tickwheel::{
    Budget, BuildError, Builder, Drive, IdleStrategy, ManualClock, Pinning,
    Settings as Shared,
};

#[derive(Arbitrary, Clone, Debug)]
pub(super) struct Settings {
    tick: Tick,
    shards: Shards,
    max_pending: Option<usize>,
    budget: Option<(u8, u8, u8)>,
    pinning: Cores,
    idle: Idle,
    name: String,
}

/// Any length, or one near an edge.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Tick {
    Good(u64),
    AboutMicrosecond(i8),
    AboutHour(i8),
    Any(Duration),
}

/// Any number, but few that cost much: every shard takes three descriptors.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Shards {
    Default,
    Few(u8),
    AboveMost(u16),
    Any(usize),
}

#[derive(Arbitrary, Clone, Debug)]
enum Cores {
    Default,
    Off,
    List(Vec<u8>),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Idle {
    Park,
    Spin(Duration),
    Busy,
}

pub(super) const MAX_TICK: Duration = Duration::from_secs(3600);

impl Settings {
    pub(super) fn tick(&self) -> Duration {
        let about =
            |nanos: u64, off: i8| Duration::from_nanos(nanos.saturating_add_signed(off.into()));
        match self.tick {
            Tick::Good(nanos) => Duration::from_nanos(1_000 + nanos % 3_599_999_999_000),
            Tick::AboutMicrosecond(off) => about(1_000, off),
            Tick::AboutHour(off) => about(3_600_000_000_000, off),
            Tick::Any(tick) => tick,
        }
    }

    fn shards(&self) -> Option<usize> {
        match self.shards {
            Shards::Default => None,
            Shards::Few(shards) => Some(usize::from(shards % 4)),
            Shards::AboveMost(above) => Some(1025 + usize::from(above)),
            Shards::Any(shards) if shards <= 1024 => Some(shards % 8),
            Shards::Any(shards) => Some(shards),
        }
    }

    fn budget(&self) -> Budget {
        let Some((drain, fire, sweep)) = self.budget else {
            return Budget::new();
        };
        Budget::new()
            .drain(drain.into())
            .fire(fire.into())
            .sweep(sweep.into())
    }

    /// The settings that every kind of timer has.
    pub(super) fn shared(&self) -> Shared {
        let shared = Shared::new().tick(self.tick()).budget(self.budget());
        self.max_pending
            .into_iter()
            .fold(shared, Shared::max_pending)
    }

    fn pinning(&self) -> Pinning {
        match &self.pinning {
            Cores::Default => Pinning::Cores,
            Cores::Off => Pinning::Off,
            Cores::List(list) => {
                Pinning::List(list.iter().map(|core| usize::from(*core)).collect())
            }
        }
    }

    pub(super) fn builder(&self, clock: &ManualClock) -> Builder {
        let builder = Builder::new()
            .tick(self.tick())
            .budget(self.budget())
            .pinning(self.pinning())
            .idle(match self.idle {
                Idle::Park => IdleStrategy::Park,
                Idle::Spin(spin) => IdleStrategy::SpinThenPark { spin },
                Idle::Busy => IdleStrategy::BusySpin,
            })
            .thread_name(self.name.clone())
            .drive(Drive::Manual)
            .clock(clock.clone());
        let builder = self
            .max_pending
            .into_iter()
            .fold(builder, Builder::max_pending);
        self.shards().into_iter().fold(builder, Builder::shards)
    }

    /// The reasons for which any kind of timer has to be refused.
    pub(super) fn faults(&self) -> Vec<Fault> {
        let (
            tick,
            Budget {
                drain, fire, sweep, ..
            },
        ) = (self.tick(), self.budget());
        let faults = [
            (
                Fault::Tick,
                tick < Duration::from_micros(1) || tick > MAX_TICK,
            ),
            (Fault::MaxPending, self.max_pending == Some(0)),
            (Fault::Budget, drain == 0 || fire == 0 || sweep == 0),
        ];
        faults
            .into_iter()
            .filter(|(_, holds)| *holds)
            .map(|(fault, _)| fault)
            .collect()
    }

    /// As `faults`, for the engine.
    pub(super) fn engine_faults(&self) -> Vec<Fault> {
        let mut faults = self.faults();
        if self
            .shards()
            .is_some_and(|shards| shards == 0 || shards > 1024)
        {
            faults.push(Fault::Shards);
        }
        if self.name.contains('\0') {
            faults.push(Fault::Name);
        }
        if let Pinning::List(list) = self.pinning() {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            // Which cores there are is the machine's business; that there are so few of them is plain.
            if list.is_empty() || list.iter().collect::<HashSet<_>>().len() > cores {
                faults.push(Fault::Cores);
            }
        }
        faults
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    Tick,
    Shards,
    MaxPending,
    Budget,
    Cores,
    Name,
}

/// The fault that an error tells of, with the numbers it names compared to the settings.
fn told(settings: &Settings, error: &BuildError) -> Option<Fault> {
    assert!(!error.to_string().is_empty());
    Some(match error {
        BuildError::TickOutOfRange { tick } => {
            assert_eq!(*tick, settings.tick());
            assert!(*tick < Duration::from_micros(1) || *tick > MAX_TICK);
            Fault::Tick
        }
        BuildError::ShardsOutOfRange { shards } => {
            assert_eq!(Some(*shards), settings.shards());
            Fault::Shards
        }
        BuildError::ZeroMaxPending => Fault::MaxPending,
        BuildError::ZeroBudget { .. } => Fault::Budget,
        BuildError::EmptyCoreList => Fault::Cores,
        BuildError::UnknownCore { core, allowed } => {
            assert!(!allowed.contains(core));
            return None;
        }
        BuildError::BadThreadName { name, at } => {
            assert_eq!(name.as_bytes()[*at], 0);
            Fault::Name
        }
        // Descriptors may run out; nothing that was chosen here is to blame.
        _ => return None,
    })
}

/// The built timer; nothing where the refusal was right.
pub(super) fn judge<T>(
    settings: &Settings,
    built: Result<T, BuildError>,
    faults: &[Fault],
) -> Option<T> {
    match built {
        Ok(timer) => {
            assert_eq!(faults, [], "built in spite of");
            Some(timer)
        }
        Err(error) => {
            let fault = told(settings, &error);
            assert!(
                fault.is_none_or(|fault| faults.contains(&fault)),
                "{error}: {faults:?}"
            );
            None
        }
    }
}
