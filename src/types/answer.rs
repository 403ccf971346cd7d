//! The answers to cancel and reschedule.

/// The answer to a cancellation: who won, and the payload if it was you.
///
/// Exactly one of cancel, fire and stop ends a timer. `Lost` means that another one did, or that the
/// key is stale.
///
/// Who does not care drops the answer, and with it the payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cancel<T> {
    /// The timer will not fire; its payload is yours.
    Won(T),
    /// The timer had ended already.
    Lost,
}

impl<T> Cancel<T> {
    pub(crate) fn from_payload(payload: Option<T>) -> Self {
        payload.map_or(Self::Lost, Self::Won)
    }

    /// Whether this call cancelled the timer.
    pub fn won(&self) -> bool {
        matches!(self, Self::Won(_))
    }

    /// The payload, if this call cancelled the timer.
    pub fn payload(self) -> Option<T> {
        match self {
            Self::Won(payload) => Some(payload),
            Self::Lost => None,
        }
    }
}

/// The answer to a reschedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reschedule {
    /// The timer has the new deadline and will not fire before it.
    ///
    /// Of several concurrent moves of one timer any one may be the last; each reports `Moved`.
    Moved,
    /// The timer had ended already.
    Gone,
}

impl Reschedule {
    pub(crate) fn from_moved(moved: bool) -> Self {
        if moved { Self::Moved } else { Self::Gone }
    }

    /// Whether the timer was pending.
    pub fn moved(self) -> bool {
        self == Self::Moved
    }
}
