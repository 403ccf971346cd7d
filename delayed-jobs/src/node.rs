//! A node: leases partitions, knows when something is due there, and fires it on time.
//!
//! * `clock` - the clock of Redis, seen from here
//! * `tenure` - what the node knows of a partition while it holds it
//! * `keeper` - leases, the hand-over to the consumers, and what the log says of them
//! * `notices` - hears when the first moment of a partition changes
//! * `fill` - counts what waits, for the limits on new jobs; `news` - what the log is told

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use tickwheel::{Builder, Pinning, Timer};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use self::clock::RedisClock;
use self::fill::Fill;
use self::news::News;
use self::tenure::{Moment, Partition};
use crate::access::Tokens;
use crate::error::StoreError;
use crate::inbox::Inbox;
use crate::job::MOST_PARTITIONS;
use crate::metrics::Metrics;
use crate::settings::Settings;
use crate::store::{NodeView, Store};
use crate::units::lock;

mod clock;
pub(crate) mod fill;
mod keeper;
mod news;
mod notices;
mod tenure;

/// A running node. Dropped, it ends at once and its leases run out; [`stop`](Node::stop) gives them back.
pub struct Node {
    pub(crate) shared: Arc<Shared>,
    /// Apart from the others: a stop waits for its beat, and aborts them.
    keeper: JoinSet<()>,
    tasks: JoinSet<()>,
}

impl Node {
    /// Connects and begins to take its share of the partitions.
    ///
    /// # Errors
    ///
    /// Those of [`Store::open`]; [`StoreError::Unfit`] if the timer refuses the tick.
    pub async fn start(mut settings: Settings) -> Result<Self, StoreError> {
        // Whoever waits for an answer for longer than a lease has lost it.
        settings.patience = settings.patience.min(settings.lease / 2);
        let (tick, tokens) = (settings.tick, Tokens::new(settings.tokens.clone()));
        let limited = settings.max_pending.or(settings.max_waiting);
        let store = Store::open(settings).await?;
        store.grow(store.settings().partitions).await?;
        if store.durability().await.is_ok_and(|log| log == "none") {
            tracing::warn!("Redis keeps no append-only file: jobs end with its process");
        }
        let possible: Arc<[Partition]> = (0..MOST_PARTITIONS).map(Partition::new).collect();
        let of_handler = Arc::clone(&possible);
        let timer = Builder::new()
            .shards(1)
            .tick(tick)
            .pinning(Pinning::Off)
            .thread_name("delayed-jobs")
            .build_with(move |moment: tickwheel::Expired<Moment>| {
                let Moment { partition, due_ms } = moment.payload;
                of_handler[usize::from(partition)].expired(due_ms);
            })
            .map_err(|error| StoreError::Unfit(error.to_string()))?;
        let (wishes, heard) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            name: format!("node-{}-{:08x}", std::process::id(), fastrand::u32(..)),
            store,
            metrics: Metrics::new(),
            address: OnceLock::new(),
            possible,
            timer,
            clock: RedisClock::default(),
            wishes,
            tokens,
            fill: Fill::default(),
            news: News::default(),
            last_reached: Mutex::new(Instant::now()),
            ending: Notify::new(),
            inbox: OnceLock::new(),
        });
        let (mut keeper, mut tasks) = (JoinSet::new(), JoinSet::new());
        keeper.spawn(keeper::keep(Arc::clone(&shared)));
        if limited.is_some() {
            tasks.spawn(fill::watch(Arc::clone(&shared)));
        }
        tasks.spawn(notices::hear(Arc::clone(&shared), heard));
        Ok(Self {
            shared,
            keeper,
            tasks,
        })
    }

    /// Its name, which no other node has.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Access to the jobs.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Partitions it holds by leases that have not run out.
    #[must_use]
    pub fn held(&self) -> usize {
        self.shared.held()
    }

    /// Jobs it has handed to the consumers since its start.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.shared.metrics.fired.get()
    }

    /// Ends the node and gives its partitions back, so that others take them at once.
    pub async fn stop(mut self) {
        self.tasks.abort_all();
        while self.tasks.join_next().await.is_some() {}
        let give_back = async {
            // A beat under way may be taking partitions. Cut short, it would leave those that Redis has given it.
            self.shared.ending.notify_one();
            while self.keeper.join_next().await.is_some() {}
            for partition in self.shared.partitions() {
                if let Some(lease) = partition.lease() {
                    keeper::release(&self.shared, partition, &lease).await;
                }
            }
            let _ = self.shared.store.leave(&self.shared.name).await;
        };
        let lease = self.shared.store.settings().lease;
        if tokio::time::timeout(lease, give_back).await.is_err() {
            tracing::warn!("Redis does not answer; the leases run out");
        }
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("name", &self.shared.name)
            .finish_non_exhaustive()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.shared.timer.stop();
    }
}

/// A wish to hear of the first moment of a partition.
type Wish = u16;

/// What the tasks of a node share.
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) store: Store,
    pub(crate) metrics: Metrics,
    /// Where its HTTP server listens, if it has one.
    pub(crate) address: OnceLock<String>,
    /// As many as a namespace can have.
    possible: Arc<[Partition]>,
    timer: Timer<Moment>,
    clock: RedisClock,
    wishes: mpsc::UnboundedSender<Wish>,
    pub(crate) tokens: Tokens,
    pub(crate) fill: Fill,
    pub(crate) news: News,
    last_reached: Mutex<Instant>,
    /// Told when no further beat is wanted.
    ending: Notify,
    /// Where deliveries arrive, once a consumer has asked for one.
    inbox: OnceLock<Inbox>,
}

impl Shared {
    /// Those that the namespace has now.
    fn partitions(&self) -> &[Partition] {
        &self.possible[..usize::from(self.store.partitions())]
    }

    pub(crate) fn held(&self) -> usize {
        self.partitions()
            .iter()
            .filter(|one| one.lease().is_some())
            .count()
    }

    /// What the node says of itself.
    pub(crate) fn view(&self) -> NodeView {
        NodeView {
            name: self.name.clone(),
            address: self.address.get().cloned().unwrap_or_default(),
            partitions: self.held(),
            fired: self.metrics.fired.get(),
            armed: self.armed(),
        }
    }

    /// Counts what Redis has not carried out.
    fn failed(&self, what: &str, partition: u16, error: &StoreError) {
        self.metrics.redis_errors.inc();
        tracing::debug!(partition, "{what}: {error}");
    }

    pub(crate) fn armed(&self) -> usize {
        self.partitions().iter().map(Partition::armed).sum()
    }

    pub(crate) fn inbox(&self) -> &Inbox {
        self.inbox.get_or_init(|| Inbox::open(self.store.clone()))
    }

    /// How long ago Redis has answered a beat.
    pub(crate) fn silence(&self) -> Duration {
        lock(&self.last_reached).elapsed()
    }
}
