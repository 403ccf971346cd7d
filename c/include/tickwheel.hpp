// tickwheel in C++17: closures and RAII over tickwheel.h, whose rules hold here as well.
//
//   tickwheel::Loop timers;
//   tw_key idle = timers.after(tw_now(), 30s, [=] { close(fd); });
//   timers.reschedule(tw_now(), idle, 30s);
//   timers.poll(tw_now());
//
// Loop    timers of one thread, which tells them the time, and of its remotes
// Remote  schedules on a loop from any thread
// Engine  timers with a worker of their own, for any thread; for more workers take the C interface
//
// Copies are the same loop, remote or engine. It goes with its last copy, which must not go in a closure of its own.
//
// Closures. A closure is destroyed when it has been called, by the cancel that ends it, or with its loop or engine. It
// must not throw. It runs on the thread that polls, or on the engine's worker, one at a time.
//
// Waiting. `cancel` of a periodic closure waits, without a limit, until its present call has returned: call it with no
// lock that the closure takes. In a closure, of whichever loop or engine, it does not wait, so that two may cancel each
// other: a call that is under way goes on after it, and destroys its closure at its end.
//
// Errors. What fails throws `Error`; `cancel` and `reschedule` answer false where the timer has ended.
#ifndef TICKWHEEL_HPP
#define TICKWHEEL_HPP
#include "tickwheel.h"
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>

namespace tickwheel {
using Task = std::function<void()>;
using Duration = std::chrono::nanoseconds; // negative ones count as zero

// Says what the C interface has answered.
struct Error : std::runtime_error {
  tw_error code;
  explicit Error(tw_error code) : std::runtime_error(tw_error_text(code)), code(code) {}
};

namespace detail {
inline void check(tw_error error) {
  if (error != TW_ERROR_OK) throw Error(error);
}
template <class T, class Make> T *made(Make make) {
  T *made;
  check(make(&made));
  return made;
}
inline uint64_t ns(Duration duration) { return duration.count() < 0 ? 0 : static_cast<uint64_t>(duration.count()); }

// What a timer carries; `fire` comes first, for tw_call.
struct Closure {
  enum State { resting, running, ended };
  tw_fire fire;
  Task run;
  bool periodic;
  std::atomic<State> state{resting}; // ended: cancelled in a call, which destroys it
  bool replace(State from, State to) { return state.compare_exchange_strong(from, to); }
  static void call(void *, const tw_expired *expired) noexcept {
    auto *self = static_cast<Closure *>(expired->data);
    self->state = running;
    self->run();
    if (expired->is_last || !self->replace(running, resting)) delete self;
  }
  static void left(void *, void *data) { delete static_cast<Closure *>(data); }
};

template <class Key, class Schedule> Key schedule(Task run, bool periodic, Schedule schedule) {
  std::unique_ptr<Closure> closure(new Closure{Closure::call, std::move(run), periodic});
  Key key;
  check(schedule(closure.get(), &key));
  (void)closure.release(); // the timer's; it may have been called and destroyed
  return key;
}

// `wait` waits for the present call of a periodic timer. In a callback it says whether there is one, which is about to
// enter or to leave `Closure::call` where that is not running.
template <class Cancel, class Wait> bool cancel(Cancel cancel, Wait wait) {
  void *data;
  if (cancel(&data) != TW_ERROR_OK) return false;
  auto *closure = static_cast<Closure *>(data);
  for (tw_error answer = closure->periodic ? wait() : TW_ERROR_OK; answer != TW_ERROR_OK; answer = wait()) {
    if (closure->replace(Closure::running, Closure::ended)) return true;
    if (answer != TW_ERROR_IN_CALLBACK) break;
  }
  delete closure;
  return true;
}

// On the loop's thread a closure that is not running now is about to do nothing.
inline tw_error on_the_loop(tw_loop *, tw_key, uint64_t) { return TW_ERROR_NO_REMOTES; }
} // namespace detail

// What all three have in common. `Now... now` is the loop's time, by tw_now(), which a `Loop` is told; for a `Remote` and
// an `Engine` leave it out. A `Loop` takes a remote's `key.key` as well; a `Remote` takes no key of the loop's.
template <class Handle, class Key, auto Schedule, auto Periodic, auto Move, auto Cancel, auto Wait, class... Now>
class Timers {
protected:
  std::shared_ptr<Handle> handle;
  explicit Timers(std::shared_ptr<Handle> handle) : handle(std::move(handle)) {}

public:
  // The handle, for the rest of the C interface. Do not free, close or stop it.
  Handle *get() const { return handle.get(); }

  // Runs a closure once, after a delay that is rounded up to a tick. Throws TW_ERROR_FULL at `max_pending`,
  // TW_ERROR_CLOSED where the remote's loop is gone, TW_ERROR_NO_MEMORY, TW_ERROR_NO_THREAD, TW_ERROR_FORKED.
  Key after(Now... now, Duration delay, Task run) const {
    auto call = [&](void *data, Key *key) { return Schedule(get(), now..., detail::ns(delay), data, key); };
    return detail::schedule<Key>(std::move(run), false, call);
  }

  // Runs a closure after a period, and then once per period; `kind`, a tw_period, says what follows missed ones. The key
  // stays the same until a cancel. Throws like `after`, and TW_ERROR_OPTION for a period of zero.
  Key every(Now... now, Duration period, Task run, int kind = TW_PERIOD_SKIP) const {
    uint64_t ns = detail::ns(period);
    auto call = [&](void *data, Key *key) { return Periodic(get(), now..., ns, ns, kind, data, key); };
    return detail::schedule<Key>(std::move(run), true, call);
  }

  // Moves the timer to `delay` from now; of a periodic one the next call. False where it has ended.
  bool reschedule(Now... now, Key key, Duration delay) const {
    return Move(get(), now..., key, detail::ns(delay)) == TW_ERROR_OK;
  }

  // Ends the timer and destroys its closure. False where it has ended, which may mean that its only call, or the last one
  // of a periodic closure, is about to begin or runs: `wait` waits for it. After true a periodic closure runs no more;
  // where a closure calls this, no call begins any more. See above for how it waits.
  bool cancel(Key key) const {
    auto call = [&](void **data) { return Cancel(get(), key, data); };
    return detail::cancel(call, [&] { return Wait(get(), key, UINT64_MAX); });
  }

  // Waits until the timer's closure has returned, after a cancel that came too late. Throws TW_ERROR_PENDING before a
  // cancel, and in a closure TW_ERROR_IN_CALLBACK if the timer's runs. On a loop's own thread there is nothing to wait
  // for: a `Loop` throws TW_ERROR_NO_REMOTES.
  void wait(Key key) const { detail::check(Wait(get(), key, UINT64_MAX)); }
};

// Made by `Loop::remote`; for any number of threads at once. It may outlive its loop, and then `after` and `every` throw.
class Remote : public Timers<tw_remote, tw_remote_key, tw_remote_schedule, tw_remote_schedule_periodic,
                             tw_remote_reschedule, tw_remote_cancel, tw_remote_wait> {
  friend class Loop;
  using Timers::Timers;
};

// For any number of threads at once. The first timer starts the worker. The last copy waits for the closure that runs.
class Engine : public Timers<tw_timer, tw_key, tw_timer_schedule, tw_timer_schedule_periodic, tw_timer_reschedule,
                             tw_timer_cancel, tw_timer_wait> {
  static void stop(tw_timer *timer) { tw_timer_stop(timer, detail::Closure::left, nullptr), tw_timer_free(timer); }
  static tw_timer *make(tw_options options) {
    options.shards = 1;
    return detail::made<tw_timer>([&](tw_timer **made) { return tw_timer_new(&options, tw_call, nullptr, made); });
  }

public:
  // `options.shards` is 1, whatever it says. Throws TW_ERROR_OPTION.
  explicit Engine(const tw_options &options = {}) : Timers({make(options), stop}) {}
};

// For one thread at a time. In a round of the loop: sleep for tw_loop_poll_timeout_ms(loop.get(), tw_now()), read the
// clock once, serve the sockets, poll.
class Loop : public Timers<tw_loop, tw_key, tw_loop_schedule, tw_loop_schedule_periodic, tw_loop_reschedule, tw_loop_cancel,
                           detail::on_the_loop, uint64_t> {
  std::shared_ptr<Task> wakes; // the loop and its remotes keep it
  static tw_loop *make(Task *wakes, const tw_options &options) {
    auto call = [](void *task) { (*static_cast<Task *>(task))(); };
    return detail::made<tw_loop>([&](tw_loop **made) {
      return *wakes ? tw_loop_new_with_remotes(&options, call, wakes, made) : tw_loop_new(&options, made);
    });
  }
  static void close(tw_loop *loop) { tw_loop_close(loop, detail::Closure::left, nullptr), tw_loop_free(loop); }
  Loop(const tw_options &options, std::shared_ptr<Task> task)
      : Timers({make(task.get(), options), [task](tw_loop *it) { close(it); }}), wakes(task) {}

public:
  // With remotes if there is a task that ends the loop's sleep, by a write to an eventfd for example. Any thread that has
  // a remote calls it; it must not use the loop. Throws TW_ERROR_OPTION.
  explicit Loop(Task wakes = {}, const tw_options &options = {}) : Loop(options, std::make_shared<Task>(wakes)) {}

  // Makes a remote. Throws TW_ERROR_NO_REMOTES without a task that ends the sleep.
  Remote remote() const {
    auto *made = detail::made<tw_remote>([&](tw_remote **made) { return tw_remote_new(get(), made); });
    return Remote({made, [wakes = wakes](tw_remote *it) { tw_remote_free(it); }});
  }

  // Runs the closures that are due at `now`, within the budget; what they schedule runs in a later poll. Throws
  // TW_ERROR_IN_CALLBACK in a closure of the loop.
  void poll(uint64_t now) const { detail::check(tw_loop_poll(get(), now, tw_call, nullptr, nullptr)); }
};
} // namespace tickwheel
#endif
