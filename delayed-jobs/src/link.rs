//! One connection to Redis that many tasks share and that is made anew after trouble. An answer is waited
//! for only so long, and what was asked for on a connection that is given up is not asked for again.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisError};
use tokio::sync::Mutex;

/// The connection, or what is needed to make one.
pub(crate) struct Link {
    client: Client,
    patience: Duration,
    /// With a number that tells one connection from the next.
    current: Mutex<(u64, Option<MultiplexedConnection>)>,
}

/// A connection on loan.
pub(crate) struct Loan {
    number: u64,
    pub(crate) connection: MultiplexedConnection,
}

impl Link {
    pub(crate) fn new(address: &str, patience: Duration) -> Result<Self, RedisError> {
        Ok(Self { client: Client::open(address)?, patience, current: Mutex::new((0, None)) })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The connection; makes one if there is none.
    pub(crate) async fn loan(&self) -> Result<Loan, RedisError> {
        let mut current = self.current.lock().await;
        if let (number, Some(connection)) = &*current {
            return Ok(Loan { number: *number, connection: connection.clone() });
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.patience))
            .set_response_timeout(Some(self.patience));
        let connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        *current = (current.0 + 1, Some(connection.clone()));
        Ok(Loan { number: current.0, connection })
    }

    /// Gives a connection up after an error that says that it may be of no more use.
    pub(crate) async fn report(&self, number: u64, error: &RedisError) {
        if error.is_timeout() || error.is_io_error() || error.is_connection_dropped() {
            let mut current = self.current.lock().await;
            if current.0 == number {
                current.1 = None;
            }
        }
    }
}

impl Loan {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}
