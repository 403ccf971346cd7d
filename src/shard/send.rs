//! How other threads tell a shard's owner something: a message into the thread state's own block, and a wake
//! if need be.

use super::handle::ShardHandle;
use super::thread_state::ThreadState;
use crate::inbox::{Message, NoMemory};
use crate::park::{Announced, Call, Wake};
use crate::sync::bounded;
use crate::types::ScheduleErrorKind;

/// Unread messages after which a producer calls the owner, whatever their deadlines.
///
/// The inbox holds entries back: what is cancelled while it lies here never reaches the wheel, so the owner
/// should come late. But a call costs the producer a system call, so it must stay rarer than one push in
/// ten thousand, and 256 KiB of messages is as much as should lie around.
const MOST_UNREAD: u64 = bounded(16 * 1024, 4);

/// An entry's name and mark in the 63 bits of a message. The mark's lowest bit is always set: the timer lives.
#[inline]
fn pack(index: u32, mark: u32) -> u64 {
    u64::from(mark >> 1) << 32 | u64::from(index)
}

/// Index and mark of a message's word.
#[inline]
pub(super) fn unpack(word: u64) -> (u32, u32) {
    (word as u32, ((word >> 31) | 1) as u32)
}

impl<T> ShardHandle<T> {
    /// Makes sure that a message can be sent, before anything is armed that would need it. Gives the permit back if
    /// not.
    #[inline(always)]
    pub(super) fn prepare(&self, thread: &ThreadState) -> Result<(), ScheduleErrorKind> {
        if thread.writer.is_ready() { Ok(()) } else { self.prepare_block(thread) }
    }

    #[cold]
    #[inline(never)]
    fn prepare_block(&self, thread: &ThreadState) -> Result<(), ScheduleErrorKind> {
        self.fetch_block(thread).inspect_err(|_| self.release_permit())
    }

    /// The thread state's next block. Nobody empties the blocks of a closed shard: whoever goes on trying
    /// must not fill one after the other.
    fn fetch_block(&self, thread: &ThreadState) -> Result<(), ScheduleErrorKind> {
        if self.wake_state.is_closed() {
            return Err(ScheduleErrorKind::Stopped);
        }
        self.inbox.prepare(&thread.writer).map_err(|NoMemory| ScheduleErrorKind::OutOfMemory)
    }

    /// Hands an entry to the owner, and wakes it if it must not sleep on; false if the shard is closed.
    ///
    /// The thread state must be prepared. Neither allocates nor unwinds.
    #[inline]
    pub(super) fn send(&self, thread: &ThreadState, tick: u64, index: u32, mark: u32) -> bool {
        self.tell(thread, self.publish(thread, tick, index, mark))
    }

    /// The first half of [`send`](Self::send): writes the message. What comes back is to be told, at once or together
    /// with later messages of the same thread, whichever is the lowest.
    #[inline(always)]
    pub(super) fn publish(&self, thread: &ThreadState, tick: u64, index: u32, mark: u32) -> u64 {
        match thread.writer.write(Message { tick, word: pack(index, mark) }) {
            None => tick,
            Some(block) => {
                let unread = self.inbox.hand_over(block);
                if unread >= MOST_UNREAD { 0 } else { tick }
            }
        }
    }

    /// The second half: one fence, one look at whether the shard is closed, one decision about a wake.
    #[inline(always)]
    pub(super) fn tell(&self, thread: &ThreadState, alarm: u64) -> bool {
        let Announced { wake, closed } = self.wake_state.notify(alarm);
        self.wake(thread, wake);
        !closed
    }

    /// Makes the owner turn now. For the engine, whose workers are not woken by anything of the user's.
    pub(crate) fn request_turn(&self) {
        if let Wake::Needed(call) = self.wake_state.request_turn() {
            self.end_sleep(call);
        }
    }

    /// As [`request_turn`](Self::request_turn), where the waker may be the user's.
    pub(super) fn request_turn_by(&self, thread: &ThreadState) {
        self.wake(thread, self.wake_state.request_turn());
    }

    #[inline]
    fn wake(&self, thread: &ThreadState, wake: Wake) {
        if let Wake::Needed(call) = wake {
            self.call(thread, call);
        }
    }

    #[cold]
    fn call(&self, thread: &ThreadState, call: Call) {
        thread.calling.once(call, |call| self.end_sleep(call));
    }

    fn end_sleep(&self, call: Call) {
        // Where it has not been woken nobody may rely on it: the next producer calls, too.
        if (self.wake_owner)() {
            self.wake_state.called(call);
        }
    }

    /// Wakes the owner even if it does not sleep by the handshake; for a clock that was moved by hand.
    pub(crate) fn unpark(&self) {
        let _ = (self.wake_owner)();
    }

    /// Tells the owner of an earlier deadline. Until it knows, and if it never does, the old entry stands.
    pub(super) fn send_move(&self, thread: &ThreadState, deadline: u64, index: u32, mark: u32) {
        // A closed shard is no loss: `stop` finds the timer in the table. Without memory the timer fires by its old
        // entry.
        if thread.writer.is_ready() || self.fetch_block(thread).is_ok() {
            thread.moves_sent.bump();
            let _ = self.send(thread, deadline, index, mark);
        }
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use crate::shard::{Owner, ShardHandle};
    use crate::wheel::{AnyWheel, Hierarchical};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::sync::{Arc, Mutex, OnceLock, Weak};

    fn sleeping(wake: impl Fn() -> bool + Send + Sync + 'static) -> Owner<u64> {
        let wheel = AnyWheel::Hierarchical(Hierarchical::new());
        let owner = Owner::new(0, wheel, None, Box::new(wake));
        assert!(owner.fall_asleep(u64::MAX), "nothing is due");
        owner
    }

    #[test]
    fn a_producer_that_stops_in_its_wake_call_delays_nobody_else() {
        let ((stopped, is_stopped), (go_on, may_go_on)) = (channel(), channel());
        let (calls, may_go_on) = (Arc::new(AtomicUsize::new(0)), Mutex::new(may_go_on));
        let counted = Arc::clone(&calls);
        // The first to call stops within its call until it is told to go on.
        let owner = sleeping(move || {
            if counted.fetch_add(1, Ordering::SeqCst) == 0 {
                stopped.send(()).unwrap();
                may_go_on.lock().unwrap().recv().unwrap();
            }
            true
        });
        let handle = owner.handle();
        std::thread::scope(|scope| {
            scope.spawn(|| handle.schedule(handle.thread(0), 5, 0, false).unwrap());
            is_stopped.recv().unwrap();
            for tick in [5, 6, 4] {
                let _ = handle.schedule(handle.thread(1), tick, 0, false).unwrap();
                assert_eq!(calls.load(Ordering::SeqCst), 2, "one call that returned is enough");
            }
            go_on.send(()).unwrap();
        });
    }

    /// The owner is faster than its waker: it has risen and sleeps again when that sends a message of its own.
    #[test]
    fn a_waker_that_has_a_message_for_the_next_sleep_is_called_once_more() {
        let calls = Arc::new(AtomicUsize::new(0));
        let handle: Arc<OnceLock<Weak<ShardHandle<u64>>>> = Arc::default();
        let (counted, inside) = (Arc::clone(&calls), Arc::clone(&handle));
        let owner = sleeping(move || {
            let call = counted.fetch_add(1, Ordering::SeqCst);
            let handle = inside.get().and_then(Weak::upgrade).unwrap();
            if call == 0 {
                handle.wake_state.rise();
                handle.wake_state.begin_drain();
                assert!(handle.wake_state.fall_asleep(50));
            }
            if call < 2 {
                let _ = handle.schedule(handle.thread(0), 3, 0, false).unwrap();
                assert_eq!(counted.load(Ordering::SeqCst), call + 1, "not from within itself");
            }
            true
        });
        assert!(handle.set(Arc::downgrade(owner.handle())).is_ok());
        for (tick, called) in [(5, 2), (4, 2), (2, 2)] {
            let _ = owner.handle().schedule(owner.handle().thread(0), tick, 0, false).unwrap();
            assert_eq!(calls.load(Ordering::SeqCst), called);
        }
    }

    #[test]
    fn nobody_relies_on_a_wake_that_has_failed() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let owner = sleeping(move || counted.fetch_add(1, Ordering::SeqCst) >= 2);
        let handle = owner.handle();
        for (tick, called) in [(5, 1), (6, 2), (5, 3), (4, 3)] {
            let _ = handle.schedule(handle.thread(0), tick, 0, false).unwrap();
            assert_eq!(calls.load(Ordering::SeqCst), called, "the third call is the first to wake");
        }
    }
}
