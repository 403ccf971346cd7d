//! Notices that the first moment of a held partition has changed. One that is lost is made up for by the next renewal.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::{Shared, Wish};
use crate::link::CHECK;

/// Distance of tries to connect again.
const RETRY: Duration = Duration::from_millis(100);

/// Hears of near jobs, for as long as the node runs.
pub(super) async fn hear(shared: Arc<Shared>, mut wishes: mpsc::UnboundedReceiver<Wish>) {
    loop {
        if let Err(error) = hear_until_cut(&shared, &mut wishes).await {
            tracing::debug!("no notices: {error}");
        }
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
        // What was said before is asked for.
        partition.due.notify_one();
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
                Some(number) => {
                    link.within(sink.subscribe(shared.near_channel(number))).await?;
                    shared.possible[usize::from(number)].due.notify_one();
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

/// A notice is the channel's partition and a moment.
fn heard(shared: &Arc<Shared>, notice: &redis::Msg) {
    let channel = notice.get_channel_name();
    let number = channel
        .rsplit_once('{')
        .and_then(|(_, rest)| rest.split_once('}'));
    let number = number.and_then(|(number, _)| number.parse::<usize>().ok());
    let partition = number.and_then(|number| shared.possible.get(number));
    let moment = notice
        .get_payload::<String>()
        .ok()
        .and_then(|text| text.parse().ok());
    if let (Some(partition), Some(due_ms)) = (partition, moment) {
        partition.arm(due_ms, Instant::now(), &shared.timer, &shared.clock);
    }
}
