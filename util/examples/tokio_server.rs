//! A server on tokio as it was, but for one line: `use tickwheel_util::time` stands where `use tokio::time` stood.
//!
//! It greets each client now and then, echoes its lines, and closes a connection on which nothing arrives. Two clients
//! look at what they get.
//!
//! ```text
//! cargo run -p tickwheel-util --all-features --example tokio_server
//! ```

use std::io;
use std::net::SocketAddr;
use tickwheel_util::time::{self, Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

const GREETING: Duration = Duration::from_millis(20);
const IDLE: Duration = Duration::from_millis(100);

async fn serve(stream: TcpStream) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    let mut greeting = time::interval_at(Instant::now() + GREETING, GREETING);
    let mut idle = std::pin::pin!(time::sleep(IDLE));
    loop {
        tokio::select! {
            // What has arrived beats a timeout of the same moment.
            biased;
            line = lines.next_line() => {
                let Some(line) = line? else { return Ok(()) };
                idle.as_mut().reset(Instant::now() + IDLE);
                writer.write_all(format!("{line}\n").as_bytes()).await?;
            }
            _ = greeting.tick() => writer.write_all(b"hello\n").await?,
            () = &mut idle => return Ok(()),
        }
    }
}

async fn accept(listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(serve(stream))),
            // There is no descriptor for a client. The next one may have more luck.
            Err(_) => time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Says one line and falls silent; returns what it was told, and when.
async fn client(server: SocketAddr) -> io::Result<(String, Duration)> {
    let mut stream = TcpStream::connect(server).await?;
    let start = Instant::now();
    stream.write_all(b"one\n").await?;
    let mut told = String::new();
    let limit = Duration::from_secs(60);
    time::timeout(limit, stream.read_to_string(&mut told)).await??;
    Ok((told, start.elapsed()))
}

pub(crate) fn main() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let server = listener.local_addr()?;
        tokio::spawn(accept(listener));
        let clients = [tokio::spawn(client(server)), tokio::spawn(client(server))];
        for client in clients {
            let (told, after) = client.await.expect("no client panics")?;
            let greetings = told.lines().filter(|line| *line == "hello").count();
            println!("echoed, greeted {greetings} times, closed after {after:?}");
            assert!(told.contains("one\n") && greetings > 0, "{told}");
            assert!(after >= IDLE, "never early");
        }
        Ok(())
    })
}
