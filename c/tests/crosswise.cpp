// Periodic closures that are cancelled in closures: by themselves, by one of another engine, by each other. Each is
// destroyed once, after its last call. Ends with 1 at the first surprise. An argument says how many rounds.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <tickwheel.hpp>
#include <unistd.h>

using namespace std::chrono_literals;

#define EXPECT(condition) \
  ((condition) ? (void)0 : (std::printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition), std::exit(1)))

static std::atomic<int> alive = 0;

// What a closure has captured: it is there while the closure runs, and goes with it.
struct Captured {
  std::atomic<int> calls = 0;
  Captured() { ++alive; }
  ~Captured() { --alive; }
};

static void await(const std::atomic<bool> &flag) {
  while (!flag) std::this_thread::yield();
}

template <class Timers> struct Side {
  const Timers &timers;
  decltype(timers.every(1ms, static_cast<void (*)()>(nullptr))) key{};
  std::atomic<bool> begun = false, cancelled = false;
};

// Each closure runs until the other has begun, then each cancels the other's timer, and uses what it has captured.
template <class One, class Other> static void each_other(const One &one, const Other &other) {
  Side<One> first{one};
  Side<Other> second{other};
  std::atomic<bool> keys = false;
  auto meet = [&keys](auto &own, auto &its) {
    return [&, captured = std::make_shared<Captured>()] {
      await(keys);
      own.begun = true;
      await(its.begun);
      EXPECT(its.timers.cancel(its.key));
      its.cancelled = true;
      await(own.cancelled);
      EXPECT(++captured->calls == 1);
    };
  };
  first.key = one.every(1ms, meet(first, second));
  second.key = other.every(1ms, meet(second, first));
  keys = true;
  await(first.cancelled), await(second.cancelled);
  one.wait(first.key), other.wait(second.key);
  EXPECT(alive == 0);
}

// A closure of one engine cancels one of another, whether that runs, is about to, or does not.
static void by_the_other(const tickwheel::Engine &one, const tickwheel::Engine &other, int rounds) {
  for (int i = 0; i < rounds; i++) {
    auto captured = std::make_shared<Captured>();
    std::atomic<bool> over = false;
    auto *calls = &captured->calls;
    tw_key often = other.every(20us, [captured = std::move(captured)] {
      ++captured->calls;
      for (int i = 0; i < 20; i++) std::this_thread::yield();
      EXPECT(captured->calls > 0);
    });
    while (i % 3 > 0 && *calls < i % 3) std::this_thread::yield();
    // It comes too late for a call that is about to begin, which is the last one then.
    one.after(0s, [&] { other.cancel(often), over = true; });
    await(over);
    other.wait(often);
    EXPECT(alive == 0);
  }
}

// A closure that polls another loop, whose closure cancels it.
static void nested() {
  tickwheel::Loop outer([] {}), inner;
  bool ran = false;
  uint64_t now = tw_now();
  tw_key key = outer.every(now, 1ms, [&, captured = std::make_shared<Captured>()] {
    inner.after(now, 0s, [&] { EXPECT(outer.cancel(key)); });
    inner.poll(now + 1000000);
    ran = ++captured->calls == 1;
  });
  outer.poll(now + 2000000);
  EXPECT(ran && alive == 0 && tw_loop_pending(outer.get()) == 0);
}

int main(int words, char **word) {
  int rounds = words > 1 ? std::atoi(word[1]) : 500;
  alarm(120); // a hang ends it
  tw_options options{};
  options.tick_ns = 10000;
  {
    tickwheel::Engine one(options), other(options);
    std::atomic<bool> over = false;
    tickwheel::Loop loop([] {}, options);
    auto remote = loop.remote();
    std::thread polls([&] {
      while (!over) loop.poll(tw_now()), std::this_thread::yield();
    });
    for (int i = 0; i < rounds / 10; i++) each_other(one, other), each_other(one, remote);
    by_the_other(one, other, rounds);
    over = true;
    polls.join();
  }
  nested();
  EXPECT(alive == 0);
  std::printf("all as expected\n");
}
