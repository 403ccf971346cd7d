//! A timer's protocol: its states, who owns the payload, and who gives the node back.
//!
//! One word per node decides all of it: [`StateWord`], whose bits are the core's [`State`]. Nodes act on its answers.
//!
//! ```text
//!            arm                      end                       last reference goes
//!   free ---------> living ------------------------> ended -----------------------------> free
//!   (in a           Pending: fires once              Cancelled, Fired or Returned         (in the cache of the
//!   thread cache)   Waiting: repeats; claim, release                                       thread that let go)
//! ```
//!
//! | field | free | living | living and claimed | ended | may be read stale by |
//! |---|---|---|---|---|---|
//! | state | the armer writes it | any thread, by one step | same | holders release | any thread |
//! | deadline | the armer writes it | movers replace it, the owner reads | both replace it | a `TimerHandle` reads | the owner (the state decides) |
//! | payload | the armer writes it | - | the owner's | the winner takes it, once | - |
//!
//! * **Arm**: a thread takes a node from its thread cache and has it alone. It writes payload and deadline, then the
//!   word, in the next generation. So a key or an entry of an earlier timer never matches again.
//! * **End**: a cancel, a fire and `stop` each try one compare-and-swap out of the living phases. One of them wins and
//!   owns the payload. [`Ending`] tells the winner what to do about it and the node.
//! * **References** keep a node from its next timer. A `TimerHandle` has one, each mover, the owner while it has claimed
//!   the timer, and a winner that reads the payload beside another one. If an ended timer has none left, the thread that
//!   let the last one go gives the node to its own thread cache; a winner who met none does so.
//! * **Move**: a mover takes a reference, replaces the deadline, and lets go by a step that sets `MOVED`. The owner clears
//!   that before it reads the deadline, and its own step fails if another move has come: no timer fires at a deadline
//!   that was moved. `node::record` says what settles the deadline while a mover has a reference.
//!   A future has its timer's handle and moves it alone: it takes no other reference, and sets `MOVED` before it replaces
//!   the deadline and again afterwards. An owner that puts an entry at a deadline checks the state once more: so `MOVED`
//!   stays set as long as the entry before the move is there.
//! * **Claim**: before each call of a periodic timer the owner claims it, and has the payload to itself. A thread that
//!   ends the timer meanwhile leaves the payload to the owner, who calls the handler for the last time.
//! * **Entries** are hints. Each has the *mark* of a state; an entry whose mark differs is a zombie.

mod word;

pub(crate) use tickwheel_core::state::{MOVED, MOVERS, Phase, State, generation_seed};
pub(crate) use word::{Ending, Moved, StateWord};
