//! Access to a namespace: the connection, the names of keys, how a script is run.

use std::time::Instant;

use redis::{FromRedisValue, ScriptInvocation};

use crate::error::StoreError;
use crate::link::Link;
use crate::settings::Settings;

/// The consumer group that every stream has.
pub const GROUP: &str = "workers";

/// Names a script of this folder.
macro_rules! script {
    ($name:literal) => {{
        static SCRIPT: std::sync::LazyLock<redis::Script> = std::sync::LazyLock::new(|| {
            redis::Script::new(include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/src/scripts/",
                $name,
                ".lua"
            )))
        });
        &*SCRIPT
    }};
}
pub(crate) use script;

/// Access to the jobs of a namespace, from any task of any process.
pub struct Store {
    pub(super) settings: Settings,
    pub(super) link: Link,
}

/// What a script said, and when the question went out and the answer came.
pub(crate) struct Timed<T> {
    pub(crate) value: T,
    pub(crate) sent: Instant,
    pub(crate) received: Instant,
}

impl Store {
    /// The settings it was opened with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What the names of all keys of a partition begin with. The part in braces decides the hash slot.
    pub(crate) fn base(&self, partition: u16) -> String {
        format!("{}:{{{partition}}}", self.settings.namespace)
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// Runs a script.
    pub(crate) async fn call<T: FromRedisValue>(
        &self,
        invocation: &ScriptInvocation<'_>,
    ) -> Result<Timed<T>, StoreError> {
        let mut loan = self.link.loan().await?;
        let sent = Instant::now();
        match invocation.invoke_async(&mut loan.connection).await {
            Ok(value) => Ok(Timed { value, sent, received: Instant::now() }),
            Err(error) => {
                self.link.report(loan.number(), &error).await;
                Err(error.into())
            }
        }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("settings", &self.settings).finish_non_exhaustive()
    }
}
