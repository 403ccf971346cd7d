// tickwheel in C++17: closures and RAII over tickwheel.h, whose rules hold here as well.
//
//   tickwheel::Loop timers;
//   tw_key idle = timers.after(tw_now(), 30s, [=] { close(fd); });
//   timers.reschedule(tw_now(), idle, 30s);
//   timers.poll(tw_now());
//
// A closure is destroyed when it has been called, by the cancel that ends it, or with its loop or engine. It must not
// throw. What fails throws `Error`. A loop or engine goes with its last copy, but not in a callback of its own. An
// `Engine` has one worker; more need the C interface.
#ifndef TICKWHEEL_HPP
#define TICKWHEEL_HPP
#include "tickwheel.h"
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>

namespace tickwheel {
using Task = std::function<void()>;
using Duration = std::chrono::nanoseconds;

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
  tw_fire fire;
  Task run;
  bool periodic;
  bool running = false, ended = false; // of the thread that calls it
  static void call(void *, const tw_expired *expired) noexcept {
    auto *self = static_cast<Closure *>(expired->data);
    self->running = true;
    self->run();
    self->running = false;
    if (!self->periodic || self->ended) delete self;
  }
  static void left(void *, void *data) { delete static_cast<Closure *>(data); }
};

template <class Schedule> tw_key schedule(Task run, bool periodic, Schedule schedule) {
  std::unique_ptr<Closure> closure(new Closure{Closure::call, std::move(run), periodic});
  tw_key key;
  check(schedule(closure.get(), &key));
  (void)closure.release(); // the timer's; it may have been called and destroyed
  return key;
}

// `wait` waits for the present call of a periodic timer, or says that the calling thread is in a callback.
template <class Cancel, class Wait> bool cancel(Cancel cancel, Wait wait) {
  void *data;
  if (cancel(&data) != TW_ERROR_OK) return false;
  auto *closure = static_cast<Closure *>(data);
  if (closure->periodic && wait() == TW_ERROR_IN_CALLBACK && closure->running) closure->ended = true;
  else delete closure;
  return true;
}

// The loop's thread waits for no other one.
inline tw_error on_the_loop(tw_loop *, tw_key, uint64_t) { return TW_ERROR_IN_CALLBACK; }
} // namespace detail

// Timers of a loop, which is told the time by `now`, of its remotes, or of an engine. Copies are the same ones.
template <class Handle, auto Schedule, auto Periodic, auto Move, auto Cancel, auto Wait, class... Now> class Timers {
protected:
  std::shared_ptr<Handle> handle;
  explicit Timers(std::shared_ptr<Handle> handle) : handle(std::move(handle)) {}

public:
  Handle *get() const { return handle.get(); } // for the rest of the C interface
  tw_key after(Now... now, Duration delay, Task run) const {
    auto call = [&](void *data, tw_key *key) { return Schedule(get(), now..., detail::ns(delay), data, key); };
    return detail::schedule(std::move(run), false, call);
  }
  tw_key every(Now... now, Duration period, Task run, int kind = TW_PERIOD_SKIP) const {
    uint64_t ns = detail::ns(period);
    auto call = [&](void *data, tw_key *key) { return Periodic(get(), now..., ns, ns, kind, data, key); };
    return detail::schedule(std::move(run), true, call);
  }
  // False where the timer has ended.
  bool reschedule(Now... now, tw_key key, Duration delay) const {
    return Move(get(), now..., key, detail::ns(delay)) == TW_ERROR_OK;
  }
  // False where the timer has ended. After true a periodic one's closure runs no more, unless it is what calls this.
  bool cancel(tw_key key) const {
    auto call = [&](void **data) { return Cancel(get(), key, data); };
    return detail::cancel(call, [&] { return Wait(get(), key, UINT64_MAX); });
  }
  // Waits until the timer's closure has returned, after a cancel that came too late. Refused in callbacks.
  void wait(tw_key key) const { detail::check(Wait(get(), key, UINT64_MAX)); }
};

class Remote : public Timers<tw_remote, tw_remote_schedule, tw_remote_schedule_periodic, tw_remote_reschedule,
                             tw_remote_cancel, tw_remote_wait> {
  friend class Loop;
  using Timers::Timers;
};

class Engine : public Timers<tw_timer, tw_timer_schedule, tw_timer_schedule_periodic, tw_timer_reschedule,
                             tw_timer_cancel, tw_timer_wait> {
  static void stop(tw_timer *timer) { tw_timer_stop(timer, detail::Closure::left, nullptr), tw_timer_free(timer); }
  static tw_timer *make(tw_options options) {
    options.shards = 1;
    return detail::made<tw_timer>([&](tw_timer **made) { return tw_timer_new(&options, tw_call, nullptr, made); });
  }

public:
  explicit Engine(const tw_options &options = {}) : Timers({make(options), stop}) {}
};

class Loop : public Timers<tw_loop, tw_loop_schedule, tw_loop_schedule_periodic, tw_loop_reschedule, tw_loop_cancel,
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
  // With remotes if there is a task that ends its sleep.
  explicit Loop(Task wakes = {}, const tw_options &options = {}) : Loop(options, std::make_shared<Task>(wakes)) {}
  Remote remote() const {
    auto *made = detail::made<tw_remote>([&](tw_remote **made) { return tw_remote_new(get(), made); });
    return Remote({made, [wakes = wakes](tw_remote *it) { tw_remote_free(it); }});
  }
  void poll(uint64_t now) const { detail::check(tw_loop_poll(get(), now, tw_call, nullptr, nullptr)); }
};
} // namespace tickwheel
#endif
