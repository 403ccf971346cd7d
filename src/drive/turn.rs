//! A turn under way.

use alloc::sync::Arc;

/// A turn under way: what it is about and what it may still do.
///
/// A turn belongs to the driver that began it, wherever that driver is moved: a handler may swap the timer that it
/// was given for another one. From its first timer on it holds the driver's *token*, by which the driver knows that a
/// handler may be running and the turn knows its driver. It gives the token back when it is dropped, after a
/// handler's panic, too.
#[must_use = "a turn that has begun must be finished"]
pub(crate) struct TurnState {
    /// The tick that it is about.
    pub(crate) now: u64,
    /// Entries that may still be looked at.
    pub(super) left: usize,
    /// Timers fired.
    pub(crate) fired: usize,
    /// The budget is used up and more may be due.
    pub(crate) cut_short: bool,
    token: Option<Token>,
}

impl TurnState {
    pub(super) fn new(now: u64, budget: usize) -> Self {
        Self { now, left: budget, fired: 0, cut_short: false, token: None }
    }

    /// Notes a timer that fires.
    #[inline]
    pub(super) fn count(&mut self, token: &Token) {
        self.fired += 1;
        if self.token.is_none() {
            self.token = Some(token.clone());
        }
    }

    /// Returns whether the turn belongs to the driver with this token. Until a handler has run there can be no other.
    #[inline]
    pub(super) fn belongs_to(&self, token: &Token) -> bool {
        self.token.as_ref().is_none_or(|own| Arc::ptr_eq(&own.0, &token.0))
    }
}

/// A driver's identity.
#[derive(Clone, Default)]
pub(super) struct Token(Arc<()>);

impl Token {
    /// Returns whether a turn holds it.
    #[inline]
    pub(super) fn is_held(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}
