// Callbacks that do not return, which the header forbids: what happens is what it says. Ends with 1 at the first surprise.
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <stdexcept>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <tickwheel.h>
#include <unistd.h>

#define SECOND 1000000000ull
#define EXPECT(condition) \
  ((condition) ? (void)0 : (std::printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition), std::exit(1)))
#define GETS(error, call) EXPECT((call) == TW_ERROR_##error)

static void throws(void *, const tw_expired *) { throw std::runtime_error("left"); }
static void exits(void *, const tw_expired *) { pthread_exit(nullptr); }
static void is_cancelled(void *, const tw_expired *) { pthread_cancel(pthread_self()), pthread_testcancel(); }

// The process of a callback that leaves ends by an abort.
template <class Run> static void ends(Run run) {
  pid_t child = fork();
  if (child == 0) {
    rlimit none{};
    setrlimit(RLIMIT_CORE, &none);
    std::signal(SIGABRT, SIG_DFL);
    if (!std::freopen("/dev/null", "w", stderr)) _exit(2);
    run();
    _exit(0);
  }
  int status = 0;
  EXPECT(child > 0 && waitpid(child, &status, 0) == child);
  EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void in_a_loop(tw_fire fire) {
  ends([=] {
    tw_loop *timers;
    GETS(OK, tw_loop_new(nullptr, &timers));
    GETS(OK, tw_loop_schedule(timers, 0, 0, nullptr, nullptr));
    tw_loop_poll(timers, SECOND, fire, nullptr, nullptr);
  });
}

static void on_a_worker(tw_fire fire) {
  ends([=] {
    tw_timer *timer;
    tw_options options{};
    options.shards = 1;
    GETS(OK, tw_timer_new(&options, fire, nullptr, &timer));
    GETS(OK, tw_timer_schedule(timer, 0, nullptr, nullptr));
    sleep(60);
  });
}

// A jump leaves the loop in its poll, and the thread in a callback, for ever. The loop's memory stays.
static std::jmp_buf before;
static tw_loop *jumped;
static tw_remote *remote;

static void jumps(void *, const tw_expired *) { std::longjmp(before, 1); }

static void after_a_jump() {
  tw_remote_key left, other;
  void *data = &other;
  GETS(OK, tw_loop_new_with_remotes(nullptr, nullptr, nullptr, &jumped));
  GETS(OK, tw_remote_new(jumped, &remote));
  GETS(OK, tw_remote_schedule(remote, 0, nullptr, &left));
  if (!setjmp(before)) {
    tw_loop_poll(jumped, SECOND, jumps, nullptr, nullptr);
    EXPECT(!"it has jumped");
  }
  GETS(IN_CALLBACK, tw_loop_poll(jumped, SECOND, jumps, nullptr, nullptr));
  GETS(IN_CALLBACK, tw_loop_close(jumped, nullptr, nullptr));
  GETS(IN_CALLBACK, tw_loop_free(jumped));
  // What else it answers is as in a callback.
  GETS(GONE, tw_loop_cancel(jumped, left.key, nullptr));
  GETS(OK, tw_remote_schedule(remote, SECOND, nullptr, &other));
  GETS(OK, tw_remote_cancel(remote, other, &data));
  EXPECT(data == nullptr && tw_loop_pending(jumped) == 0);
  GETS(OK, tw_remote_wait(remote, other, UINT64_MAX));
  GETS(IN_CALLBACK, tw_remote_wait(remote, left, UINT64_MAX));
  std::thread([=] { GETS(TIMED_OUT, tw_remote_wait(remote, left, 1000000)); }).join();
}

int main() {
  alarm(120);
  for (tw_fire fire : {throws, exits, is_cancelled}) in_a_loop(fire), on_a_worker(fire);
  after_a_jump();
  std::printf("all as expected\n");
}
