//! The near future of a held partition: read from Redis page by page, kept up to date by notices.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::tenure::Partition;
use super::{Shared, Wish};
use crate::link::CHECK;

/// Distance of tries to connect again.
const RETRY: Duration = Duration::from_millis(100);

/// How long a subscription is waited for before the window is read without.
const SUBSCRIBED: Duration = Duration::from_millis(500);

/// Has the window read if something may be missing or its end comes near.
pub(super) fn read_if_needed(shared: &Arc<Shared>, partition: &Partition) {
    let Some(lease) = partition.lease() else {
        return;
    };
    let window = shared.store.settings().window_ms();
    let now = shared.clock.now_ms();
    let needed = partition.with(&lease, |tenure| {
        let known = tenure.up_to_ms.zip(now);
        let ends = known.is_none_or(|(up_to, now)| up_to < now + window / 2);
        // The clock was set back: what becomes due until then would all be armed.
        tenure.gap |= known.is_some_and(|(up_to, now)| up_to > now + 2 * window);
        let needed = (tenure.gap || ends) && !tenure.reading;
        tenure.reading |= needed;
        needed.then(|| {
            if std::mem::take(&mut tenure.gap) {
                None
            } else {
                tenure.up_to_ms
            }
        })
    });
    if let Some(Some(after)) = needed {
        let (shared, number) = (Arc::clone(shared), partition.number);
        tokio::spawn(async move { read(&shared, number, &lease, after).await });
    }
}

/// Arms every moment after `after`, or every one there is.
async fn read(shared: &Shared, number: u16, lease: &str, mut after: Option<u64>) {
    let partition = &shared.possible[usize::from(number)];
    let everything = after.is_none();
    if everything {
        // First hear, then read: what comes in between is met twice, not missed.
        let (heard, answer) = tokio::sync::oneshot::channel();
        if shared.wishes.send((number, heard)).is_ok() {
            let _ = tokio::time::timeout(SUBSCRIBED, answer).await;
        }
    }
    let mut first = true;
    let complete = loop {
        let page = match shared.store.load(number, after).await {
            Ok(page) => page,
            Err(error) => {
                shared.failed("the window is not read", number, &error);
                break false;
            }
        };
        let (now_us, notices, up_to_ms, more, moments) = page.value;
        shared.clock.observe(page.sent, page.received, now_us);
        let stands = partition.with(lease, |tenure| {
            if everything && first {
                tenure.caught_up(notices);
            }
            tenure.up_to_ms = Some(up_to_ms);
        });
        if stands.is_none() {
            return;
        }
        let now = Instant::now();
        for due_ms in moments {
            partition.arm(due_ms, now, &shared.timer, &shared.clock);
        }
        (first, after) = (false, Some(up_to_ms));
        if !more {
            break true;
        }
    };
    partition.with(lease, |tenure| {
        tenure.reading = false;
        tenure.gap |= !complete;
    });
}

/// Hears of near jobs, for as long as the node runs.
pub(super) async fn hear(shared: Arc<Shared>, mut wishes: mpsc::UnboundedReceiver<Wish>) {
    loop {
        if let Err(error) = hear_until_cut(&shared, &mut wishes).await {
            tracing::debug!("no notices: {error}");
        }
        // What was said meanwhile is not heard.
        for partition in shared.partitions() {
            partition.with_any(|tenure| tenure.gap = true);
        }
        // Wishes of this time are granted by reading again.
        while wishes.try_recv().is_ok() {}
        tokio::time::sleep(RETRY).await;
    }
}

async fn hear_until_cut(
    shared: &Arc<Shared>,
    wishes: &mut mpsc::UnboundedReceiver<Wish>,
) -> redis::RedisResult<()> {
    let link = &shared.store.link;
    let (mut sink, mut notices) = link.pubsub().await?.split();
    for partition in shared
        .partitions()
        .iter()
        .filter(|one| one.lease().is_some())
    {
        let channel = shared.near_channel(partition.number);
        link.within(sink.subscribe(channel)).await?;
    }
    let mut check = interval(CHECK);
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            notice = notices.next() => match notice {
                Some(notice) => heard(shared, &notice),
                None => return Ok(()),
            },
            wish = wishes.recv() => match wish {
                Some((number, done)) => {
                    link.within(sink.subscribe(shared.near_channel(number))).await?;
                    let _ = done.send(());
                }
                // The node has ended.
                None => return std::future::pending().await,
            },
            _ = check.tick() => link.within(sink.ping::<()>()).await?,
        }
    }
}

impl Shared {
    fn near_channel(&self, partition: u16) -> String {
        self.store.near_channel(&self.store.base(partition))
    }
}

/// A notice is the channel's partition, the number of the notice, and moments.
fn heard(shared: &Arc<Shared>, notice: &redis::Msg) {
    let channel = notice.get_channel_name();
    let number = channel
        .rsplit_once('{')
        .and_then(|(_, rest)| rest.split_once('}'));
    let number = number.and_then(|(number, _)| number.parse::<usize>().ok());
    let Some(partition) = number.and_then(|number| shared.possible.get(number)) else {
        return;
    };
    let text: String = notice.get_payload().unwrap_or_default();
    let numbers: Result<Vec<u64>, _> = text.split(' ').map(str::parse).collect();
    let Ok([count, moments @ ..]) = numbers.as_deref() else {
        partition.with_any(|tenure| tenure.gap = true);
        return;
    };
    let Some(missed) = partition.with_any(|tenure| tenure.notice(*count)) else {
        return;
    };
    for due_ms in moments {
        partition.arm(*due_ms, Instant::now(), &shared.timer, &shared.clock);
    }
    if missed {
        read_if_needed(shared, partition);
    }
}
