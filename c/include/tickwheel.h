// tickwheel: timers for event loops, other threads, and worker threads. Written by cbindgen from c/src; do not edit.
//
// tw_loop    timers of a loop, or of any one thread; with tw_remote other threads reach them
// tw_timer   an engine with threads of its own, which call a function of yours; any thread may use it
//
// Time. All times and durations are nanoseconds, and tw_now() is the clock. A loop without remotes may be told the time
// by any clock that does not go back. Read the clock once per round of a loop and pass it on. Deadlines are rounded up
// to a tick: no timer is early. What tw_loop_deadline and expired->deadline tell is the rounded time, up to a tick after
// the time asked for.
//
// Order. Timers fire in the order of deadlines, tick by tick; an engine has that order within each of its shards. Timers
// of one tick that one thread has scheduled fire in the order of its calls. A timer that was moved fires anywhere within
// its tick. Between threads no order is promised within a tick. A timer that is due when it is scheduled, or that a
// callback schedules, fires in a later poll or turn at the earliest. Of more than 16384 timers of one tick, and of more
// than one poll or turn fires, some may fire after later ones.
//
// Threads. Calls with one tw_loop must not overlap; it may move between threads. A tw_remote and a tw_timer may be used
// by any number of threads at once; only their free call must come after all others. No call may come from a signal
// handler: it may interrupt another one of the same thread. With glibc a thread's first call must not come from a
// destructor of pthread_key_create: a few KiB would stay for each such thread. Workers have stacks of 2 MiB.
//
// Pointers. A null pointer is TW_ERROR_NULL where the call needs one. Other pointers must be valid: a freed one cannot
// be recognised, and neither can one of another type. Your data pointers are stored and handed back; only tw_call
// follows them.
//
// Keys. A key names one timer for ever. With an old key, or a key of another loop or engine, calls answer TW_ERROR_GONE
// (a foreign key is taken for an own one with a probability of 2^-46). All bits zero is no key. What a tw_remote has
// scheduled has a tw_remote_key, and remotes take no other: no thread but the loop's reaches what the loop has scheduled.
// The loop takes both: theirs.key. In a callback (tw_remote_key){expired->key} is the key of a remote's timer.
//
// Firing. A timer of a tw_timer or a tw_remote may fire before the call that schedules it returns, and before its key is
// written: the key must not lie in what the callback frees, and the callback has expired->key. TW_ERROR_GONE of
// a tw_timer or a tw_remote does not say that a callback is over: it may run in a worker or in the loop's thread, or be
// about to. tw_timer_wait and tw_remote_wait say when it is:
//
//   tw_timer_cancel(timer, request->key, NULL);            // whether it is too late or not
//   tw_timer_wait(timer, request->key, UINT64_MAX);
//   free(request);
//
// The wait may be left out where the cancel of a timer that fires once has answered TW_ERROR_OK. In a callback, of
// whichever loop or engine, no other one is waited for, because that one could wait for this one: the answer is
// TW_ERROR_IN_CALLBACK if the timer's callback runs. Do not wait with a lock that the callback takes.
//
// Periods. A periodic timer has one key for all its periods, and one cancel ends it, from any thread and from its own
// callback. After that no call begins; the present one goes on, which the wait is for. A cancel in the moment before a
// call answers TW_ERROR_GONE: that call is the last, as its expired->is_last says. It does not drift.
//
// Callbacks must return. If a C++ exception, pthread_exit or a cancellation leaves one, the process ends. If a longjmp
// does, the loop stays in its poll for ever, and the thread in the callback: poll, close and free answer
// TW_ERROR_IN_CALLBACK. A thread that may be cancelled disables that in callbacks, tw_wake included, that call write,
// close or the like.
//
// Signals. An engine's threads block all but those that their own instructions cause (SIGSEGV, SIGBUS, SIGFPE, SIGILL,
// SIGTRAP, SIGSYS). What a callback starts inherits that: a thread that is to take signals unblocks them, and so does a
// child between fork and exec.
//
// Forks. A loop is copied, with its timers and keys; an eventfd that tw_wake writes to is not: parent and child share it.
// An engine whose threads run has none in the child: there it refuses to schedule, to wait and to stop, what else it
// answers is about the copy, and nothing fires. A callback must not return in the child of a fork. Fork first, or build
// another engine, or another loop with remotes, there. tw_remote_wait in a child may wait for the parent's callback.


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
  // This call is not allowed inside of a callback of the same loop or engine, nor a wait in any for one that runs.
  TW_ERROR_IN_CALLBACK = 4,
  // An option or a period is out of range.
  TW_ERROR_OPTION = 5,
  // As many timers are pending as `max_pending` allows.
  TW_ERROR_FULL = 6,
  // There is no memory for the timer, or the table of timers is full. Where memory is refused to a new loop, remote
  // or engine, to its close or stop, or to a timer that moves, the process ends; a move of a tw_remote's or a
  // tw_timer's timer may have no effect instead.
  TW_ERROR_NO_MEMORY = 7,
  // The system gave no thread.
  TW_ERROR_NO_THREAD = 8,
  // The engine was started before a fork; its threads are in the other process.
  TW_ERROR_FORKED = 9,
  // The loop was built without remotes.
  TW_ERROR_NO_REMOTES = 10,
  // tickwheel has panicked, which is a bug of its own; its message is on stderr.
  TW_ERROR_PANICKED = 11,
  // The timer has not ended, so there is no callback to wait for.
  TW_ERROR_PENDING = 12,
  // The callback was still under way at the end of the time limit.
  TW_ERROR_TIMED_OUT = 13,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum tw_error tw_error;
#else
typedef int32_t tw_error;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How a periodic timer goes on after a callback.
enum tw_period
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Deadlines are a period apart. Those that were missed are left out.
  TW_PERIOD_SKIP = 0,
  // Like SKIP; after missed ones the next deadline is a period from now.
  TW_PERIOD_DELAY = 1,
  // Like SKIP; missed ones are made up for, one call each.
  TW_PERIOD_BURST = 2,
  // The period begins when the callback has returned; on a loop without remotes at the `now` of its poll.
  TW_PERIOD_PAUSE = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum tw_period tw_period;
#else
typedef int32_t tw_period;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The timers of a loop. Calls must not overlap.
typedef struct tw_loop tw_loop;

// Schedules on a loop from other threads.
typedef struct tw_remote tw_remote;

// An engine: its threads call a function of yours; any thread schedules.
typedef struct tw_timer tw_timer;

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
  // Its key, which names nothing any more, unless the timer is periodic.
  tw_key key;
  // When it was due: the time asked for, rounded up to a tick. If it was due at once, the beginning of the tick in
  // which it was scheduled, or of an earlier one.
  uint64_t deadline;
  // How long after its deadline it is called.
  uint64_t lateness;
  // No call comes after this one: the timer fires once, or a cancel in the moment before has answered TW_ERROR_GONE.
  bool is_last;
} tw_expired;

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

// Called for each timer that fires, with the `ctx` that was given beside it. The struct is gone when it returns.
typedef void (*tw_fire)(void *ctx, const tw_expired *expired);

// The result of one poll.
typedef struct {
  // How many timers were fired.
  size_t fired;
  // More is due, or there is housekeeping left: serve the sockets, then poll again without a sleep.
  bool more;
} tw_polled;

// What was counted so far, by all threads. `reserved` is 0: room for later versions.
typedef struct {
  // Timers accepted, fired, cancelled, and left at the end. A period counts as one scheduled and one fired.
  uint64_t scheduled;
  // See above.
  uint64_t fired;
  // See above.
  uint64_t cancelled;
  // See above.
  uint64_t left;
  // Timers pending.
  uint64_t pending;
  // Moves of pending timers.
  uint64_t rescheduled;
  // Sleeps, and those of them that another thread ended early.
  uint64_t sleeps;
  // See above.
  uint64_t wakes;
  // Bytes held for timers.
  uint64_t held_bytes;
  // How late the oldest timer is that is due and has not fired; 0 where all is well.
  uint64_t lag_ns;
  // How late timers fired: half of them at most so late, 99 of 100, and the latest. To 7 % or so.
  uint64_t lateness_p50_ns;
  // See above.
  uint64_t lateness_p99_ns;
  // See above.
  uint64_t lateness_max_ns;
  // Zero.
  uint64_t reserved[7];
} tw_stats;

// Names one timer that a tw_remote has scheduled: remotes take no other. Its `key` is for the calls of the loop.
typedef struct {
  // As the loop's calls and its callbacks have it.
  tw_key key;
} tw_remote_key;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns what an error means and what to do: a static text. For numbers that are no tw_error as well.
const char *tw_error_text(int error);

// A `fire` for timers that have a function each: the data of each timer begins with a tw_fire, which is called with the
// same arguments. Such a struct may lie anywhere; `struct request { tw_fire fire; ... }` is one.
void tw_call(void *ctx,
             const tw_expired *expired);

// Returns the version of the library, like "1.0.0": a static text.
const char *tw_version(void);

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

// Schedules a timer for a point on the loop's scale of time.
tw_error tw_loop_schedule_at(tw_loop *timers, uint64_t now, uint64_t deadline, void *data, tw_key *key);

// Schedules a timer for `now + first_ns` and then once per `period_ns`, as `kind` says, a tw_period. Its key stays the
// same over all periods.
tw_error tw_loop_schedule_periodic(tw_loop *timers,
                                   uint64_t now,
                                   uint64_t first_ns,
                                   uint64_t period_ns,
                                   int kind,
                                   void *data,
                                   tw_key *key);

// Moves a pending timer to `now + delay_ns`; of a periodic one the next deadline.
tw_error tw_loop_reschedule(tw_loop *timers, uint64_t now, tw_key key, uint64_t delay_ns);

// Like tw_loop_reschedule, to a point on the loop's scale of time.
tw_error tw_loop_reschedule_at(tw_loop *timers, uint64_t now, tw_key key, uint64_t deadline);

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

// Ends the poll after the callback that calls this: what is due besides stays due, and `more` says so. Without a poll
// under way it does nothing.
tw_error tw_loop_break(tw_loop *timers);

// Returns when there is something to do next, at the earliest deadline or before it; UINT64_MAX for never, and if the
// loop is null or closed. It announces no sleep: before one, call tw_loop_poll_timeout.
uint64_t tw_loop_next_deadline(const tw_loop *timers);

// Writes the statistics so far to `stats`. A loop without remotes counts nothing: TW_ERROR_NO_REMOTES.
tw_error tw_loop_stats(const tw_loop *timers, tw_stats *stats);

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
                            tw_remote_key *key);

// Schedules a timer for a point on the scale of tw_now.
tw_error tw_remote_schedule_at(const tw_remote *remote, uint64_t deadline, void *data, tw_remote_key *key);

// Schedules a timer for `first_ns` from now and then once per `period_ns`, as `kind` says, a tw_period. Its key stays the
// same: a cancel from any thread ends it.
tw_error tw_remote_schedule_periodic(const tw_remote *remote,
                                     uint64_t first_ns,
                                     uint64_t period_ns,
                                     int kind,
                                     void *data,
                                     tw_remote_key *key);

// Moves a pending timer to `delay_ns` from now; of a periodic one the next deadline.
tw_error tw_remote_reschedule(const tw_remote *remote, tw_remote_key key, uint64_t delay_ns);

// Like tw_remote_reschedule, to a point on the scale of tw_now.
tw_error tw_remote_reschedule_at(const tw_remote *remote, tw_remote_key key, uint64_t deadline);

// Cancels a pending timer. Its data is written to `data`, which may be null. This ends no sleep: a loop that is to notice
// that its last timer is gone must be woken by the caller.
tw_error tw_remote_cancel(const tw_remote *remote,
                          tw_remote_key key,
                          void **data);

// Waits until the loop's callback for the timer has returned, for `limit_ns` at most; UINT64_MAX is for ever. Call it
// after a cancel, won or lost: then no callback uses the data, which may be freed. TW_ERROR_PENDING before a cancel. In a
// callback, also of another loop or engine, it waits for no other one, which could wait for this one:
// TW_ERROR_IN_CALLBACK if the timer's runs.
tw_error tw_remote_wait(const tw_remote *remote,
                        tw_remote_key key,
                        uint64_t limit_ns);

// Tells when a pending timer is due. `deadline` may be null.
tw_error tw_remote_deadline(const tw_remote *remote, tw_remote_key key, uint64_t *deadline);

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

// Schedules a timer for a point on the scale of tw_now.
tw_error tw_timer_schedule_at(const tw_timer *timer, uint64_t deadline, void *data, tw_key *key);

// Schedules a timer for `first_ns` from now and then once per `period_ns`, as `kind` says, a tw_period. Its key stays the
// same: a cancel from any thread ends it.
tw_error tw_timer_schedule_periodic(const tw_timer *timer,
                                    uint64_t first_ns,
                                    uint64_t period_ns,
                                    int kind,
                                    void *data,
                                    tw_key *key);

// Moves a pending timer to `delay_ns` from now; of a periodic one the next deadline.
tw_error tw_timer_reschedule(const tw_timer *timer, tw_key key, uint64_t delay_ns);

// Like tw_timer_reschedule, to a point on the scale of tw_now.
tw_error tw_timer_reschedule_at(const tw_timer *timer, tw_key key, uint64_t deadline);

// Cancels a pending timer. Its data is written to `data`, which may be null.
tw_error tw_timer_cancel(const tw_timer *timer, tw_key key, void **data);

// Waits until the callback of the timer has returned, for `limit_ns` at most; UINT64_MAX is for ever. Call it after a
// cancel, won or lost: then no callback uses the data, which may be freed. TW_ERROR_PENDING before a cancel. In a
// callback, also of another loop or engine, it waits for no other one, which could wait for this one:
// TW_ERROR_IN_CALLBACK if the timer's runs.
tw_error tw_timer_wait(const tw_timer *timer,
                       tw_key key,
                       uint64_t limit_ns);

// Tells when a pending timer is due. `deadline` may be null.
tw_error tw_timer_deadline(const tw_timer *timer, tw_key key, uint64_t *deadline);

// Returns the number of pending timers; 0 if the timer is null.
size_t tw_timer_pending(const tw_timer *timer);

// Writes the statistics so far to `stats`. Not for each round: it visits each thread's counters.
tw_error tw_timer_stats(const tw_timer *timer, tw_stats *stats);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TICKWHEEL_H */
