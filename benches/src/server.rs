//! Measures what timeouts cost a server over HTTP: processor time per request, of a whole process.
//!
//! hyper on a runtime of tokio with one or two worker threads, and 64 connections of which each has one request under
//! way; the clients are another process. Each connection has hyper's timeout for headers, which also limits how long it
//! is idle. A request has one more for its answer, which comes a turn of the runtime later; in the second workload it
//! arms ten timeouts and drops them, as one that reads and writes under limits does. Each way to keep time has a server
//! process of its own; they live side by side and are asked in random order, a fifth of a second each, until the ratios
//! of the timeouts have narrow intervals or the limit of rounds is reached.
//!
//! ```text
//! cargo run --release -p tickwheel-benches --bin server -- [--rounds 200] [--only 0]
//! ```
//!
//! With `RUSTFLAGS="--cfg tokio_unstable"` there is a row of tokio's alternative timer.

use clap::{Parser, ValueEnum};
use hyper::body::Incoming;
use hyper::rt::Timer;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::pin::pin;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::task::Poll;
use std::time::{Duration, Instant};
use tickwheel_benches::goals::number;
use tickwheel_benches::machine;
use tickwheel_benches::measure::{Usage, median};
use tickwheel_benches::process::{Failure, name, this_program};
use tickwheel_benches::ratio::{Pair, Ratio, Rounds, pair_up};
use tickwheel_util::HyperTimer;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

#[derive(Parser)]
struct Options {
    /// Slices of each way at most; the tables show medians and intervals of 95 %.
    #[arg(long, default_value_t = 200)]
    rounds: usize,
    /// Runs one workload only, by its number from 0 on.
    #[arg(long)]
    only: Option<usize>,
    /// Worker threads of the runtime; one and two, if it is not given.
    #[arg(long)]
    workers: Option<usize>,
    /// Milliseconds of one measurement.
    #[arg(long, default_value_t = 200)]
    millis: u64,
    /// Serves in this process: the way, and the workload's number.
    #[arg(long, hide = true, requires = "workload")]
    way: Option<Way>,
    #[arg(long, hide = true)]
    workload: Option<usize>,
}

/// A way to keep time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Way {
    /// No timeouts.
    None,
    /// tokio's own timer.
    Tokio,
    /// tokio's alternative timer.
    #[cfg(tokio_unstable)]
    TokioAlternative,
    /// `tickwheel_util::time` in the place of `tokio::time`.
    Time,
    /// tickwheel's free functions: the process's engine with its workers.
    Workers,
}

const WORKLOADS: [&str; 2] = [
    "a timeout for headers and idle time, one for the answer",
    "a timeout for headers and idle time, ten that are armed and dropped",
];

const CONNECTIONS: usize = 64;
const LIMIT: Duration = Duration::from_secs(5);

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    if let (Some(way), Some(workload)) = (options.way, options.workload) {
        return serve(way, workload, options.workers.unwrap_or(1));
    }
    println!("{}", machine::head());
    let workers = options.workers.map_or(vec![1, 2], |workers| vec![workers]);
    for (workload, does) in WORKLOADS.iter().enumerate() {
        if options.only.is_some_and(|only| only != workload) {
            continue;
        }
        for workers in &workers {
            let ways = Way::value_variants();
            let start = |way: &Way| Server::start(*way, workload, *workers);
            let mut servers: Vec<_> = ways.iter().map(start).collect::<Result<_, _>>()?;
            let length = Duration::from_millis(options.millis);
            for server in &mut servers {
                // Warms up.
                server.load(length)?;
            }
            let costs = Rounds::at_most(options.rounds).measure(
                ways.len(),
                |way| servers[way].load(length),
                |costs| (2..ways.len()).map(|way| timeouts(costs, way)).collect(),
            )?;
            println!(
                "\n{does}, worker threads: {workers}, rounds: {}\n",
                costs.len()
            );
            println!("| | CPU us per request | of the timeouts | beside tokio's, 95 % |");
            println!("|---|--:|--:|--:|");
            for (at, way) in ways.iter().enumerate() {
                let of = |cost: fn(&[f64], usize) -> f64| {
                    let costs = costs.iter().map(|round| cost(round, at)).collect();
                    median(costs).map_or_else(String::new, number)
                };
                println!(
                    "| {} | {} | {} | {} |",
                    name(way),
                    of(|round, at| round[at]),
                    of(|round, at| round[at] - round[0]),
                    if at < 2 {
                        String::new()
                    } else {
                        Ratio::cell(&timeouts(&costs, at))
                    },
                );
            }
        }
    }
    println!("\nload average {} after", machine::load());
    Ok(())
}

/// Pairs what the timeouts of a way cost with what tokio's do: the cost of a request beyond that of one without
/// timeouts, in the order of the ways.
fn timeouts(costs: &[Vec<f64>], way: usize) -> Vec<Pair> {
    pair_up(costs, |round| (round[way] - round[0], round[1] - round[0]))
}

/// A server in a process of its own, and its clients.
struct Server {
    process: Child,
    asks: ChildStdin,
    told: BufReader<ChildStdout>,
    clients: Vec<TcpStream>,
}

impl Server {
    fn start(way: Way, workload: usize, workers: usize) -> Result<Self, Failure> {
        let (workload, workers) = (workload.to_string(), workers.to_string());
        let way = ["--way", &name(&way), "--workload", &workload];
        let mut process = this_program(&way)
            .args(["--workers", &workers])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut told = BufReader::new(process.stdout.take().ok_or("no output")?);
        let asks = process.stdin.take().ok_or("no input")?;
        let mut address = String::new();
        told.read_line(&mut address)?;
        let connect = |_| -> Result<TcpStream, Failure> {
            let stream = TcpStream::connect(address.trim())?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        let clients = (0..CONNECTIONS).map(connect).collect::<Result<_, _>>()?;
        Ok(Self {
            process,
            asks,
            told,
            clients,
        })
    }

    /// Returns the processor time of the server's process so far.
    fn cpu(&mut self) -> Result<Duration, Failure> {
        self.asks.write_all(b"\n")?;
        let mut micros = String::new();
        self.told.read_line(&mut micros)?;
        Ok(Duration::from_micros(micros.trim().parse()?))
    }

    /// Sends requests for a while; returns the processor time per request, in microseconds.
    fn load(&mut self, length: Duration) -> Result<f64, Failure> {
        let (before, start) = (self.cpu()?, Instant::now());
        let (mut requests, mut answer) = (0, [0; 1024]);
        for client in &mut self.clients {
            client.write_all(REQUEST)?;
        }
        let mut is_over = false;
        while !is_over {
            is_over = start.elapsed() >= length;
            // Each has one request under way, and none in the end.
            for client in &mut self.clients {
                let got = client.read(&mut answer)?;
                if !answer[..got].ends_with(BODY.as_bytes()) {
                    return Err("half an answer".into());
                }
                requests += 1;
                if !is_over {
                    client.write_all(REQUEST)?;
                }
            }
        }
        Ok((self.cpu()? - before).as_secs_f64() * 1e6 / f64::from(requests))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended already is not there to be killed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";

const BODY: &str = "at your service";

/// Serves until the process is killed; says the processor time so far for each line that it is sent.
fn serve(way: Way, workload: usize, workers: usize) -> Result<(), Failure> {
    let runtime = runtime(way, workers)?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    println!("{}", listener.local_addr()?);
    runtime.spawn(accept(listener, way, workload));
    for line in std::io::stdin().lines() {
        line?;
        println!("{}", Usage::now().cpu.as_micros());
    }
    Ok(())
}

fn runtime(way: Way, workers: usize) -> std::io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(workers).enable_io();
    match way {
        Way::Tokio | Way::Time => _ = builder.enable_time(),
        #[cfg(tokio_unstable)]
        Way::TokioAlternative => _ = builder.enable_time().enable_alt_timer(),
        Way::None | Way::Workers => {}
    }
    builder.build()
}

async fn accept(listener: TcpListener, way: Way, workload: usize) {
    let mut builder = http1::Builder::new();
    match way {
        Way::None => _ = builder.header_read_timeout(None),
        Way::Time => limited(&mut builder, HyperTimer::new()),
        Way::Workers => {
            let shared = tickwheel::global().expect("the shared engine");
            limited(&mut builder, HyperTimer::on(shared.clone()));
        }
        _ => limited(&mut builder, TokioTimer::new()),
    }
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            return;
        };
        stream.set_nodelay(true).expect("a socket of TCP");
        let service = service_fn(move |request| answer(request, way, workload));
        tokio::spawn(builder.serve_connection(TokioIo::new(stream), service));
    }
}

fn limited(builder: &mut http1::Builder, timer: impl Timer + Send + Sync + 'static) {
    builder.timer(timer).header_read_timeout(LIMIT);
}

async fn answer(
    _: Request<Incoming>,
    way: Way,
    workload: usize,
) -> Result<Response<String>, Infallible> {
    if workload == 0 {
        limit(way, tokio::task::yield_now()).await;
    } else {
        for _ in 0..10 {
            arm(way).await;
        }
    }
    Ok(Response::new(BODY.to_owned()))
}

/// Gives the answer so long.
async fn limit(way: Way, work: impl Future<Output = ()>) {
    match way {
        Way::None => work.await,
        Way::Time => _ = tickwheel_util::time::timeout(LIMIT, work).await,
        Way::Workers => _ = tickwheel::timeout(LIMIT, work).await,
        _ => _ = tokio::time::timeout(LIMIT, work).await,
    }
}

/// Arms a timeout and drops it.
async fn arm(way: Way) {
    match way {
        Way::None => {}
        Way::Time => once(tickwheel_util::time::timeout(LIMIT, pending::<()>())).await,
        Way::Workers => once(tickwheel::timeout(LIMIT, pending::<()>())).await,
        _ => once(tokio::time::timeout(LIMIT, pending::<()>())).await,
    }
}

/// Polls a future once.
async fn once(future: impl Future) {
    let mut future = pin!(future);
    poll_fn(|cx| Poll::Ready(_ = future.as_mut().poll(cx).is_ready())).await;
}
