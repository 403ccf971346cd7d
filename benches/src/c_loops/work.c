// The work of a loop's timers, once per library: compile with -DTICKWHEEL, -DREMOTES, -DLIBUV, -DLIBEVENT or -DLIBEV.
//
//   work TIMERS STEPS     prints ns of CPU time per operation, and bytes per timer
//
// Each library is used as its manual advises: the timer lies in the user's struct, or the key does, and the time is the
// one that the loop has read in this round.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

static size_t fired;

#if defined(TICKWHEEL) || defined(REMOTES)
#include <tickwheel.h>
#define MS 1000000ull
typedef struct {
  tw_key key;
} slot;
static tw_loop *timers;
static uint64_t now;
static int polled;

static void fire(void *ctx, const tw_expired *expired) {
  (void)ctx;
  fired += expired->data != NULL;
}
static void wake(void *ctx) { (void)ctx; }
static void begin(void (*work)(void)) {
  polled = epoll_create1(0);
#ifdef REMOTES
  tw_error built = tw_loop_new_with_remotes(NULL, wake, NULL, &timers);
#else
  tw_error built = tw_loop_new(NULL, &timers);
  (void)wake;
#endif
  if (built) exit(1);
  now = tw_now();
  work();
}
static void make(slot *it) { (void)it; }
static void arm(slot *it, uint64_t ms) {
  if (tw_loop_schedule(timers, now, ms * MS, it, &it->key)) exit(1);
}
static void cancel(slot *it) {
  if (tw_loop_cancel(timers, it->key, NULL)) exit(1);
}
static void later(slot *it, uint64_t ms) {
  if (tw_loop_reschedule(timers, now, it->key, ms * MS)) exit(1);
}
static void turn(void) {
  struct epoll_event events[64];
  tw_polled done;
  int timeout = tw_loop_poll_timeout_ms(timers, now);
  epoll_wait(polled, events, 64, timeout * 0); // as the others, who are told not to wait
  now = tw_now();
  tw_loop_poll(timers, now, fire, NULL, &done);
  if (done.fired) now = tw_now(); // the next sleep counts from the end of the work
}

#elif defined(LIBUV)
#include <uv.h>
typedef uv_timer_t slot;
static uv_loop_t *loop;

static void fire(uv_timer_t *it) { fired += it != NULL; }
static void begin(void (*work)(void)) {
  loop = uv_default_loop();
  work();
}
static void make(slot *it) { uv_timer_init(loop, it); }
static void arm(slot *it, uint64_t ms) { uv_timer_start(it, fire, ms, 0); }
static void cancel(slot *it) { uv_timer_stop(it); }
static void later(slot *it, uint64_t ms) { uv_timer_start(it, fire, ms, 0); }
static void turn(void) { uv_run(loop, UV_RUN_NOWAIT); }

#elif defined(LIBEVENT)
#include <event2/event.h>
#include <event2/event_struct.h>
typedef struct event slot;
static struct event_base *base;

static void fire(evutil_socket_t fd, short what, void *it) {
  (void)fd, (void)what;
  fired += it != NULL;
}
static void run_work(evutil_socket_t fd, short what, void *work) {
  (void)fd, (void)what;
  ((void (**)(void))work)[0]();
}
// The work runs in a callback, where the time is cached.
static void begin(void (*work)(void)) {
  base = event_base_new();
  struct timeval at_once = {0, 0};
  event_base_once(base, -1, EV_TIMEOUT, run_work, &work, &at_once);
  event_base_loop(base, EVLOOP_ONCE);
}
static void make(slot *it) { evtimer_assign(it, base, fire, it); }
static void arm(slot *it, uint64_t ms) {
  struct timeval delay = {(time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000)};
  evtimer_add(it, &delay);
}
static void cancel(slot *it) { evtimer_del(it); }
static void later(slot *it, uint64_t ms) { arm(it, ms); }
static void turn(void) { event_base_loop(base, EVLOOP_NONBLOCK); }

#elif defined(LIBEV)
#include <ev.h>
typedef ev_timer slot;
static struct ev_loop *loop;

static void fire(struct ev_loop *of, ev_timer *it, int what) {
  (void)of, (void)what;
  fired += it != NULL;
}
static void begin(void (*work)(void)) {
  loop = ev_default_loop(0);
  work();
}
static void make(slot *it) { ev_init(it, fire); }
static void arm(slot *it, uint64_t ms) {
  ev_timer_set(it, (double)ms / 1000, 0);
  ev_timer_start(loop, it);
}
static void cancel(slot *it) { ev_timer_stop(loop, it); }
static void later(slot *it, uint64_t ms) {
  it->repeat = (double)ms / 1000;
  ev_timer_again(loop, it);
}
static void turn(void) { ev_run(loop, EVRUN_NOWAIT); }
#endif

static size_t timers_wanted, steps;
static slot *slots;

static uint32_t random_below(uint32_t bound) {
  static uint64_t state = 0x9e3779b97f4a7c15;
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (uint32_t)((state >> 32) * bound >> 32);
}

static double cpu_ns(void) {
  struct timespec now_of;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now_of);
  return (double)now_of.tv_sec * 1e9 + (double)now_of.tv_nsec;
}

static double resident(void) {
  size_t size, pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%zu %zu", &size, &pages) != 2) exit(1);
  fclose(file);
  return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

enum {
  BLOCK = 4096,
  NEAREST = 600000, // ms: nothing is due before its time
};
// Random numbers are drawn before the clock runs.
static struct {
  uint32_t victim, ms;
} drawn[BLOCK];

static void draw(void) {
  for (size_t i = 0; i < BLOCK; i++) {
    drawn[i].victim = random_below((uint32_t)timers_wanted);
    drawn[i].ms = NEAREST + random_below(NEAREST);
  }
}

static void pair(size_t i) {
  cancel(&slots[drawn[i].victim]);
  arm(&slots[drawn[i].victim], drawn[i].ms);
}

// As idle timeouts of connections move: beyond all others.
static void push_out(size_t i) {
  static uint64_t moved;
  later(&slots[drawn[i].victim], 2 * NEAREST + ++moved / 1000);
}

static double measure(void (*step)(size_t), size_t wanted) {
  double taken = 0;
  size_t done = 0;
  for (; done < wanted; done += BLOCK) {
    draw();
    double start = cpu_ns();
    for (size_t i = 0; i < BLOCK; i++) step(i);
    taken += cpu_ns() - start;
  }
  return taken / (double)done;
}

static void hold(void) {
  double before = resident();
  slots = calloc(timers_wanted, sizeof *slots);
  if (!slots) exit(1);
  for (size_t i = 0; i < timers_wanted; i++) {
    make(&slots[i]);
    arm(&slots[i], NEAREST + random_below(NEAREST));
  }
  double filled = resident() - before;
  measure(pair, 3 * timers_wanted); // then memory is as scattered as it gets
  printf("bytes\t%.1f\n", filled / (double)timers_wanted);
  printf("bytes after cancels\t%.1f\n", (resident() - before) / (double)timers_wanted);
  printf("pair\t%.1f\n", measure(pair, steps));
  measure(push_out, 3 * timers_wanted);
  printf("later\t%.1f\n", measure(push_out, steps));
}

// All come due while the loop is away, and fire in the rounds after that.
static double fire_all(void) {
  for (size_t i = 0; i < timers_wanted; i++) arm(&slots[i], 1 + random_below(1000));
  nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 200000000}, NULL);
  fired = 0;
  double start = cpu_ns();
  while (fired < timers_wanted) turn();
  return (cpu_ns() - start) / (double)timers_wanted;
}

int main(int count, char **words) {
  if (count != 3) return 2;
  timers_wanted = strtoull(words[1], NULL, 10);
  steps = strtoull(words[2], NULL, 10);
  begin(hold);
  for (int i = 0; i < 100; i++) turn();
  double start = cpu_ns();
  size_t rounds = steps / 20 + 1;
  for (size_t i = 0; i < rounds; i++) turn();
  printf("idle round\t%.1f\n", (cpu_ns() - start) / (double)rounds);
  if (fired) return 3;
  for (size_t i = 0; i < timers_wanted; i++) cancel(&slots[i]);
  fire_all(); // its code and memory are known afterwards
  printf("fire\t%.1f\n", fire_all());
}
