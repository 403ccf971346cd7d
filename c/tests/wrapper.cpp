// Every function of tickwheel.hpp. Ends with 1 at the first surprise. An argument says how many timers other threads
// cancel.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <tickwheel.hpp>

using namespace std::chrono_literals;

#define EXPECT(condition) \
  ((condition) ? (void)0 : (std::printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition), std::exit(1)))

// What a closure has captured goes with it, once.
static void loops(const tickwheel::Loop &timers) {
  auto held = std::make_shared<int>(0);
  uint64_t now = tw_now(), later = now + 5000000000;
  auto count = [held] { ++*held; };
  timers.after(now, 1s, count);
  tw_key moved = timers.after(now, 1s, count), cancelled = timers.after(now, 1s, count);
  EXPECT(held.use_count() == 5); // three timers, `count`, and this
  EXPECT(timers.reschedule(now, moved, 60s) && timers.cancel(cancelled) && !timers.cancel(cancelled));
  EXPECT(held.use_count() == 4);
  timers.poll(now + 2000000000);
  EXPECT(*held == 1 && held.use_count() == 3 && !timers.reschedule(now, cancelled, 1s));

  // Periodic ones: cancelled from outside, by itself, and by another timer.
  tw_key itself{}, other = timers.every(now, 1s, count), third = timers.every(now, 1s, count);
  itself = timers.every(now, 1s, [&, held] { EXPECT(timers.cancel(itself) && !timers.cancel(itself)), ++*held; });
  timers.after(now, 1s, [&] { EXPECT(timers.cancel(third)); });
  timers.poll(later);
  *held = 0;
  timers.poll(later + 2000000000);
  EXPECT(*held == 1 && timers.cancel(other) && timers.cancel(moved));
  EXPECT(held.use_count() == 2 && tw_loop_pending(timers.get()) == 0);

  // What is pending when the loop goes.
  timers.after(now, 1s, count);
  timers.every(now, -1s + 2s, count);
}

static void refused() {
  tw_options three{};
  three.max_pending = 1;
  tickwheel::Loop timers({}, three);
  auto held = std::make_shared<int>(0);
  timers.after(0, 1s, [held] {});
  try {
    timers.after(0, 1s, [held] {});
    EXPECT(!"a second timer");
  } catch (const tickwheel::Error &error) {
    EXPECT(error.code == TW_ERROR_FULL && error.what());
  }
  EXPECT(held.use_count() == 2);
  try {
    timers.remote();
    EXPECT(!"a remote of a loop without remotes");
  } catch (const tickwheel::Error &error) {
    EXPECT(error.code == TW_ERROR_NO_REMOTES);
  }
}

// Timers that other threads cancel while their closures run: what these use goes right after it.
template <class Timers> static void cancelled_elsewhere(const Timers &timers, int rounds) {
  for (int i = 0; i < rounds; i++) {
    auto used = std::make_unique<std::atomic<int>>(0);
    auto *count = used.get();
    auto once = timers.after(i % 2 * 50us, [=] { ++*count; });
    // The thread that waits for the count cancels now: what comes next must find the memory yet.
    auto often = timers.every(20us, [=, text = std::string(100, 'x')] {
      ++*count;
      for (int i = 0; i < 20; i++) std::this_thread::yield();
      EXPECT(*count > 0 && text[99] == 'x');
    });
    while (*count < i % 4) std::this_thread::yield();
    if (!timers.cancel(once)) timers.wait(once);
    EXPECT(timers.cancel(often));
  }
}

static void remotes(int rounds) {
  std::atomic<int> wakes = 0;
  std::atomic<bool> over = false;
  tw_options options{};
  options.tick_ns = 10000;
  auto loop = std::make_unique<tickwheel::Loop>([&] { ++wakes; }, options);
  tickwheel::Remote remote = loop->remote();
  EXPECT(tw_loop_poll_timeout(loop->get(), tw_now()) == UINT64_MAX);
  tw_remote_key key = remote.after(0s, [] {});
  EXPECT(wakes == 1 && remote.reschedule(key, 60s) && remote.cancel(key));
  std::thread thread([&] {
    while (!over) loop->poll(tw_now()), std::this_thread::yield();
  });
  cancelled_elsewhere(remote, rounds);
  over = true;
  thread.join();
  loop.reset();
  try {
    remote.after(1s, [] {});
    EXPECT(!"a timer of a loop that is gone");
  } catch (const tickwheel::Error &error) {
    EXPECT(error.code == TW_ERROR_CLOSED);
  }
}

static void engines(int rounds) {
  tw_options options{};
  options.tick_ns = 10000;
  auto held = std::make_shared<int>(0);
  std::atomic<int> beats = 0;
  {
    tickwheel::Engine engine(options), same = engine;
    cancelled_elsewhere(engine, rounds);
    tw_key key{};
    std::atomic<bool> set = false, cancelled = false;
    key = engine.every(1ms, [&, held] {
      if (!set || ++beats < 3) return;
      EXPECT(same.cancel(key)); // by itself
      cancelled = true;
    });
    set = true;
    while (!cancelled) std::this_thread::yield();
    engine.wait(key);
    EXPECT(held.use_count() == 1);
    engine.after(3600s, [held] {});
  }
  EXPECT(held.use_count() == 1 && beats == 3);
}

int main(int words, char **word) {
  int rounds = words > 1 ? std::atoi(word[1]) : 500;
  loops(tickwheel::Loop());
  loops(tickwheel::Loop([] {}));
  refused();
  remotes(rounds);
  engines(rounds);
  std::printf("all as expected\n");
}
