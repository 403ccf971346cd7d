//! What is asked of all, and what is measured.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use clap::Args;
use futures_util::stream::{self, Stream, StreamExt, TryStreamExt};
use tokio::sync::mpsc;

use crate::error::Failure;
use crate::settings::{duration, now_us, rate};

/// The same for all.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Work {
    /// Time of paced load per contestant
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "DURATION")]
    duration: Duration,
    /// Jobs per second meanwhile
    #[arg(long, default_value = "1000", value_parser = rate, value_name = "RATE")]
    rate: f64,
    /// Jobs that are all due at one moment
    #[arg(long, default_value = "20000", value_name = "N")]
    burst: u64,
}

/// Due so many milliseconds ahead, spread evenly.
const AHEAD_MS: std::ops::Range<u64> = 200..2000;

/// Requests under way while accepting at full speed.
const UNDER_WAY: usize = 64;

/// How long accepting at full speed is measured.
const FULL_SPEED: Duration = Duration::from_secs(4);

/// Longest wait for what is still to come.
const LINGER: Duration = Duration::from_secs(60);

/// One contestant's figures: a line of the table, and whether all came and none early.
pub(super) struct Row {
    pub(super) line: String,
    pub(super) is_sound: bool,
}

/// The head of the table of rows.
pub(super) const HEAD: &str = "\
| | accepted/s | fired/s | late p50 | p99 | p99.9 | early | missing |
|---|---:|---:|---:|---:|---:|---:|---:|";

/// Something that accepts jobs.
pub(super) trait Contestant: Sync {
    /// Accepts a job with a number, due at a moment.
    fn accept(&self, number: u64, due_ms: u64) -> impl Future<Output = Result<(), String>> + Send;
}

/// Where arrivals are told: job number, microseconds since 1970.
pub(super) type Arrived = mpsc::UnboundedSender<(u64, u64)>;

impl Work {
    /// Paced load, a burst, and full speed. `consume` takes what fires and says so.
    pub(super) async fn measure<F: Future<Output: Send> + Send + 'static>(
        &self,
        name: &str,
        contestant: &impl Contestant,
        consume: impl FnOnce(Arrived) -> F,
    ) -> Result<Row, Failure> {
        eprintln!("{name} ...");
        let (arrived, mut arrivals) = mpsc::unbounded_channel();
        let consuming = tokio::spawn(consume(arrived));

        let count = (self.duration.as_secs_f64() * self.rate) as u64;
        let at = |number: u64| Duration::from_secs_f64(number as f64 / self.rate);
        let (start, start_ms) = (Instant::now(), now_us() / 1000);
        let ahead = |number| start_ms + at(number).as_millis() as u64 + fastrand::u64(AHEAD_MS);
        let due: Vec<u64> = (0..count).map(ahead).collect();
        let paced = stream::iter(0..count).map(async |number| {
            tokio::time::sleep_until((start + at(number)).into()).await;
            contestant.accept(number, due[number as usize]).await
        });
        let (made, came) =
            tokio::join!(accepted(paced, UNDER_WAY * 4), gather(&mut arrivals, count));
        made?;
        let late = |(number, at): (&u64, &u64)| *at as i64 - (due[*number as usize] * 1000) as i64;
        let mut late_us: Vec<i64> = came.iter().map(late).collect();
        late_us.sort_unstable();
        let early = late_us.iter().filter(|late| **late < 0).count();
        let missing = count - came.len() as u64;

        let due_ms = now_us() / 1000 + 4000 + self.burst / 5;
        let burst = stream::iter(0..self.burst).map(|number| contestant.accept(number, due_ms));
        accepted(burst, UNDER_WAY).await?;
        let came = gather(&mut arrivals, self.burst).await;
        // From the moment at which all are due until the last has come; none if one is missing.
        let last = came.values().max().filter(|_| came.len() as u64 == self.burst);
        let fired = last.map_or_else(
            || "-".to_owned(),
            |last| {
                let taken = last.saturating_sub(due_ms * 1000).max(1) as f64 / 1e6;
                format!("{:.0}", self.burst as f64 / taken)
            },
        );

        let (far, start) = (now_us() / 1000 + 3_600_000, Instant::now());
        let full_speed = stream::iter(0..)
            .take_while(|_| std::future::ready(start.elapsed() < FULL_SPEED))
            .map(|number| contestant.accept(number, far));
        let made = accepted(full_speed, UNDER_WAY).await?;
        let per_second = made as f64 / start.elapsed().as_secs_f64();
        consuming.abort();

        let late = [0.5, 0.99, 0.999].map(|share| {
            let at = (late_us.len().saturating_sub(1) as f64 * share).round() as usize;
            let late = late_us.get(at).map_or(f64::NAN, |late| *late as f64 / 1000.0);
            format!("{late:.1} ms")
        });
        let late = late.join(" | ");
        let line = format!("| {name} | {per_second:.0} | {fired} | {late} | {early} | {missing} |");
        Ok(Row { line, is_sound: early == 0 && missing == 0 })
    }
}

/// Makes requests, so many at a time, and counts them.
async fn accepted<F: Future<Output = Result<(), String>>>(
    requests: impl Stream<Item = F>,
    under_way: usize,
) -> Result<usize, Failure> {
    let counted = requests.buffer_unordered(under_way).try_fold(0, async |n, ()| Ok(n + 1));
    Ok(counted.await?)
}

/// The first arrival of each of so many jobs, or of as many as come.
async fn gather(
    arrivals: &mut mpsc::UnboundedReceiver<(u64, u64)>,
    count: u64,
) -> HashMap<u64, u64> {
    let mut came = HashMap::new();
    while (came.len() as u64) < count {
        match tokio::time::timeout(LINGER, arrivals.recv()).await {
            Ok(Some((number, at))) => drop(came.entry(number).or_insert(at)),
            _ => break,
        }
    }
    came
}
