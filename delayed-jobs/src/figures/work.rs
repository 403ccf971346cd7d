//! What is asked of everybody, and what is measured.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use futures_util::stream::{self, StreamExt};
use tokio::sync::mpsc;

use crate::failure::Failure;
use crate::settings::{duration, rate};

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
    burst: usize,
}

/// Due so many milliseconds ahead, spread evenly.
pub(super) const AHEAD_MS: std::ops::Range<u64> = 200..2000;

/// Requests under way while accepting at full speed.
const UNDER_WAY: usize = 64;

/// How long accepting at full speed is measured.
const FULL_SPEED: Duration = Duration::from_secs(4);

/// Longest wait for what is still to come.
const LINGER: Duration = Duration::from_secs(60);

/// One contestant's figures.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) name: String,
    /// Sorted, in microseconds, negative if early.
    pub(super) late_us: Vec<i64>,
    pub(super) early: u64,
    pub(super) missing: u64,
    /// Jobs per second.
    pub(super) accepted: f64,
    /// Of a burst; none if not all of it has come.
    pub(super) fired: Option<f64>,
}

/// The head of the table of rows.
pub(super) const HEAD: &str = "\
| | accepted/s | fired/s | late p50 | p99 | p99.9 | early | missing |
|---|---:|---:|---:|---:|---:|---:|---:|
";

impl Row {
    pub(super) fn late_ms(&self, share: f64) -> f64 {
        let last = self.late_us.len().saturating_sub(1);
        let at = (last as f64 * share).round() as usize;
        self.late_us.get(at).map_or(f64::NAN, |late| *late as f64 / 1000.0)
    }

    pub(super) fn line(&self) -> String {
        let late = [0.5, 0.99, 0.999].map(|share| format!("{:.1} ms", self.late_ms(share)));
        let fired = self.fired.map_or_else(|| "-".to_owned(), |fired| format!("{fired:.0}"));
        format!(
            "| {} | {:.0} | {fired} | {} | {} | {} |\n",
            self.name,
            self.accepted,
            late.join(" | "),
            self.early,
            self.missing
        )
    }
}

/// Something that accepts jobs; what it fires it sends as job number and moment of arrival.
pub(super) trait Contestant: Sync {
    /// Accepts a job with a number, due at a moment.
    fn accept(&self, number: u64, due_ms: u64) -> impl Future<Output = Result<(), String>> + Send;
}

/// Microseconds since 1970.
pub(super) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Arrivals: job number, microseconds since 1970.
pub(super) type Arrivals = mpsc::UnboundedReceiver<(u64, u64)>;

impl Work {
    /// Paced load, a burst, and full speed.
    pub(super) async fn measure<C: Contestant>(
        &self,
        name: &str,
        contestant: &C,
        arrivals: &mut Arrivals,
    ) -> Result<Row, Failure> {
        eprintln!("{name} ...");
        let late = self.paced(contestant, arrivals).await?;
        let fired = self.burst(contestant, arrivals).await?;
        let accepted = full_speed(contestant).await?;
        let early = late.0.iter().filter(|late| **late < 0).count() as u64;
        Ok(Row { name: name.to_owned(), late_us: late.0, early, missing: late.1, accepted, fired })
    }

    /// Sorted lateness in microseconds, and how many have not come.
    async fn paced<C: Contestant>(
        &self,
        contestant: &C,
        arrivals: &mut Arrivals,
    ) -> Result<(Vec<i64>, u64), Failure> {
        let count = (self.duration.as_secs_f64() * self.rate) as u64;
        let start = Instant::now();
        let due: Vec<u64> = (0..count)
            .map(|n| {
                let at = now_us() / 1000 + (n as f64 / self.rate * 1000.0) as u64;
                at + fastrand::u64(AHEAD_MS)
            })
            .collect();
        let made = stream::iter(0..count).map(async |number| {
            let at = start + Duration::from_secs_f64(number as f64 / self.rate);
            tokio::time::sleep_until(at.into()).await;
            contestant.accept(number, due[number as usize]).await
        });
        let made = made.buffer_unordered(UNDER_WAY * 4).collect::<Vec<_>>();
        let (made, came) = tokio::join!(made, gather(arrivals, count));
        check(made)?;
        let mut late: Vec<i64> = came
            .iter()
            .map(|(number, at)| *at as i64 - (due[*number as usize] * 1000) as i64)
            .collect();
        late.sort_unstable();
        Ok((late, count - came.len() as u64))
    }

    /// Jobs per second from the moment at which all are due until the last has come; none if one is missing.
    async fn burst<C: Contestant>(
        &self,
        contestant: &C,
        arrivals: &mut Arrivals,
    ) -> Result<Option<f64>, Failure> {
        let count = self.burst as u64;
        let due_ms = now_us() / 1000 + 4000 + count / 5;
        let made =
            stream::iter(0..count).map(async |number| contestant.accept(number, due_ms).await);
        check(made.buffer_unordered(UNDER_WAY).collect().await)?;
        let came = gather(arrivals, count).await;
        let last = came.values().max().copied().unwrap_or(due_ms * 1000);
        let taken = last.saturating_sub(due_ms * 1000).max(1) as f64 / 1e6;
        Ok((came.len() as u64 == count).then(|| count as f64 / taken))
    }
}

/// Jobs per second that are accepted, with many requests under way; they are due much later.
async fn full_speed<C: Contestant>(contestant: &C) -> Result<f64, Failure> {
    let due_ms = now_us() / 1000 + 3_600_000;
    let start = Instant::now();
    let made = stream::iter(0..)
        .take_while(|_| std::future::ready(start.elapsed() < FULL_SPEED))
        .map(async |number| contestant.accept(number, due_ms).await)
        .buffer_unordered(UNDER_WAY)
        .collect::<Vec<_>>()
        .await;
    let count = made.len();
    check(made)?;
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

fn check(made: Vec<Result<(), String>>) -> Result<(), Failure> {
    made.into_iter().collect::<Result<(), String>>().map_err(Failure::System)
}

/// The first arrival of each of so many jobs, or of as many as come.
async fn gather(arrivals: &mut Arrivals, count: u64) -> HashMap<u64, u64> {
    let mut came = HashMap::new();
    while (came.len() as u64) < count {
        match tokio::time::timeout(LINGER, arrivals.recv()).await {
            Ok(Some((number, at))) => drop(came.entry(number).or_insert(at)),
            _ => break,
        }
    }
    came
}
