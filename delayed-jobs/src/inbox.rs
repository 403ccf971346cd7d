//! Waits for jobs that have fired, in whatever partition and on whatever node, and takes them. One inbox
//! serves all that wait in a process. What a consumer does not acknowledge in time is given to another one,
//! so a job can arrive twice, with the same id.

use std::collections::{BTreeSet, HashMap};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::{join_all, select_all, try_join_all};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout_at};

use crate::error::{Result, StoreError};
use crate::job::{FARTHEST, MOST_PARTITIONS, Priority, Queue};
use crate::link::CHECK;
use crate::settings::Settings;
use crate::store::{Delivery, Held, Hold, Nack, Receipt, Store, Taken};
use crate::units::{lock, random};

/// How often all partitions are asked though no notice has come: one that was sent may be lost. `take.lua` knows it.
const SWEEP: Duration = Duration::from_secs(15);

/// Distance of tries to connect again.
const RETRY: Duration = Duration::from_millis(100);

/// Most jobs of one request. A script that takes some thousands ends amid its work, and they are lost.
pub(crate) const MOST: usize = 1000;

/// One of so many requests that are shared out by priority goes to any partitions.
const FAIR: usize = 10;

/// Queues that an inbox remembers though nobody waits for them.
const QUEUES: usize = 100;

/// Who takes, and what this inbox was told in place of others.
#[derive(Default)]
struct Calls {
    /// Tasks that take.
    tasks: usize,
    /// Partitions that were not asked since, and of which others would be told.
    told: BTreeSet<u16>,
}

/// What the tasks that wait for one queue and the one that hears share.
struct News {
    /// Partitions in which jobs may be ready. Of the others this inbox is told.
    maybe: Vec<AtomicBool>,
    calls: Mutex<Calls>,
    changed: Notify,
    next_sweep: Mutex<Instant>,
    /// A request without permits was refused.
    is_limited: AtomicBool,
    /// Notices that jobs of a priority may be ready, since no partition had any: while there are some, partitions are asked
    /// which priorities they have before a job is taken.
    urgent: AtomicUsize,
    /// Requests that were shared out by priority.
    ranked: AtomicUsize,
}

impl News {
    fn new() -> Self {
        Self {
            maybe: (0..MOST_PARTITIONS)
                .map(|_| AtomicBool::new(true))
                .collect(),
            calls: Mutex::default(),
            changed: Notify::new(),
            next_sweep: Mutex::new(Instant::now() + SWEEP),
            is_limited: AtomicBool::new(false),
            urgent: AtomicUsize::new(1),
            ranked: AtomicUsize::new(0),
        }
    }

    // ORDERING: Relaxed, here and below; a flag carries no data, and `Notify` or the next sweep brings
    // what it says to every task.
    fn all(&self) {
        self.maybe
            .iter()
            .for_each(|flag| flag.store(true, Ordering::Relaxed));
        self.hear_urgent();
        self.changed.notify_one();
    }

    /// Notes that jobs of a priority may be ready.
    fn hear_urgent(&self) {
        // ORDERING: see `all`.
        self.urgent.fetch_add(1, Ordering::Relaxed);
    }

    /// Has all partitions asked if that is due; when it is due next. Those that wait do this themselves, because the task
    /// that hears may hang, or stand still with its runtime.
    fn sweep(&self) -> Instant {
        let mut next = lock(&self.next_sweep);
        let now = Instant::now();
        if now >= *next {
            *next = now + SWEEP;
            self.all();
        }
        *next
    }

    /// Waits until there is news, or it is `wake`.
    async fn wait(&self, mut changed: Pin<&mut Notified<'_>>, wake: Instant) {
        let mut has_changed = false;
        while !has_changed && Instant::now() < wake {
            let till = self.sweep().min(wake);
            has_changed = timeout_at(till.into(), changed.as_mut()).await.is_ok();
        }
    }

    /// Notes what this inbox was told in place of others; not if nobody takes here.
    fn told(&self, partition: u16) -> bool {
        let mut calls = lock(&self.calls);
        let takes = calls.tasks > 0;
        if takes {
            calls.told.insert(partition);
        }
        takes
    }

    /// Notes that partitions are asked.
    fn asks(&self, shares: &[(u16, usize)]) {
        let mut calls = lock(&self.calls);
        for (partition, _) in shares {
            calls.told.remove(partition);
        }
    }

    fn one(&self, partition: u16) {
        self.keep(partition);
        self.changed.notify_one();
    }

    /// Notes that a partition is to be asked again, at the next occasion.
    fn keep(&self, partition: u16) {
        if let Some(flag) = self.maybe.get(usize::from(partition)) {
            // ORDERING: see `all`.
            flag.store(true, Ordering::Relaxed);
        }
    }

    fn flagged(&self, partitions: u16) -> Vec<u16> {
        // ORDERING: see `all`.
        let flagged = self
            .maybe
            .iter()
            .zip(0..partitions)
            .filter(|(flag, _)| flag.swap(false, Ordering::Relaxed));
        flagged.map(|(_, partition)| partition).collect()
    }
}

/// Flags partitions again when it is dropped, also amid the question whether they have jobs.
struct FlagAgain<'a> {
    news: &'a News,
    partitions: Vec<u16>,
}

impl Drop for FlagAgain<'_> {
    fn drop(&mut self) {
        self.partitions
            .iter()
            .for_each(|&partition| self.news.one(partition));
    }
}

/// The queues that are waited for.
#[derive(Default)]
struct Board {
    queues: Mutex<HashMap<Queue, Arc<News>>>,
    closed: AtomicBool,
}

impl Board {
    fn of(&self, queue: &Queue) -> Arc<News> {
        let mut queues = lock(&self.queues);
        if let Some(news) = queues.get(queue) {
            return Arc::clone(news);
        }
        if queues.len() >= QUEUES {
            // Anybody can ask for any name.
            queues.retain(|_, news| Arc::strong_count(news) > 1);
        }
        let news = Arc::new(News::new());
        queues.insert(queue.clone(), Arc::clone(&news));
        news
    }

    fn each(&self, tell: impl Fn(&News)) {
        lock(&self.queues).values().for_each(|news| tell(news));
    }
}

/// Where the jobs of a namespace arrive.
pub(crate) struct Inbox {
    store: Store,
    board: Arc<Board>,
    /// Names the channel that tells it of jobs.
    name: Arc<str>,
    hearing: Mutex<JoinHandle<()>>,
}

impl Inbox {
    pub(crate) fn open(store: Store) -> Self {
        let board = Arc::new(Board::default());
        let name: Arc<str> = format!("{:016x}", random()).into();
        let hearing = tokio::spawn(hear(store.clone(), Arc::clone(&board), Arc::clone(&name)));
        Self {
            store,
            board,
            name,
            hearing: Mutex::new(hearing),
        }
    }

    /// Hears notices on this runtime if the one that heard them has ended.
    fn hear_again(&self) {
        let mut hearing = lock(&self.hearing);
        if hearing.is_finished() {
            let (board, name) = (Arc::clone(&self.board), Arc::clone(&self.name));
            *hearing = tokio::spawn(hear(self.store.clone(), board, name));
        }
    }

    /// Takes at most `most` jobs of one of some queues, and at most [`MOST`], to be ended within the hold. Waits until there
    /// is one, or it is `end`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`].
    pub(crate) async fn take(
        &self,
        queues: &[Queue],
        most: usize,
        hold: &Hold,
        end: Instant,
    ) -> Result<Taken> {
        let of = |queue: &Queue| (queue.clone(), self.board.of(queue));
        let all: Vec<(Queue, Arc<News>)> = queues.iter().map(of).collect();
        let most = most.clamp(1, MOST);
        let _taking: Vec<Taking<'_>> = all
            .iter()
            .map(|(queue, news)| Taking::begin(&self.store, queue, news))
            .collect();
        let mut has_sifted = false;
        self.hear_again();
        loop {
            let (mut none, mut wake) = (Taken::default(), end);
            // Each queue is the first one at times, so that none starves.
            let first = fastrand::usize(..all.len());
            let (before, after) = all.split_at(first);
            for (queue, news) in after.iter().chain(before) {
                news.sweep();
                let (arrived, again) = self.take_now(news, queue, most, hold).await?;
                if !arrived.deliveries.is_empty() {
                    // This task may have listened for other queues, and taken their notices from others.
                    let others = all.iter().filter(|(other, _)| other != queue);
                    others.for_each(|(_, news)| news.changed.notify_one());
                    return Ok(arrived);
                }
                none.left += arrived.left;
                none.orphans += arrived.orphans;
                none.died += arrived.died;
                wake = again.map_or(wake, |again| wake.min(Instant::now() + again));
            }
            let now = Instant::now();
            if none.left > 0 && !self.is_closed() && (now < end || !has_sifted) {
                // Those partitions were empty, and there are others.
                for (queue, news) in &all {
                    self.sift(news, queue, hold).await;
                }
                has_sifted = true;
                continue;
            }
            if now >= end {
                return Ok(none);
            }
            // Only now: whoever listens takes a notice from the others, so he must not go without asking again.
            let mut heard: Vec<_> = all
                .iter()
                .map(|(_, news)| Box::pin(news.changed.notified()))
                .collect();
            // From here on `close` is heard.
            heard.iter_mut().for_each(|one| _ = one.as_mut().enable());
            if self.is_closed() {
                return Ok(none);
            }
            let waits = all.iter().zip(&mut heard);
            let waits =
                waits.map(|((_, news), changed)| Box::pin(news.wait(changed.as_mut(), wake)));
            select_all(waits).await;
        }
    }

    /// Takes what is there, as far as the limits of the queue allow it; says when they may allow more.
    async fn take_now(
        &self,
        news: &News,
        queue: &Queue,
        most: usize,
        hold: &Hold,
    ) -> Result<(Taken, Option<Duration>)> {
        // ORDERING: Relaxed; a request that does not know it yet is refused, and asks again.
        if !news.is_limited.load(Ordering::Relaxed) {
            let arrived = self.take_from(news, queue, most, hold, 0).await?;
            if !arrived.needs_permits {
                return Ok((arrived, None));
            }
            // ORDERING: see above.
            news.is_limited.store(true, Ordering::Relaxed);
        }
        let permits = self.store.permits(queue, most, hold.lasts).await?;
        if !permits.are_needed() {
            // ORDERING: see above.
            news.is_limited.store(false, Ordering::Relaxed);
        }
        if permits.count == 0 {
            return Ok((Taken::default(), permits.again));
        }
        let taken = self
            .take_from(news, queue, permits.count, hold, permits.end_ms)
            .await;
        let mut arrived = taken.unwrap_or_else(|error| {
            tracing::debug!(%queue, "no jobs for the permits: {error}");
            Taken::default()
        });
        let settled = self.store.settle(queue, &permits, &mut arrived.deliveries);
        if let Err(error) = settled.await {
            tracing::debug!(%queue, "permits are kept until their holds end: {error}");
        }
        if arrived.needs_permits && arrived.deliveries.is_empty() {
            // They ended on the way, and the next ones may, too.
            tokio::time::sleep(AGAIN).await;
        }
        Ok((arrived, None))
    }

    async fn take_from(
        &self,
        news: &News,
        queue: &Queue,
        most: usize,
        hold: &Hold,
        permits_end_ms: u64,
    ) -> Result<Taken> {
        let (shares, others) = self.shares(news, queue, most, hold).await;
        news.asks(&shares);
        let asked = shares.iter().map(|&(partition, share)| {
            self.store
                .take(partition, queue, share, hold, permits_end_ms, &self.name)
        });
        let mut arrived = Taken {
            left: others,
            ..Taken::default()
        };
        let mut failed = None;
        for ((partition, _), taken) in shares.iter().zip(join_all(asked).await) {
            let left = match taken {
                Ok(taken) => {
                    arrived.deliveries.extend(taken.deliveries);
                    arrived.orphans += taken.orphans;
                    arrived.died += taken.died;
                    if taken.needs_permits {
                        arrived.needs_permits = true;
                        news.keep(*partition);
                    }
                    taken.left
                }
                Err(error) => {
                    failed = Some(error);
                    1
                }
            };
            arrived.left += left;
            if left > 0 {
                news.one(*partition);
            }
        }
        if let Some(error) = failed.filter(|_| arrived.deliveries.is_empty()) {
            return Err(error);
        }
        arrived
            .deliveries
            .sort_by_key(|one| std::cmp::Reverse(one.priority));
        if arrived.left > 0 {
            news.changed.notify_one();
        }
        if arrived.orphans > 0 {
            tracing::error!(arrived.orphans, "jobs without a record: evicted?");
        }
        Ok(arrived)
    }

    /// Chooses how many jobs are taken from which of the flagged partitions. Flags the others again, and returns how many
    /// they are.
    async fn shares(
        &self,
        news: &News,
        queue: &Queue,
        most: usize,
        hold: &Hold,
    ) -> (Vec<(u16, usize)>, u64) {
        let mut flagged = FlagAgain {
            news,
            partitions: news.flagged(self.store.partitions()),
        };
        fastrand::shuffle(&mut flagged.partitions);
        // ORDERING: see `all`.
        let shares = match news.urgent.load(Ordering::Relaxed) {
            0 => None,
            heard => {
                self.most_urgent(&mut flagged, heard, queue, most, hold)
                    .await
            }
        };
        let shares = shares.unwrap_or_else(|| {
            // A request for few jobs asks few partitions; the others are left to other tasks.
            let asked = &flagged.partitions[..flagged.partitions.len().min(most)];
            let share = |at| most / asked.len() + usize::from(at < most % asked.len());
            let shares = asked.iter().enumerate();
            shares.map(|(at, &one)| (one, share(at))).collect()
        });
        flagged
            .partitions
            .retain(|partition| shares.iter().all(|(asked, _)| asked != partition));
        let others = flagged.partitions.len() as u64;
        (shares, others)
    }

    /// Asks all flagged partitions together which priorities they have, and shares the request out from the highest one
    /// down; `None` if none has any above 0, and for each tenth request, so that no partition starves. Those that have
    /// nothing lose their flags.
    async fn most_urgent(
        &self,
        flagged: &mut FlagAgain<'_>,
        heard: usize,
        queue: &Queue,
        most: usize,
        hold: &Hold,
    ) -> Option<Vec<(u16, usize)>> {
        let asked = flagged.partitions.iter();
        let asked =
            asked.map(|&partition| self.store.take(partition, queue, 0, hold, 0, &self.name));
        let mut waiting = Vec::new();
        for (&partition, counted) in flagged.partitions.iter().zip(join_all(asked).await) {
            // One that does not answer is asked for a job, and that request fails.
            let counts = counted.map_or_else(|_| vec![1], |counted| counted.waiting);
            waiting.push((partition, counts));
        }
        let of = |counts: &[u64], priority: usize| counts.get(priority).copied().unwrap_or(0);
        let has_urgent = |(_, counts): &(u16, Vec<u64>)| counts.iter().skip(1).any(|&n| n > 0);
        let is_urgent = waiting.iter().any(has_urgent);
        waiting.retain(|(_, counts)| counts.iter().any(|&count| count > 0));
        flagged.partitions = waiting.iter().map(|(partition, _)| *partition).collect();
        let news = flagged.news;
        if !is_urgent {
            // ORDERING: see `all`. A notice that has come meanwhile counts.
            let (set, failed) = (Ordering::Relaxed, Ordering::Relaxed);
            let _ = news.urgent.compare_exchange(heard, 0, set, failed);
            return None;
        }
        // ORDERING: Relaxed; it only counts.
        if news.ranked.fetch_add(1, Ordering::Relaxed) % FAIR == FAIR - 1 {
            return None;
        }
        let (mut left, mut shares) = (most, HashMap::new());
        for priority in (0..=usize::from(Priority::HIGHEST.get())).rev() {
            for (partition, counts) in &waiting {
                let count = usize::try_from(of(counts, priority)).unwrap_or(usize::MAX);
                let share = count.min(left);
                left -= share;
                if share > 0 {
                    *shares.entry(*partition).or_default() += share;
                }
            }
        }
        Some(shares.into_iter().collect())
    }

    /// Asks all flagged partitions together whether they have jobs. Those that have, or that do not answer, stay
    /// flagged.
    async fn sift(&self, news: &News, queue: &Queue, hold: &Hold) {
        let mut flagged = FlagAgain {
            news,
            partitions: news.flagged(self.store.partitions()),
        };
        let counts = flagged
            .partitions
            .iter()
            .map(|&partition| self.store.take(partition, queue, 0, hold, 0, &self.name));
        let mut counts = join_all(counts).await.into_iter();
        let is_empty = |counted: Result<Taken>| counted.is_ok_and(|counted| counted.left == 0);
        flagged
            .partitions
            .retain(|_| !counts.next().is_some_and(is_empty));
    }

    /// Ends every wait, now and later.
    pub(crate) fn close(&self) {
        // ORDERING: Relaxed; `notify_waiters` and the `enable` of `take` take the same lock.
        self.board.closed.store(true, Ordering::Relaxed);
        self.board.each(|news| news.changed.notify_waiters());
    }

    pub(crate) fn is_closed(&self) -> bool {
        // ORDERING: see `close`.
        self.board.closed.load(Ordering::Relaxed)
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        lock(&self.hearing).abort();
    }
}

/// Hears in which partitions jobs are ready, for as long as the inbox is there.
async fn hear(store: Store, board: Arc<Board>, name: Arc<str>) {
    loop {
        if let Err(error) = hear_on(&store, &board, &name).await {
            tracing::debug!("no notices of ready jobs: {error}");
        }
        board.each(News::all);
        tokio::time::sleep(RETRY).await;
    }
}

async fn hear_on(store: &Store, board: &Board, name: &str) -> redis::RedisResult<()> {
    let link = &store.link;
    let (mut sink, mut notices) = link.pubsub().await?.split();
    let channels = [store.ready_channel(), store.inbox_channel(0, name)];
    link.within(sink.subscribe(&channels)).await?;
    let mut shards = link.shards().await?;
    let mut subscribed = 0;
    // What became ready before is not announced again.
    board.each(News::all);
    let mut check = interval(CHECK);
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        if let Some(shards) = &shards {
            let (known, all) = (subscribed, store.partitions());
            let added = (known..all).map(|one| shards.subscribe(store.inbox_channel(one, name)));
            try_join_all(added).await?;
            subscribed = all;
            if known < all {
                board.each(News::all);
            }
        }
        let of_shards = async {
            match &mut shards {
                Some(shards) => shards.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            notice = notices.next() => match notice {
                Some(notice) => heard(store, board, &notice.get_payload::<String>().unwrap_or_default()),
                None => return Ok(()),
            },
            notice = of_shards => heard(store, board, &notice?),
            _ = check.tick() => {
                link.within(sink.ping::<()>()).await?;
                if let Some(shards) = &shards {
                    shards.check().await?;
                }
                let _ = store.refresh().await;
            }
        }
    }
}

/// A notice begins with `*` for all partitions, `!` if jobs of a priority are ready, or a partition and whether other
/// inboxes would be told; a queue follows.
fn heard(store: &Store, board: &Board, notice: &str) {
    let (word, rest) = notice.split_once(' ').unwrap_or((notice, ""));
    let partition = word.parse::<u16>().ok();
    let (others, suffix) = match partition {
        Some(_) => rest.split_once(' ').unwrap_or((rest, "")),
        None => ("", rest),
    };
    let queue = Queue::of_suffix(suffix);
    let news = lock(&board.queues).get(&queue).cloned();
    match (news, partition) {
        (Some(news), Some(partition)) => {
            if others == "1" && !news.told(partition) {
                pass(store, &queue, [partition].into());
            }
            news.one(partition);
        }
        (None, Some(partition)) => pass(store, &queue, [partition].into()),
        // The notice of the partition comes next.
        (Some(news), None) if word == "!" => news.hear_urgent(),
        (Some(news), None) => news.all(),
        // Nobody here waits for this queue; who begins to asks all partitions.
        (None, None) => {}
    }
}

/// Has other inboxes told what nobody here takes. If that fails, the next renewal does it.
fn pass(store: &Store, queue: &Queue, partitions: BTreeSet<u16>) {
    let (store, queue) = (store.clone(), queue.clone());
    // A task may be dropped where no runtime is.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return;
    };
    runtime.spawn(async move {
        for partition in partitions {
            if let Err(error) = store.pass(partition, &queue).await {
                tracing::debug!(partition, "not passed on: {error}");
            }
        }
    });
}

/// A task that takes. When the last one ends, others are told what it has not asked.
struct Taking<'a> {
    store: &'a Store,
    queue: &'a Queue,
    news: &'a News,
}

impl<'a> Taking<'a> {
    fn begin(store: &'a Store, queue: &'a Queue, news: &'a News) -> Self {
        lock(&news.calls).tasks += 1;
        Self { store, queue, news }
    }
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        let mut calls = lock(&self.news.calls);
        calls.tasks -= 1;
        if calls.tasks == 0 && !calls.told.is_empty() {
            pass(self.store, self.queue, std::mem::take(&mut calls.told));
        }
    }
}

/// How long one request waits for something new.
const WAIT: Duration = Duration::from_secs(1);

/// Distance of tries that may well come to nothing.
const AGAIN: Duration = Duration::from_millis(50);

/// One consumer of a namespace.
pub struct Consumer {
    inbox: Inbox,
    queues: Vec<Queue>,
    hold: Hold,
}

impl Consumer {
    /// Connects, for jobs of the default queue. Each has to be ended within `hold`; later it is given to any consumer
    /// again.
    ///
    /// # Errors
    ///
    /// Those of [`Store::open`]; [`StoreError::Unfit`] for a hold of 0 or above ten years.
    pub async fn connect(settings: Settings, hold: Duration) -> Result<Self> {
        if hold.is_zero() || hold > FARTHEST {
            let said = "hold: use more than 0 and at most ten years";
            return Err(StoreError::Unfit(said.to_owned()));
        }
        let inbox = Inbox::open(Store::open(settings).await?);
        Ok(Self {
            inbox,
            queues: vec![Queue::default()],
            hold: Hold {
                lasts: hold,
                by: String::new(),
            },
        })
    }

    /// Takes the jobs of this queue instead.
    #[must_use]
    pub fn of(self, queue: Queue) -> Self {
        self.of_any(queue, [])
    }

    /// Takes the jobs of these queues instead, from whichever has some.
    #[must_use]
    pub fn of_any(self, queue: Queue, others: impl IntoIterator<Item = Queue>) -> Self {
        let queues = std::iter::once(queue).chain(others).collect();
        Self { queues, ..self }
    }

    /// Gives it a name, which people see beside the jobs that it holds.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.hold.by = name.into();
        self
    }

    /// The next job. Waits as long as there is none, and while Redis is away. Dropping the future loses
    /// nothing: what was read and not returned comes again after its hold, as its next attempt.
    pub async fn next(&mut self) -> Delivery {
        loop {
            if let Some(delivery) = self.batch(1).await.pop() {
                return delivery;
            }
        }
    }

    /// The next jobs, at least one and at most `most` or 1000, with fewer requests to Redis. Waits as
    /// [`next`](Self::next) does.
    /// Each of them has to be ended within the hold, so take only as many as that leaves time for.
    pub async fn batch(&mut self, most: usize) -> Vec<Delivery> {
        loop {
            let end = Instant::now() + WAIT;
            let taken = self.inbox.take(&self.queues, most, &self.hold, end);
            match taken.await {
                Ok(arrived) if arrived.deliveries.is_empty() => {}
                Ok(arrived) => return arrived.deliveries,
                Err(error) => {
                    tracing::debug!("no delivery: {error}");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    /// Ends jobs; how many of them were still held.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`]; what was not acknowledged is delivered again.
    pub async fn acknowledge(&self, deliveries: &[Delivery]) -> Result<u64> {
        self.store()
            .acknowledge(&receipts(deliveries))
            .await
            .map(count)
    }

    /// Gives failed jobs back: they come again after their backoff, or are dead if their attempts are used
    /// up.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`]; what was not given back is delivered again.
    pub async fn fail(&self, deliveries: &[Delivery], reason: &str) -> Result<()> {
        let nack = Nack {
            reason: reason.to_owned(),
            ..Nack::default()
        };
        self.store()
            .nack(&receipts(deliveries), &nack)
            .await
            .map(drop)
    }

    /// Holds jobs for longer: `hold` from now. Returns how many of them were still held; a
    /// job that was cancelled is not.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`].
    pub async fn extend(&self, deliveries: &[Delivery], hold: Duration) -> Result<u64> {
        let held = self.store().extend(&receipts(deliveries), hold).await?;
        Ok(held.iter().filter(|one| **one == Held::Longer).count() as u64)
    }

    /// The jobs of the namespace.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.inbox.store
    }
}

fn count(held: Vec<bool>) -> u64 {
    held.into_iter().map(u64::from).sum()
}

fn receipts(deliveries: &[Delivery]) -> Vec<Receipt> {
    deliveries.iter().map(|one| one.receipt.clone()).collect()
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer")
            .field("hold", &self.hold)
            .finish_non_exhaustive()
    }
}
