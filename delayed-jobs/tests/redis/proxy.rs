//! A wire that can be cut: what comes in at a port goes to another one, or nowhere.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub(crate) struct Proxy {
    address: SocketAddr,
    /// While this is false, nothing passes: neither bytes nor ends of connections.
    open: Arc<watch::Sender<bool>>,
}

impl Proxy {
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let open = Arc::new(watch::channel(true).0);
        let switch = Arc::clone(&open);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let switch = Arc::clone(&switch);
                tokio::spawn(async move {
                    let _ = switch.subscribe().wait_for(|open| *open).await;
                    let Ok(far) = TcpStream::connect(("127.0.0.1", port)).await else { return };
                    let ((from_near, to_near), (from_far, to_far)) =
                        (near.into_split(), far.into_split());
                    tokio::spawn(pass(from_near, to_far, switch.subscribe()));
                    pass(from_far, to_near, switch.subscribe()).await;
                });
            }
        });
        Self { address, open }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    pub(crate) fn cut(&self) {
        self.open.send_replace(false);
    }

    pub(crate) fn mend(&self) {
        self.open.send_replace(true);
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut open: watch::Receiver<bool>) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let count = from.read(&mut buffer).await.unwrap_or(0);
        if open.wait_for(|open| *open).await.is_err() || count == 0 {
            return;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
