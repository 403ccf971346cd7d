// tickwheel: timers for event loops, other threads, and worker threads. Written by cbindgen from c/src; do not edit.
//
// tw_loop    timers of a loop, or of any one thread; with tw_remote other threads reach them
// tw_timer   an engine with threads of its own, which call a function of yours; any thread may use it
//
// Time. All times and durations are nanoseconds, and tw_now() is the clock. A loop without remotes may be told the time
// by any clock that does not go back. Read the clock once per round of a loop and pass it on. Deadlines are rounded up
// to a tick: no timer is early.
//
// Threads. Calls with one tw_loop must not overlap; it may move between threads. A tw_remote and a tw_timer may be used
// by any number of threads at once; only their free call must come after all others. No call may come from a signal
// handler: it may interrupt another one of the same thread. With glibc a thread's first call must not come from a
// destructor of pthread_key_create: a few KiB would stay for each such thread. Workers have stacks of 2 MiB.
//
// Pointers. A null pointer is TW_ERROR_NULL where the call needs one. Other pointers must be valid: a freed one cannot
// be recognised, and neither can one of another type. Your data pointers are stored and handed back, never followed.
//
// Keys. A key names one timer for ever. With an old key, or a key of another loop or engine, calls answer TW_ERROR_GONE
// (a foreign key is taken for an own one with a probability of 2^-46). All bits zero is no key.
//
// Firing. A timer of a tw_timer or a tw_remote may fire before the call that schedules it returns, and before its key is
// written: the key must not lie in what the callback frees, and the callback has expired->key. TW_ERROR_GONE of
// a tw_timer or a tw_remote does not say that a callback is over: it may run in a worker or in the loop's thread, or be
// about to.
//
// Periods. A callback that schedules again makes a periodic timer. Keep the time of the next beat yourself, add the period
// to it, and schedule for next > now ? next - now : 0. To count from expired->deadline, or from the call, drifts: both
// add up what was rounded.
//
// Callbacks must return: no longjmp, no C++ exception, no pthread_exit and no cancellation may leave them, or the process
// ends. A thread that may be cancelled disables that in callbacks, tw_wake included, that call write, close or the like.
//
// Forks. A loop is copied, with its timers and keys; an eventfd that tw_wake writes to is not: parent and child share it.
// An engine whose threads run has none in the child: there it refuses to schedule and to stop, what else it answers is
// about the copy, and nothing fires. A callback must not return in the child of a fork. Fork first, or build another
// engine, or another loop with remotes, there.


#ifndef TICKWHEEL_H
#define TICKWHEEL_H

#include <stdint.h>
#include <stddef.h>
#include <stdbool.h>

// The answer of most calls: TW_ERROR_OK, which is 0, or why nothing was done.
enum tw_error
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Done.
  TW_ERROR_OK = 0,
  // A pointer is null that must not be.
  TW_ERROR_NULL = 1,
  // The key names no pending timer of this loop or engine. After a reschedule it may be firing.
  TW_ERROR_GONE = 2,
  // It is closed or stopped, or the remote's loop is.
  TW_ERROR_CLOSED = 3,
  // This call is not allowed inside of a callback of the same loop or engine.
  TW_ERROR_IN_CALLBACK = 4,
  // An option is out of range.
  TW_ERROR_OPTION = 5,
  // As many timers are pending as `max_pending` allows.
  TW_ERROR_FULL = 6,
  // There is no memory for the timer, or the table of timers is full. Where memory is refused to a new loop, remote
  // or engine, to its close or stop, or to a timer that moves, the process ends; a move by another thread than the
  // loop's may have no effect instead.
  TW_ERROR_NO_MEMORY = 7,
  // The system gave no thread.
  TW_ERROR_NO_THREAD = 8,
  // The engine was started before a fork; its threads are in the other process.
  TW_ERROR_FORKED = 9,
  // The loop was built without remotes.
  TW_ERROR_NO_REMOTES = 10,
  // tickwheel has panicked, which is a bug of its own; its message is on stderr.
  TW_ERROR_PANICKED = 11,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum tw_error tw_error;
#else
typedef int32_t tw_error;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The timers of a loop. Calls must not overlap.
typedef struct tw_loop tw_loop;

// Schedules on a loop from other threads.
typedef struct tw_remote tw_remote;

// An engine: its threads call a function of yours; any thread schedules.
typedef struct tw_timer tw_timer;

// Settings. Zero all of it, then set what you need: zero is the default of each.
typedef struct {
  // The length of a tick, 1000 (1 us) to 3.6e12 (1 h); default 1 ms.
  uint64_t tick_ns;
  // How much longer than until the next deadline a sleep may be, so that timers share a wake-up.
  uint64_t slack_ns;
  // The most pending timers; default no limit.
  size_t max_pending;
  // The most entries that one poll or turn fires; default 4096.
  size_t fire_budget;
  // tw_timer: the number of worker threads, at most 1024; default one per core.
  size_t shards;
  // tw_timer: nonzero leaves the workers unpinned; default one core each.
  int unpinned;
  // Zero: room for settings of later versions, which this one refuses.
  uint64_t reserved[4];
} tw_options;

// Ends the loop's current sleep, or its next one: writes to an eventfd, for example. Called by any thread that uses a
// remote; must not block, nor use the loop or its remotes. `ctx` must stay valid until the loop and all of its remotes
// are freed.
typedef void (*tw_wake)(void *ctx);

// Called with the data of each timer that had not fired when its timer was closed or stopped.
typedef void (*tw_left)(void *ctx, void *data);

// Names one timer. Plain data: copy it, store it, send it anywhere. Two keys are equal if both words are.
typedef struct {
  // The first word.
  uint64_t high;
  // The second word; 0 in a zeroed key only.
  uint64_t low;
} tw_key;

// A timer that has fired.
typedef struct {
  // What it was scheduled with.
  void *data;
  // Its key, which names nothing any more.
  tw_key key;
  // When it was due: the time asked for, rounded up to a tick. If it was due at once, the beginning of the tick in
  // which it was scheduled, or of an earlier one.
  uint64_t deadline;
  // How long after its deadline it is called.
  uint64_t lateness;
} tw_expired;

// Called for each timer that fires, with the `ctx` that was given beside it. The struct is gone when it returns.
typedef void (*tw_fire)(void *ctx, const tw_expired *expired);

// The result of one poll.
typedef struct {
  // How many timers were fired.
  size_t fired;
  // More is due, or there is housekeeping left: serve the sockets, then poll again without a sleep.
  bool more;
} tw_polled;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns what an error means and what to do: a static text. For numbers that are no tw_error as well.
const char *tw_error_text(int error);

// Returns the time since its first reading in this process, by the system's monotonic clock (about 20 ns).
uint64_t tw_now(void);

// Builds timers of one thread, without atomics. `options` may be null.
tw_error tw_loop_new(const tw_options *options, tw_loop **made);

// Builds timers that other threads reach by remotes. `options` may be null; `wake` too, if the loop never sleeps.
tw_error tw_loop_new_with_remotes(const tw_options *options,
                                  tw_wake wake,
                                  void *ctx,
                                  tw_loop **made);

// Frees the loop; data pointers that are left are forgotten. Not in callbacks. `timers` may be null.
tw_error tw_loop_free(tw_loop *timers);

// Ends the timers and calls `left`, which may be null, for each that was pending. Later calls are refused, those of
// remotes as well. Not in callbacks.
tw_error tw_loop_close(tw_loop *timers,
                       tw_left left,
                       void *ctx);

// Schedules a timer for `now + delay_ns`. Its key is written to `key`, which may be null.
tw_error tw_loop_schedule(tw_loop *timers, uint64_t now, uint64_t delay_ns, void *data, tw_key *key);

// Moves a pending timer to `now + delay_ns`.
tw_error tw_loop_reschedule(tw_loop *timers, uint64_t now, tw_key key, uint64_t delay_ns);

// Cancels a pending timer. Its data is written to `data`, which may be null.
tw_error tw_loop_cancel(tw_loop *timers, tw_key key, void **data);

// Tells when a pending timer is due. `deadline` may be null.
tw_error tw_loop_deadline(const tw_loop *timers, tw_key key, uint64_t *deadline);

// Returns the number of pending timers; 0 if the loop is null or closed.
size_t tw_loop_pending(const tw_loop *timers);

// Calls `fire` for each timer that is due at `now`, within the budget. `fire` may use the loop, but not poll, close or
// free it; what it schedules fires in a later poll. `polled` may be null.
tw_error tw_loop_poll(tw_loop *timers,
                      uint64_t now,
                      tw_fire fire,
                      void *ctx,
                      tw_polled *polled);

// Returns how long the loop may sleep before its next poll: nanoseconds, UINT64_MAX for ever. From here on a remote
// calls the waker if it schedules something earlier. 0 if the loop is null or closed: the poll that follows says so.
uint64_t tw_loop_poll_timeout(const tw_loop *timers,
                              uint64_t now);

// Like tw_loop_poll_timeout, for epoll_wait and poll: milliseconds, rounded up, -1 for ever.
int tw_loop_poll_timeout_ms(const tw_loop *timers, uint64_t now);

// Makes a remote of a loop that was built with remotes. One is enough for all threads. Free it after its last use,
// before or after the loop.
tw_error tw_remote_new(const tw_loop *timers,
                       tw_remote **made);

// Frees a remote. `remote` may be null.
void tw_remote_free(tw_remote *remote);

// Schedules a timer for `delay_ns` from now; the loop calls it. Its key is written to `key`, which may be null.
tw_error tw_remote_schedule(const tw_remote *remote,
                            uint64_t delay_ns,
                            void *data,
                            tw_key *key);

// Moves a pending timer to `delay_ns` from now.
tw_error tw_remote_reschedule(const tw_remote *remote, tw_key key, uint64_t delay_ns);

// Cancels a pending timer. Its data is written to `data`, which may be null.
tw_error tw_remote_cancel(const tw_remote *remote, tw_key key, void **data);

// Builds an engine. Its threads, which the first timer starts, call `fire` with `ctx`, several at once if there are
// several shards; until tw_timer_stop or tw_timer_free has returned. `fire` may use the timer, but not stop or free
// it. `options` may be null.
tw_error tw_timer_new(const tw_options *options,
                      tw_fire fire,
                      void *ctx,
                      tw_timer **made);

// Stops the engine: waits until the callbacks that run have returned, then calls `left`, which may be null, for each
// timer that was pending. Later schedules are refused; a second stop has nothing left.
tw_error tw_timer_stop(const tw_timer *timer,
                       tw_left left,
                       void *ctx);

// Stops the engine if that has not been done, and frees it; data pointers that are left are forgotten. `timer` may be
// null.
tw_error tw_timer_free(tw_timer *timer);

// Schedules a timer for `delay_ns` from now. Its key is written to `key`, which may be null.
tw_error tw_timer_schedule(const tw_timer *timer, uint64_t delay_ns, void *data, tw_key *key);

// Moves a pending timer to `delay_ns` from now.
tw_error tw_timer_reschedule(const tw_timer *timer, tw_key key, uint64_t delay_ns);

// Cancels a pending timer. Its data is written to `data`, which may be null.
tw_error tw_timer_cancel(const tw_timer *timer, tw_key key, void **data);

// Tells when a pending timer is due. `deadline` may be null.
tw_error tw_timer_deadline(const tw_timer *timer, tw_key key, uint64_t *deadline);

// Returns the number of pending timers; 0 if the timer is null.
size_t tw_timer_pending(const tw_timer *timer);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TICKWHEEL_H */
