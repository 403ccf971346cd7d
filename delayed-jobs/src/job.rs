//! Jobs: their names, what is asked of them, what they have come to.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser};
use serde::de::value::StrDeserializer;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::units::{duration, millis, random};

/// The most partitions that a namespace can have.
pub(crate) const MOST_PARTITIONS: u16 = 4096;

/// Longest name of a queue.
const QUEUE: usize = 50;

/// The random digits of an id; its priority comes after them.
const DIGITS: usize = 16;

/// The farthest a job can be ahead: ten years.
pub(crate) const FARTHEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The name of a queue: `default`, or 1 to 50 letters, digits, `-` and `_`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Queue(
    /// Empty for the default queue.
    String,
);

/// The queue of jobs that name none.
const DEFAULT: &str = "default";

impl Queue {
    /// The name as keys and ids have it: nothing for the default queue.
    pub(crate) fn suffix(&self) -> &str {
        &self.0
    }

    /// Reads what keys and ids have.
    pub(crate) fn of_suffix(suffix: &str) -> Self {
        Self(suffix.to_owned())
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { DEFAULT } else { &self.0 })
    }
}

impl FromStr for Queue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if !(1..=QUEUE).contains(&text.len()) || !text.chars().all(fits) {
            return Err(format!(
                "queue: a name has 1 to {QUEUE} letters, digits, `-` and `_`"
            ));
        }
        Ok(Self::of_suffix(if text == DEFAULT { "" } else { text }))
    }
}

impl Serialize for Queue {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Queue {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// How urgent a job is among those of its queue that are due: 0 to 9, and the higher is handed out first. 0 without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Priority(u8);

impl Priority {
    /// The highest.
    pub const HIGHEST: Self = Self(9);

    /// A priority of 0 to 9.
    ///
    /// # Errors
    ///
    /// Any other number.
    pub fn new(number: u8) -> Result<Self, String> {
        match number <= Self::HIGHEST.0 {
            true => Ok(Self(number)),
            false => Err("priority: use 0 to 9".to_owned()),
        }
    }

    /// As a number.
    #[must_use]
    pub fn get(self) -> u8 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Priority {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::new(u8::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

/// The name of a job: its partition, 64 random bits, its priority if that is not 0, and its queue if that is not the
/// default one. Any node can tell from it where the job is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId {
    partition: u16,
    text: String,
}

impl JobId {
    pub(crate) fn random(partition: u16, queue: &Queue, priority: Priority) -> Self {
        let mut text = format!("{partition}-{:016x}", random());
        if priority > Priority::default() {
            text = format!("{text}{}", priority.get());
        }
        if !queue.suffix().is_empty() {
            text = format!("{text}-{}", queue.suffix());
        }
        Self { partition, text }
    }

    /// The queue the job is in.
    #[must_use]
    pub fn queue(&self) -> Queue {
        Queue::of_suffix(self.text.splitn(3, '-').nth(2).unwrap_or(""))
    }

    /// How urgent the job is within its queue.
    #[must_use]
    pub fn priority(&self) -> Priority {
        let digits = self.text.split('-').nth(1).unwrap_or("");
        let last = digits.as_bytes().get(DIGITS);
        Priority(last.map_or(0, |digit| digit - b'0'))
    }

    /// The partition the job belongs to.
    #[must_use]
    pub fn partition(&self) -> u16 {
        self.partition
    }

    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for JobId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        let mut parts = text.splitn(3, '-');
        let number = parts.next().unwrap_or("");
        let digits = parts.next().unwrap_or("");
        let queue = parts.next().map(str::parse::<Queue>);
        let named = queue.is_none_or(|queue| queue.is_ok_and(|queue| queue != Queue::default()));
        let partition = number
            .parse()
            .ok()
            .filter(|n: &u16| *n < MOST_PARTITIONS && n.to_string() == number)
            .filter(|_| {
                let (random, priority) = digits.split_at_checked(DIGITS).unwrap_or(("", ""));
                let is_priority = priority.is_empty()
                    || priority.len() == 1 && (b'1'..=b'9').contains(&priority.as_bytes()[0]);
                random.len() == DIGITS && random.bytes().all(hex) && is_priority && named
            });
        let shown = || text.chars().take(80).collect::<String>();
        let wrong = || {
            format!(
                "`{}` is not the id of a job, such as 7-00c0ffee00c0ffee",
                shown()
            )
        };
        Ok(Self {
            partition: partition.ok_or_else(wrong)?,
            text: text.to_owned(),
        })
    }
}

impl Serialize for JobId {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// When a job is due. More than 2^53 milliseconds, which are 285 thousand years, count as so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// So long after Redis accepts it; parts of a millisecond count as one.
    After(Duration),
    /// Milliseconds since 1970 on the clock of the Redis server. What has passed is due at once.
    At(u64),
}

/// How often a job is tried, and how long it rests between two attempts.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct Retry {
    /// After so many failed attempts a job is dead, unless it says so itself
    #[arg(long, default_value = "10", value_name = "N")]
    pub max_attempts: u32,
    /// The rest after the first failed attempt
    #[arg(long = "backoff", default_value = "1s", value_parser = duration, value_name = "DURATION")]
    pub first: Duration,
    /// Each further rest is longer by this factor: 1 for a fixed rest, 2 for an exponential one
    #[arg(long = "backoff-factor", default_value = "2", value_name = "FACTOR")]
    pub factor: f64,
    /// The longest rest
    #[arg(long = "backoff-longest", default_value = "1h", value_parser = duration, value_name = "DURATION")]
    pub longest: Duration,
    /// Each rest is longer or shorter by at most this share of it, at random; 0 to 1
    #[arg(long = "backoff-jitter", default_value = "0.2", value_name = "SHARE")]
    pub jitter: f64,
}

impl Default for Retry {
    /// Ten attempts, 1 s, 2 s, 4 s .. apart, at most 1 h, each 20 % shorter or longer.
    fn default() -> Self {
        #[derive(Parser)]
        #[command(no_binary_name = true)]
        struct Alone {
            #[command(flatten)]
            retry: Retry,
        }
        Alone::parse_from::<_, &str>([]).retry
    }
}

impl Retry {
    /// Attempts with the same rest after each.
    #[must_use]
    pub fn fixed(max_attempts: u32, rest: Duration) -> Self {
        Self {
            max_attempts,
            first: rest,
            factor: 1.0,
            longest: rest,
            jitter: 0.0,
        }
    }

    /// Says what is wrong with it, if anything is.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.max_attempts == 0 {
            return Err("max_attempts: use 1 or more".to_owned());
        }
        if !(1.0..=100.0).contains(&self.factor) || !(0.0..=1.0).contains(&self.jitter) {
            return Err("a backoff has a factor of 1 to 100 and a jitter of 0 to 1".to_owned());
        }
        if self.longest > FARTHEST || self.first > FARTHEST {
            return Err("a backoff is at most ten years".to_owned());
        }
        Ok(())
    }

    /// As the scripts read it.
    pub(crate) fn policy(&self) -> String {
        let (first, longest) = (millis(self.first), millis(self.longest));
        format!(
            "{} {first} {} {longest} {}",
            self.max_attempts, self.factor, self.jitter
        )
    }
}

/// The number of attempts that a policy allows.
pub(crate) fn most_attempts(policy: &str) -> u32 {
    policy
        .split(' ')
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1)
}

/// What a job is made of.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// Handed to the consumer as it is.
    pub payload: String,
    /// When it is due.
    pub when: When,
    /// Requests with the same key make one job.
    pub idempotency_key: Option<String>,
    /// How often it is tried; without it, as often as the node's settings say.
    pub retry: Option<Retry>,
    /// Where it waits for a consumer once it has fired.
    pub queue: Queue,
    /// Among those that wait there, the higher is handed out first.
    pub priority: Priority,
    /// So long after it is due, no consumer gets it any more; it is dead then. A job that fails is due again within the
    /// same time.
    pub expires: Option<Duration>,
    /// The trace that it is a part of, as W3C's Trace Context writes it. Its consumer gets the same.
    pub traceparent: Option<String>,
}

impl NewJob {
    /// A job of the default queue without an idempotency key.
    #[must_use]
    pub fn new(payload: impl Into<String>, when: When) -> Self {
        Self {
            payload: payload.into(),
            when,
            idempotency_key: None,
            retry: None,
            queue: Queue::default(),
            priority: Priority::default(),
            expires: None,
            traceparent: None,
        }
    }
}

/// How far a job has come: in one of these states at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Waits for its time, or for that of its next attempt.
    Pending,
    /// Has fired, and no consumer has taken it yet.
    Waiting,
    /// A consumer holds it.
    Running,
    /// Acknowledged by a consumer.
    Done,
    /// Will not fire.
    Cancelled,
    /// Its attempts are used up.
    Dead,
}

impl State {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::deserialize(StrDeserializer::<serde::de::value::Error>::new(text)).ok()
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A job as Redis keeps it. Times are milliseconds since 1970 on the clock of the Redis server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Job {
    /// Its name.
    pub id: JobId,
    /// Where it waits for a consumer once it has fired.
    pub queue: Queue,
    /// Among those that wait there, the higher is handed out first.
    pub priority: Priority,
    /// How far it has come.
    pub state: State,
    /// When it is or was due.
    pub due_ms: u64,
    /// When it was accepted.
    pub created_ms: u64,
    /// When it was ready for the consumer that has taken it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fired_ms: Option<u64>,
    /// When a consumer has taken it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken_ms: Option<u64>,
    /// The name of this consumer, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer: Option<String>,
    /// When the hold of the consumer that has it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_until_ms: Option<u64>,
    /// From when on no consumer gets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// When it died.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub died_ms: Option<u64>,
    /// How often a consumer has taken it.
    pub attempts: u32,
    /// After so many failed attempts it is dead.
    pub max_attempts: u32,
    /// For what it waits, for people; only of a job that is asked for alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// Why the last attempt has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The trace that it is a part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// What it carries, until it is done or cancelled.
    #[serde(serialize_with = "some_as_json")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
}

/// Writes a payload as it is: it is JSON, unless a program has made the job by the library.
pub(crate) fn as_json<S: Serializer>(payload: &str, to: S) -> Result<S::Ok, S::Error> {
    match serde_json::from_str::<&RawValue>(payload) {
        Ok(json) => json.serialize(to),
        Err(_) => to.serialize_str(payload),
    }
}

fn some_as_json<S: Serializer>(payload: &Option<String>, to: S) -> Result<S::Ok, S::Error> {
    as_json(payload.as_deref().unwrap_or("null"), to)
}

/// The answer to a request for a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// The job's name.
    pub id: JobId,
    /// When it is due, in milliseconds since 1970.
    pub due_ms: u64,
    /// The idempotency key had been used for the same request before: no new job.
    pub repeated: bool,
}

/// What a job was found to be by a request to cancel or move it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Found {
    /// `Cancelled` after a cancel, `Pending` after a move; otherwise the request changed nothing.
    pub state: State,
    /// When it is or was due, in milliseconds since 1970.
    pub due_ms: u64,
    /// It was running when it was cancelled, and its consumer hears of that when it asks to hold it for longer.
    #[serde(default)]
    pub running: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_a_queue_that_is_not_the_default_one() {
        let mail: Queue = "mail-2_b".parse().unwrap();
        let id = JobId::random(40, &mail, Priority::default());
        let read: JobId = id.to_string().parse().unwrap();
        assert_eq!(
            (&read, read.queue(), read.partition()),
            (&id, mail.clone(), 40)
        );
        let id = JobId::random(4095, &Queue::default(), Priority::default());
        assert_eq!((id.queue(), id.as_str().len()), (Queue::default(), 21));
        for number in 0..=9 {
            let priority = Priority::new(number).unwrap();
            for queue in [Queue::default(), mail.clone()] {
                let id = JobId::random(7, &queue, priority);
                let read: JobId = id.to_string().parse().unwrap();
                assert_eq!((read.queue(), read.priority()), (queue, priority), "{id}");
            }
        }
        assert!(Priority::new(10).is_err());
        for wrong in [
            "-default",
            "0",
            "a",
            "55",
            "-",
            "-a b",
            "-a.b",
            &format!("-{}", "x".repeat(51)),
        ] {
            assert!(
                format!("7-00c0ffee00c0ffee{wrong}")
                    .parse::<JobId>()
                    .is_err(),
                "{wrong}"
            );
        }
    }
}
