//! Calls into code that is not ours: handlers, destructors, clones, clocks, wakers, hooks, the logger.
//!
//! All of it may panic, wherever it runs. Each such call of the library goes through this file, so that a panic
//! ends the call and nothing else: no worker, no turn, no other timer. What remains is the language's own rule
//! that a panic inside a destructor which runs *because of* a panic aborts the process: a handler that panics
//! while it holds a payload whose destructor panics, too, is beyond reach.
//!
//! Any thread; no locks. Nothing of ours may be half done when one of these is called.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// How many panics of panic payloads' destructors are taken off before the rest is leaked.
const NESTED: usize = 4;

/// Runs `f`; its panic's message if it panicked.
#[inline]
pub fn call<R>(f: impl FnOnce() -> R) -> Result<R, String> {
    // What `f` leaves behind half done is the user's to judge, as it is with a thread that panics.
    catch_unwind(AssertUnwindSafe(f)).map_err(caught)
}

/// Drops the payload of a panic, and returns its message.
#[cold]
fn caught(panic: Box<dyn Any + Send>) -> String {
    // In a model a panic is loom's verdict, which nothing may contain. A model's own user code panics with a `()`.
    if cfg!(tickwheel_loom) && !panic.is::<()>() {
        resume_unwind(panic);
    }
    let message = message_of(&*panic);
    discard(panic);
    message
}

/// Drops a value of the user's; an error names `what` if its destructor panics.
#[inline]
pub fn drop_quietly<V>(what: &str, value: V) {
    if std::mem::needs_drop::<V>() {
        if let Err(message) = call(|| drop(value)) {
            error(format_args!("the destructor of {what} panicked: {message}"));
        }
    }
}

/// Drops a timer's payload, with a panic caught and logged.
pub fn drop_payload<T>(payload: T) {
    drop_quietly("a timer's payload", payload);
}

/// Like [`call`], where no caller hears of the message: an error says that `what` panicked.
pub fn catch_and_log<R>(what: impl fmt::Display, f: impl FnOnce() -> R) -> Option<R> {
    call(f)
        .map_err(|message| error(format_args!("{what} panicked: {message}")))
        .ok()
}

/// Drops each value by itself, so that the first panic among their destructors is not the last drop.
pub fn drop_each<V>(what: &str, values: impl IntoIterator<Item = V>) {
    values
        .into_iter()
        .for_each(|value| drop_quietly(what, value));
}

/// Logs an error. Loggers are the user's, too.
#[cold]
pub fn error(text: fmt::Arguments<'_>) {
    log(log::Level::Error, text);
}

/// Like [`error`], for what does no harm by itself.
#[cold]
pub fn warn(text: fmt::Arguments<'_>) {
    log(log::Level::Warn, text);
}

fn log(level: log::Level, text: fmt::Arguments<'_>) {
    #[cfg(not(feature = "tracing"))]
    log_guarded(|| log::log!(target: "tickwheel", level, "{text}"));
    #[cfg(feature = "tracing")]
    log_guarded(|| match level {
        log::Level::Error => tracing::error!(target: "tickwheel", "{text}"),
        _ => tracing::warn!(target: "tickwheel", "{text}"),
    });
}

/// Calls the logger, or a subscriber of `tracing`, unless this thread is in one: what it does there itself, such as
/// scheduling a timer that is refused, would call it once more, without an end.
pub fn log_guarded(f: impl FnOnce()) {
    thread_local! {
        static SAYING: Cell<bool> = const { Cell::new(false) };
    }
    // At a thread's end it may be gone, where the system's thread-locals all have destructors.
    if !SAYING
        .try_with(|saying| saying.replace(true))
        .unwrap_or(false)
    {
        // There is nowhere left to say that the logger panicked; the panic hook has.
        let _ = call(f);
        let _ = SAYING.try_with(|saying| saying.set(false));
    }
}

/// Drops the payload of a panic, which may panic in turn.
fn discard(panic: Box<dyn Any + Send>) {
    let mut panic = panic;
    for _ in 0..NESTED {
        match catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            Ok(()) => return,
            Err(next) => panic = next,
        }
    }
    std::mem::forget(panic);
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}

/// A value of the user's whose destructor is contained, on any thread.
///
/// It is there until then: `Option` only lets the destructor take it out without unsafe code. An owner of several
/// such values wraps each one: a second panic among the destructors of one value ends the process.
#[derive(Clone)]
pub struct Contained<V> {
    value: Option<V>,
    what: &'static str,
}

impl<V> Contained<V> {
    pub fn new(what: &'static str, value: V) -> Self {
        Self {
            value: Some(value),
            what,
        }
    }

    pub fn get(&self) -> Option<&V> {
        self.value.as_ref()
    }

    pub fn get_mut(&mut self) -> Option<&mut V> {
        self.value.as_mut()
    }
}

debug_fields!([V] Contained<V>, it.what, it);

impl<V> Drop for Contained<V> {
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            drop_quietly(self.what, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Panics when dropped, with itself once more, `self.0` times.
    struct Bomb(u32);

    impl Drop for Bomb {
        fn drop(&mut self) {
            if self.0 > 0 {
                std::panic::panic_any(Self(self.0 - 1));
            }
        }
    }

    #[test]
    fn a_panic_becomes_its_message() {
        assert_eq!(call(|| 7), Ok(7));
        assert_eq!(call(|| panic!("plain")), Err::<(), _>("plain".to_owned()));
        assert_eq!(
            call(|| panic!("number {}", 7)),
            Err::<(), _>("number 7".to_owned())
        );
        assert_eq!(
            call(|| std::panic::panic_any(7)),
            Err::<(), _>("no message".to_owned())
        );
    }

    #[test]
    fn the_payload_of_a_panic_may_panic_for_ever() {
        for nested in [1, 2, 3, 100] {
            assert!(call(|| std::panic::panic_any(Bomb(nested))).is_err());
            drop_quietly("a bomb", Bomb(nested));
        }
    }

    #[test]
    fn each_value_is_dropped_though_all_of_them_panic() {
        struct Counted<'a>(&'a Cell<u32>);
        impl Drop for Counted<'_> {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
                panic!("number {}", self.0.get());
            }
        }
        let drops = Cell::new(0);
        drop_each("a value", (0..5).map(|_| Counted(&drops)));
        assert_eq!(drops.get(), 5);
        let mut contained = Contained::new("a value", Counted(&drops));
        assert!(contained.get().is_some() && contained.get_mut().is_some());
        drop(contained);
        assert_eq!(drops.get(), 6);
    }
}
