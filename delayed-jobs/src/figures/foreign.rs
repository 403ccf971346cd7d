//! Programs of other libraries. Each is told the address of a Redis, reads `number due_ms` per line, answers
//! `+` per accepted job and `number arrived_us` per fired one, and begins with `ready NAME`.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, Command};
use tokio::sync::{Mutex, Semaphore};

use super::{Arrived, Contestant, FigureSettings, Row};
use crate::error::Failure;
use crate::local::RedisProcess;

/// What runs each of them, if it is there.
const PROGRAMS: [(&str, &str); 2] =
    [("bullmq/node_modules/bullmq", "node bullmq/worker.mjs"), ("apalis", "./apalis")];

/// How long one may take to come up.
const START: Duration = Duration::from_secs(20);

struct Foreign {
    input: Mutex<ChildStdin>,
    accepted: Semaphore,
}

impl Contestant for Foreign {
    async fn accept(&self, number: u64, due_ms: u64) -> Result<(), String> {
        let line = format!("{number} {due_ms}\n");
        let mut input = self.input.lock().await;
        input.write_all(line.as_bytes()).await.map_err(|error| error.to_string())?;
        drop(input);
        // Answers have no names: any one of them lets one request go on.
        let answer = self.accepted.acquire().await;
        answer.map(|answer| answer.forget()).map_err(|_| "the program has ended".to_owned())
    }
}

pub(super) async fn measure(work: &FigureSettings, folder: &Path) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (needed, command) in PROGRAMS {
        if folder.join(needed).exists() {
            rows.push(one(work, folder, command).await?);
        } else {
            eprintln!("skipped: no {needed}; delayed-jobs/peers/install.sh installs it");
        }
    }
    Ok(rows)
}

async fn one(work: &FigureSettings, folder: &Path, command: &str) -> Result<Row, Failure> {
    let redis = RedisProcess::start(&[]).await?;
    let mut child = Command::new("sh")
        .args(["-c", &format!("exec {command} {}", redis.port())])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("a program without input or output".into());
    };
    let mut lines = BufReader::new(output).lines();
    let ready = tokio::time::timeout(START, lines.next_line()).await;
    let ready = ready.ok().and_then(Result::ok).flatten().unwrap_or_default();
    let Some(name) = ready.strip_prefix("ready ").map(str::to_owned) else {
        return Err(format!("{command} did not come up: {ready}").into());
    };
    let foreign = Arc::new(Foreign { input: Mutex::new(input), accepted: Semaphore::new(0) });
    let reading = Arc::clone(&foreign);
    let consume = |arrived: Arrived| async move {
        while let Ok(Some(line)) = lines.next_line().await {
            match line.split_once(' ').map(|(number, at)| (number.parse(), at.parse())) {
                None => reading.accepted.add_permits(1),
                Some((Ok(number), Ok(at))) => drop(arrived.send((number, at))),
                Some(_) => {}
            }
        }
        reading.accepted.close();
    };
    work.measure(&name, &*foreign, consume).await
}
