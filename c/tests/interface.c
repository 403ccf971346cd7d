// Every function of the header, used and misused. Ends with 1 at the first surprise. An argument says how many periodic
// timers another thread cancels.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tickwheel.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000ull
#define EXPECT(condition) \
  ((condition) ? (void)0 : (printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition), exit(1)))
#define GETS(error, call) EXPECT((call) == TW_ERROR_##error)

static int count; // timers fired, or left
static int numbers[100];
static const tw_key no_key;
static const tw_remote_key no_remote_key;

static void count_left(void *ctx, void *data) {
  EXPECT(data == &numbers[7]);
  ++*(int *)ctx;
}

// What a callback may do with its own loop, and what not. Data 0: schedules again, cancels 7.
static tw_key seven;
static void use_loop(void *ctx, const tw_expired *expired) {
  tw_loop *timers = ctx;
  count++;
  EXPECT(tw_loop_pending(timers) < 100);
  GETS(IN_CALLBACK, tw_loop_poll(timers, SECOND, use_loop, timers, NULL));
  GETS(IN_CALLBACK, tw_loop_close(timers, NULL, NULL));
  GETS(IN_CALLBACK, tw_loop_free(timers));
  GETS(GONE, tw_loop_cancel(timers, expired->key, NULL));
  if (expired->data == &numbers[0]) {
    void *data;
    GETS(OK, tw_loop_cancel(timers, seven, &data));
    EXPECT(data == &numbers[7]);
    GETS(OK, tw_loop_schedule(timers, expired->deadline, 0, &numbers[1], NULL)); // in a later poll
  }
}

// The same of a loop without remotes and one with them. Time is what the loop is told.
static void loop(tw_loop *timers, tw_loop *other) {
  uint64_t start = tw_now(), deadline;
  tw_polled polled;
  tw_key key, twice;
  void *data = NULL;
  EXPECT(tw_loop_poll_timeout(timers, start) == UINT64_MAX && tw_loop_poll_timeout_ms(timers, start) == -1);
  GETS(OK, tw_loop_schedule(timers, start, SECOND, &numbers[7], &key));
  EXPECT(memcmp(&key, &no_key, sizeof key) && tw_loop_pending(timers) == 1);
  GETS(OK, tw_loop_deadline(timers, key, &deadline));
  EXPECT(deadline >= start + SECOND && deadline <= start + SECOND + 1000000);
  EXPECT(tw_loop_poll_timeout(timers, start) <= deadline - start);
  EXPECT(tw_loop_poll_timeout_ms(timers, start) >= 1 && tw_loop_poll_timeout_ms(timers, start) <= 1001);
  GETS(OK, tw_loop_reschedule(timers, start, key, 2 * SECOND));
  GETS(OK, tw_loop_poll(timers, start + SECOND + 1000000, use_loop, timers, &polled));
  EXPECT(polled.fired == 0);

  // Keys of nothing, of another loop, and of a timer that has ended.
  GETS(GONE, tw_loop_cancel(timers, no_key, &data));
  GETS(GONE, tw_loop_cancel(other, key, &data));
  GETS(GONE, tw_loop_reschedule(other, start, key, SECOND));
  GETS(GONE, tw_loop_deadline(other, key, &deadline));
  EXPECT(data == NULL);
  GETS(OK, tw_loop_cancel(timers, key, &data));
  EXPECT(data == &numbers[7]);
  GETS(GONE, tw_loop_cancel(timers, key, &data));
  GETS(OK, tw_loop_schedule(timers, start, SECOND, &numbers[7], &twice)); // the same memory
  GETS(GONE, tw_loop_reschedule(timers, start, key, SECOND));
  GETS(OK, tw_loop_cancel(timers, twice, NULL));

  // Callbacks use the loop.
  count = 0;
  GETS(OK, tw_loop_schedule(timers, start, 9 * SECOND, &numbers[7], &seven));
  GETS(OK, tw_loop_schedule(timers, start, 3 * SECOND, &numbers[0], NULL));
  GETS(OK, tw_loop_poll(timers, start + 4 * SECOND, use_loop, timers, &polled));
  EXPECT(count == 1 && polled.fired == 1 && tw_loop_pending(timers) == 1);
  EXPECT(tw_loop_poll_timeout(timers, start + 4 * SECOND) == 0);
  GETS(OK, tw_loop_poll(timers, start + 4 * SECOND, use_loop, timers, NULL));
  EXPECT(count == 2 && tw_loop_pending(timers) == 0);

  // max_pending is 3; what is left at the end comes back; then every call is refused.
  for (int i = 0; i < 3; i++) GETS(OK, tw_loop_schedule(timers, start, 99 * SECOND, &numbers[7], &key));
  GETS(FULL, tw_loop_schedule(timers, start, 99 * SECOND, &numbers[7], &twice));
  count = 0;
  GETS(OK, tw_loop_close(timers, count_left, &count));
  EXPECT(count == 3);
  GETS(CLOSED, tw_loop_close(timers, count_left, &count));
  GETS(CLOSED, tw_loop_schedule(timers, start, SECOND, &numbers[7], NULL));
  GETS(CLOSED, tw_loop_cancel(timers, key, NULL));
  GETS(CLOSED, tw_loop_reschedule(timers, start, key, SECOND));
  GETS(CLOSED, tw_loop_deadline(timers, key, &deadline));
  GETS(CLOSED, tw_loop_poll(timers, start, use_loop, timers, NULL));
  EXPECT(tw_loop_poll_timeout(timers, start) == 0 && tw_loop_pending(timers) == 0);
  GETS(OK, tw_loop_free(timers));
}

static void nulls(tw_loop *timers) {
  tw_options bad = {.tick_ns = 1}, many = {.shards = 5000}, newer = {.reserved = {0, 0, 0, 1}};
  tw_loop *built;
  tw_timer *engine;
  tw_remote *remote;
  tw_stats stats;
  GETS(OPTION, tw_loop_new(&bad, &built));
  GETS(OPTION, tw_loop_new_with_remotes(&bad, NULL, NULL, &built));
  GETS(OPTION, tw_timer_new(&many, use_loop, NULL, &engine));
  GETS(OPTION, tw_loop_new(&newer, &built));
  GETS(OPTION, tw_loop_new_with_remotes(&newer, NULL, NULL, &built));
  GETS(OPTION, tw_timer_new(&newer, use_loop, NULL, &engine));
  GETS(NULL, tw_loop_new(NULL, NULL));
  GETS(NULL, tw_loop_new_with_remotes(NULL, NULL, NULL, NULL));
  GETS(NULL, tw_timer_new(NULL, NULL, NULL, &engine));
  GETS(NULL, tw_timer_new(NULL, use_loop, NULL, NULL));
  GETS(NULL, tw_remote_new(NULL, &remote));
  GETS(NULL, tw_remote_new(timers, NULL));
  GETS(NO_REMOTES, tw_remote_new(timers, &remote));
  GETS(NULL, tw_loop_schedule(NULL, 0, 0, NULL, NULL));
  GETS(NULL, tw_loop_cancel(NULL, no_key, NULL));
  GETS(NULL, tw_loop_poll(NULL, 0, use_loop, NULL, NULL));
  GETS(NULL, tw_loop_poll(timers, 0, NULL, NULL, NULL));
  GETS(NULL, tw_loop_close(NULL, NULL, NULL));
  GETS(NULL, tw_remote_schedule(NULL, 0, NULL, NULL));
  GETS(NULL, tw_remote_cancel(NULL, no_remote_key, NULL));
  GETS(NULL, tw_remote_reschedule(NULL, no_remote_key, 0));
  GETS(NULL, tw_timer_schedule(NULL, 0, NULL, NULL));
  GETS(NULL, tw_timer_cancel(NULL, no_key, NULL));
  GETS(NULL, tw_timer_reschedule(NULL, no_key, 0));
  GETS(NULL, tw_timer_deadline(NULL, no_key, NULL));
  GETS(NULL, tw_timer_stop(NULL, NULL, NULL));
  GETS(NULL, tw_loop_schedule_at(NULL, 0, 0, NULL, NULL));
  GETS(NULL, tw_loop_schedule_periodic(NULL, 0, 0, 1, 0, NULL, NULL));
  GETS(NULL, tw_loop_reschedule_at(NULL, 0, no_key, 0));
  GETS(NULL, tw_loop_break(NULL));
  GETS(NULL, tw_loop_stats(NULL, &stats));
  GETS(NULL, tw_remote_schedule_at(NULL, 0, NULL, NULL));
  GETS(NULL, tw_remote_schedule_periodic(NULL, 0, 1, 0, NULL, NULL));
  GETS(NULL, tw_remote_reschedule_at(NULL, no_remote_key, 0));
  GETS(NULL, tw_remote_wait(NULL, no_remote_key, 0));
  GETS(NULL, tw_remote_deadline(NULL, no_remote_key, NULL));
  GETS(NULL, tw_timer_schedule_at(NULL, 0, NULL, NULL));
  GETS(NULL, tw_timer_schedule_periodic(NULL, 0, 1, 0, NULL, NULL));
  GETS(NULL, tw_timer_reschedule_at(NULL, no_key, 0));
  GETS(NULL, tw_timer_wait(NULL, no_key, 0));
  GETS(NULL, tw_timer_stats(NULL, &stats));
  EXPECT(tw_loop_next_deadline(NULL) == UINT64_MAX);
  EXPECT(tw_loop_poll_timeout(NULL, 0) == 0 && tw_loop_pending(NULL) == 0 && tw_timer_pending(NULL) == 0);
  GETS(OK, tw_loop_free(NULL)); // as free(NULL)
  GETS(OK, tw_timer_free(NULL));
  tw_remote_free(NULL);
}

static void wake(void *ctx) { atomic_fetch_add((atomic_int *)ctx, 1); }

static void *use_remote(void *remote) {
  for (int i = 0; i < 1000; i++) {
    tw_remote_key key;
    void *data = NULL;
    GETS(OK, tw_remote_schedule(remote, 60 * SECOND, &numbers[7], &key));
    GETS(OK, tw_remote_reschedule(remote, key, 61 * SECOND));
    if (i == 0) continue; // one stays
    GETS(OK, tw_remote_cancel(remote, key, &data));
    EXPECT(data == &numbers[7]);
    GETS(GONE, tw_remote_cancel(remote, key, NULL));
  }
  return NULL;
}

// A remote's key leads the loop to its timer as well. The loop's own timers no remote reaches.
static void loops_take_both_keys(tw_loop *timers, tw_remote *remote) {
  tw_remote_key theirs;
  tw_key own;
  uint64_t deadline, now = tw_now();
  GETS(OK, tw_remote_schedule(remote, 60 * SECOND, NULL, &theirs));
  GETS(OK, tw_loop_schedule(timers, now, 60 * SECOND, NULL, &own));
  GETS(OK, tw_loop_deadline(timers, theirs.key, &deadline));
  GETS(OK, tw_loop_reschedule(timers, now, theirs.key, 61 * SECOND));
  GETS(OK, tw_loop_cancel(timers, theirs.key, NULL));
  GETS(GONE, tw_remote_deadline(remote, theirs, &deadline));
  GETS(GONE, tw_remote_cancel(remote, (tw_remote_key){own}, NULL));
  GETS(OK, tw_loop_cancel(timers, own, NULL));
}

static void remotes(void) {
  atomic_int wakes = 0;
  tw_loop *timers;
  tw_remote *remote;
  pthread_t threads[2];
  tw_polled polled = {0};
  GETS(OK, tw_loop_new_with_remotes(NULL, wake, &wakes, &timers));
  GETS(OK, tw_remote_new(timers, &remote));
  EXPECT(tw_loop_poll_timeout(timers, tw_now()) == UINT64_MAX); // the loop sleeps
  for (int i = 0; i < 2; i++) EXPECT(!pthread_create(&threads[i], NULL, use_remote, remote));
  for (int i = 0; i < 2; i++) EXPECT(!pthread_join(threads[i], NULL));
  EXPECT(wakes >= 1 && tw_loop_pending(timers) == 2);
  loops_take_both_keys(timers, remote);
  GETS(OK, tw_loop_poll(timers, tw_now(), use_loop, timers, &polled));
  EXPECT(polled.fired == 0);
  count = 0;
  GETS(OK, tw_loop_close(timers, count_left, &count));
  EXPECT(count == 2);
  GETS(OK, tw_loop_free(timers));
  GETS(CLOSED, tw_remote_schedule(remote, 0, NULL, NULL));
  tw_remote_free(remote);
}

struct engine {
  tw_timer *timer;
  atomic_int fired;
};

static void on_worker(void *ctx, const tw_expired *expired) {
  struct engine *engine = ctx;
  GETS(IN_CALLBACK, tw_timer_stop(engine->timer, NULL, NULL));
  GETS(IN_CALLBACK, tw_timer_free(engine->timer));
  if (expired->data == &numbers[0]) GETS(OK, tw_timer_schedule(engine->timer, 0, &numbers[1], NULL));
  atomic_fetch_add(&engine->fired, 1);
}

static void workers(void) {
  tw_options options = {.shards = 2, .unpinned = 1};
  struct engine engine = {0};
  struct timespec pause = {.tv_nsec = 1000000};
  tw_key key;
  void *data;
  uint64_t deadline;
  GETS(OK, tw_timer_new(&options, on_worker, &engine, &engine.timer));
  GETS(OK, tw_timer_schedule(engine.timer, 60 * SECOND, &numbers[3], &key));
  GETS(OK, tw_timer_deadline(engine.timer, key, &deadline));
  EXPECT(deadline >= 60 * SECOND);
  GETS(OK, tw_timer_cancel(engine.timer, key, &data));
  EXPECT(data == &numbers[3]);
  GETS(GONE, tw_timer_reschedule(engine.timer, key, 0));
  GETS(GONE, tw_timer_cancel(engine.timer, no_key, NULL));
  GETS(OK, tw_timer_schedule(engine.timer, 60 * SECOND, &numbers[7], NULL));
  GETS(OK, tw_timer_schedule(engine.timer, 60 * SECOND, &numbers[0], &key));
  GETS(OK, tw_timer_reschedule(engine.timer, key, 0));
  while (atomic_load(&engine.fired) < 2) nanosleep(&pause, NULL);
  EXPECT(tw_timer_pending(engine.timer) == 1);
  count = 0;
  GETS(OK, tw_timer_stop(engine.timer, count_left, &count));
  GETS(OK, tw_timer_stop(engine.timer, count_left, &count));
  EXPECT(count == 1);
  GETS(CLOSED, tw_timer_schedule(engine.timer, 0, NULL, NULL));
  GETS(OK, tw_timer_free(engine.timer));
}

#define PERIOD 1500000ull

// Points in time, what is next, and what was counted.
static void points(tw_loop *timers, bool counts) {
  uint64_t start = tw_now(), deadline;
  tw_key key;
  tw_stats stats;
  EXPECT(tw_loop_next_deadline(timers) == UINT64_MAX);
  GETS(OK, tw_loop_schedule_at(timers, start, start + SECOND, &numbers[7], &key));
  GETS(OK, tw_loop_deadline(timers, key, &deadline));
  EXPECT(deadline >= start + SECOND && deadline < start + SECOND + 1000000);
  EXPECT(tw_loop_next_deadline(timers) == deadline);
  GETS(OK, tw_loop_reschedule_at(timers, start, key, start + 3 * SECOND));
  GETS(OK, tw_loop_deadline(timers, key, &deadline));
  EXPECT(deadline >= start + 3 * SECOND && tw_loop_next_deadline(timers) <= deadline);
  GETS(OK, tw_loop_cancel(timers, key, NULL));
  GETS(GONE, tw_loop_reschedule_at(timers, start, key, start));
  count = 0;
  GETS(OK, tw_loop_schedule_at(timers, start, start - 1, &numbers[1], NULL)); // passed: due at once
  GETS(OK, tw_loop_poll(timers, start, use_loop, timers, NULL));
  EXPECT(count == 1);
  if (counts) {
    GETS(OK, tw_loop_stats(timers, &stats));
    EXPECT(stats.scheduled == 2 && stats.fired == 1 && stats.cancelled == 1 && stats.pending == 0);
    EXPECT(stats.rescheduled == 1 && stats.left == 0 && stats.held_bytes > 0);
  } else {
    GETS(NO_REMOTES, tw_loop_stats(timers, &stats));
  }
  GETS(NULL, tw_loop_stats(timers, NULL));
}

// The second of three ends its poll.
static void break_at_the_second(void *timers, const tw_expired *expired) {
  EXPECT(expired->data == &numbers[count]);
  if (++count == 2) GETS(OK, tw_loop_break(timers));
}

// Equal deadlines in the order of the calls; after a break the rest is due yet.
static void breaks(tw_loop *timers) {
  tw_polled polled;
  count = 0;
  GETS(OK, tw_loop_break(timers)); // no poll is under way: nothing
  for (int i = 0; i < 3; i++) GETS(OK, tw_loop_schedule(timers, SECOND, SECOND, &numbers[i], NULL));
  GETS(OK, tw_loop_poll(timers, 9 * SECOND, break_at_the_second, timers, &polled));
  EXPECT(count == 2 && polled.fired == 2 && polled.more && tw_loop_pending(timers) == 1);
  EXPECT(tw_loop_poll_timeout(timers, 9 * SECOND) == 0);
  GETS(OK, tw_loop_poll(timers, 9 * SECOND, break_at_the_second, timers, &polled));
  EXPECT(count == 3 && polled.fired == 1 && tw_loop_pending(timers) == 0);
}

// Timers with a function each.
struct request {
  tw_fire fire;
  int answers;
  tw_key key;
};

static void answer(void *ctx, const tw_expired *expired) {
  struct request *request = expired->data;
  EXPECT(ctx == &numbers[9] && expired->data == request);
  request->answers++;
}

static void answer_twice(void *ctx, const tw_expired *expired) {
  answer(ctx, expired);
  answer(ctx, expired);
}

static void functions(tw_loop *timers, uint64_t now) {
  struct request once = {.fire = answer}, twice = {.fire = answer_twice};
  GETS(OK, tw_loop_schedule(timers, now, SECOND, &once, NULL));
  GETS(OK, tw_loop_schedule(timers, now, SECOND, &twice, NULL));
  GETS(OK, tw_loop_poll(timers, now + 2 * SECOND, tw_call, &numbers[9], NULL));
  EXPECT(once.answers == 1 && twice.answers == 2);
}

// What a loop without remotes and one with them are told alike.
static void more_of_loops(void) {
  tw_loop *loops[2];
  GETS(OK, tw_loop_new(NULL, &loops[0]));
  GETS(OK, tw_loop_new_with_remotes(NULL, NULL, NULL, &loops[1]));
  for (int i = 0; i < 2; i++) {
    points(loops[i], i == 1);
    breaks(loops[i]);
    functions(loops[i], 20 * SECOND);
    EXPECT(tw_loop_pending(loops[i]) == 0);
    GETS(OK, tw_loop_close(loops[i], NULL, NULL));
    EXPECT(tw_loop_next_deadline(loops[i]) == UINT64_MAX);
    GETS(CLOSED, tw_loop_stats(loops[i], &(tw_stats){0}));
    GETS(OK, tw_loop_free(loops[i]));
  }
}

// A periodic timer on a loop: every 1.5 ticks, 200 beats in 300 ticks; its own callback ends it.
static void beat_of_loop(void *timers, const tw_expired *expired) {
  int *beats = expired->data;
  uint64_t deadline;
  GETS(OK, tw_loop_deadline(timers, expired->key, &deadline));
  if (++*beats == 200) GETS(OK, tw_loop_cancel(timers, expired->key, NULL));
}

static void beats(tw_loop *timers) {
  int beats = 0;
  uint64_t hour = 3600 * SECOND; // after the present, to which a loop with remotes compares
  tw_key key;
  void *data;
  GETS(OK, tw_loop_schedule_periodic(timers, hour, PERIOD, PERIOD, TW_PERIOD_SKIP, &beats, &key));
  for (uint64_t ms = 1; ms <= 300; ms++) {
    GETS(OK, tw_loop_poll(timers, hour + ms * 1000000, beat_of_loop, timers, NULL));
  }
  EXPECT(beats == 200);
  GETS(GONE, tw_loop_cancel(timers, key, NULL));

  // Of ten periods that were missed: one call, one call, ten calls, one call.
  for (int kind = TW_PERIOD_SKIP; kind <= TW_PERIOD_PAUSE; kind++) {
    uint64_t now = hour + SECOND * (unsigned)(kind + 1), deadline;
    int polls = 0;
    beats = 0;
    GETS(OK, tw_loop_schedule_periodic(timers, now, 10000000, 10000000, kind, &beats, &key));
    do {
      GETS(OK, tw_loop_poll(timers, now + 105000000, beat_of_loop, timers, NULL));
    } while (tw_loop_poll_timeout(timers, now + 105000000) == 0 && ++polls < 20);
    EXPECT(beats == (kind == TW_PERIOD_BURST ? 10 : 1));
    GETS(OK, tw_loop_deadline(timers, key, &deadline));
    bool from_now = kind == TW_PERIOD_DELAY || kind == TW_PERIOD_PAUSE;
    EXPECT(deadline == now + (from_now ? 115000000 : 110000000));
    GETS(OK, tw_loop_cancel(timers, key, &data));
    EXPECT(data == &beats);
  }
  GETS(OPTION, tw_loop_schedule_periodic(timers, 0, 0, 0, TW_PERIOD_SKIP, NULL, NULL));
  GETS(OPTION, tw_loop_schedule_periodic(timers, 0, 0, 0, TW_PERIOD_PAUSE, NULL, NULL));
  GETS(OPTION, tw_loop_schedule_periodic(timers, 0, 0, 1, 4, NULL, NULL));
  GETS(OPTION, tw_loop_schedule_periodic(timers, 0, 0, 1, -1, NULL, NULL));
  GETS(OK, tw_loop_free(timers));
}

// Periodic timers that other threads cancel: one cancel is enough, and after the wait the memory may go.
struct watch {
  tw_timer *timer;
  tw_remote *remote;
};

struct beat {
  atomic_int count;
};

static void beat_of_engine(void *ctx, const tw_expired *expired) {
  struct watch *watch = ctx;
  struct beat *beat = expired->data;
  tw_error own = watch->timer ? tw_timer_wait(watch->timer, expired->key, UINT64_MAX)
                              : tw_remote_wait(watch->remote, (tw_remote_key){expired->key}, UINT64_MAX);
  EXPECT(own == TW_ERROR_PENDING || own == TW_ERROR_IN_CALLBACK); // as it is not cancelled yet, or is
  // The thread that waits for this cancels now: what comes next must find the memory yet.
  int count = atomic_fetch_add(&beat->count, 1) + 1;
  for (int i = 0; i < 20; i++) sched_yield();
  EXPECT(atomic_load(&beat->count) == count);
}

static void cancel_on_an_engine(int rounds) {
  tw_options options = {.shards = 2, .unpinned = 1, .tick_ns = 10000};
  struct watch watch = {0};
  tw_stats stats;
  uint64_t cancelled = 0;
  GETS(OK, tw_timer_new(&options, beat_of_engine, &watch, &watch.timer));
  for (int i = 0; i < rounds; i++) {
    struct beat *beat = calloc(1, sizeof *beat);
    tw_key key;
    void *data = NULL;
    GETS(OK, tw_timer_schedule_periodic(watch.timer, 0, 20000, i % 4, beat, &key));
    GETS(PENDING, tw_timer_wait(watch.timer, key, 0));
    while (atomic_load(&beat->count) < i % 5) sched_yield();
    // One that meets a call which is about to begin comes too late for it.
    tw_error ended = tw_timer_cancel(watch.timer, key, &data);
    EXPECT(ended == TW_ERROR_OK ? data == beat : ended == TW_ERROR_GONE && data == NULL);
    cancelled += ended == TW_ERROR_OK;
    GETS(OK, tw_timer_wait(watch.timer, key, UINT64_MAX));
    free(beat); // valgrind and AddressSanitizer tell of a call that comes yet
  }
  EXPECT(tw_timer_pending(watch.timer) == 0);
  GETS(OK, tw_timer_stats(watch.timer, &stats));
  EXPECT(stats.cancelled == cancelled && cancelled > 0 && stats.pending == 0 && stats.fired > 0);
  GETS(OK, tw_timer_free(watch.timer));
}

// The same on a loop that a thread of its own polls.
struct polling {
  tw_loop *timers;
  struct watch *watch;
  atomic_bool over;
};

static void *poll_until_over(void *arg) {
  struct polling *polling = arg;
  while (!atomic_load(&polling->over)) {
    GETS(OK, tw_loop_poll(polling->timers, tw_now(), beat_of_engine, polling->watch, NULL));
    sched_yield();
  }
  return NULL;
}

static void cancel_on_a_loop(int rounds) {
  tw_options options = {.tick_ns = 10000};
  struct watch watch = {0};
  struct polling polling = {.watch = &watch};
  uint64_t deadline;
  pthread_t thread;
  GETS(OK, tw_loop_new_with_remotes(&options, NULL, NULL, &polling.timers));
  GETS(OK, tw_remote_new(polling.timers, &watch.remote));
  EXPECT(!pthread_create(&thread, NULL, poll_until_over, &polling));
  for (int i = 0; i < rounds; i++) {
    struct beat *beat = calloc(1, sizeof *beat);
    tw_remote_key key;
    GETS(OK, tw_remote_schedule_periodic(watch.remote, 0, 20000, i % 4, beat, &key));
    while (atomic_load(&beat->count) < i % 3) sched_yield();
    tw_error ended = tw_remote_cancel(watch.remote, key, NULL);
    EXPECT(ended == TW_ERROR_OK || ended == TW_ERROR_GONE);
    GETS(OK, tw_remote_wait(watch.remote, key, UINT64_MAX));
    free(beat);
  }
  struct beat late = {0};
  tw_remote_key key;
  GETS(OK, tw_remote_schedule_at(watch.remote, tw_now() + SECOND, &late, &key));
  GETS(OK, tw_remote_deadline(watch.remote, key, &deadline));
  GETS(OK, tw_remote_reschedule_at(watch.remote, key, deadline + SECOND));
  GETS(PENDING, tw_remote_wait(watch.remote, key, 0));
  GETS(OK, tw_remote_reschedule_at(watch.remote, key, 0)); // passed: due at once
  while (atomic_load(&late.count) == 0) sched_yield();
  GETS(GONE, tw_remote_deadline(watch.remote, key, &deadline));
  GETS(OK, tw_remote_wait(watch.remote, key, UINT64_MAX));
  atomic_store(&polling.over, true);
  EXPECT(!pthread_join(thread, NULL));
  EXPECT(tw_loop_pending(polling.timers) == 0);
  GETS(OK, tw_loop_free(polling.timers));
  tw_remote_free(watch.remote);
}

// One-shot timers on an engine: the cancel comes before, while and after the callback runs.
static void slow(void *ctx, const tw_expired *expired) {
  struct request *request = expired->data;
  (void)ctx;
  struct timespec pause = {.tv_nsec = 5000000};
  request->answers++;
  nanosleep(&pause, NULL);
  request->answers++;
}

static void waits(void) {
  tw_options options = {.shards = 1, .unpinned = 1};
  tw_timer *timer;
  tw_key key;
  int timed_out = 0;
  GETS(OK, tw_timer_new(&options, tw_call, NULL, &timer));
  for (int i = 0; i < 20; i++) {
    struct request *request = calloc(1, sizeof *request);
    struct timespec pause = {.tv_nsec = i * 500000};
    request->fire = slow;
    GETS(OK, tw_timer_schedule_at(timer, tw_now() + 1000000, request, &request->key));
    key = request->key;
    nanosleep(&pause, NULL);
    tw_error lost = tw_timer_cancel(timer, key, NULL);
    timed_out += tw_timer_wait(timer, key, 1000) == TW_ERROR_TIMED_OUT;
    GETS(OK, tw_timer_wait(timer, key, UINT64_MAX));
    EXPECT(request->answers == (lost == TW_ERROR_OK ? 0 : 2));
    free(request);
  }
  EXPECT(timed_out > 0);
  GETS(OK, tw_timer_schedule(timer, 0, &(struct request){.fire = NULL}, &key)); // calls nothing
  GETS(OK, tw_timer_schedule(timer, 60 * SECOND, &numbers[7], &key));
  GETS(OK, tw_timer_reschedule_at(timer, key, tw_now() + 90 * SECOND));
  GETS(PENDING, tw_timer_wait(timer, key, 0));
  GETS(OK, tw_timer_stop(timer, NULL, NULL));
  GETS(OK, tw_timer_wait(timer, key, 0));
  GETS(GONE, tw_timer_reschedule_at(timer, key, 0));
  GETS(OK, tw_timer_free(timer));
}

// Blocked after the engine has started, and waited for here: its threads must not take it.
static void signals(void) {
  tw_options options = {.shards = 2, .unpinned = 1};
  tw_timer *timer;
  sigset_t set;
  int signal;
  GETS(OK, tw_timer_new(&options, tw_call, NULL, &timer));
  GETS(OK, tw_timer_schedule(timer, 0, &(struct request){.fire = NULL}, NULL));
  EXPECT(!sigemptyset(&set) && !sigaddset(&set, SIGUSR1) && !pthread_sigmask(SIG_BLOCK, &set, NULL));
  for (int i = 0; i < 100; i++) EXPECT(!kill(getpid(), SIGUSR1) && !sigwait(&set, &signal) && signal == SIGUSR1);
  GETS(OK, tw_timer_free(timer));
}

int main(int words, char **word) {
  int rounds = words > 1 ? atoi(word[1]) : 1500;
  tw_options three = {.max_pending = 3};
  tw_loop *alone, *shared, *other;
  EXPECT(strstr(tw_error_text(TW_ERROR_FULL), "max_pending") && tw_error_text(-5) && tw_now() <= tw_now());
  EXPECT(strchr(tw_version(), '.'));
  GETS(OK, tw_loop_new(NULL, &other));
  GETS(OK, tw_loop_new(&three, &alone));
  GETS(OK, tw_loop_new_with_remotes(&three, NULL, NULL, &shared));
  loop(alone, other);
  loop(shared, other);
  nulls(other);
  GETS(OK, tw_loop_free(other));
  remotes();
  workers();
  signals();
  more_of_loops();
  GETS(OK, tw_loop_new(NULL, &other));
  beats(other);
  GETS(OK, tw_loop_new_with_remotes(NULL, NULL, NULL, &other));
  beats(other);
  waits();
  cancel_on_an_engine(rounds);
  cancel_on_a_loop(rounds);
  printf("all as expected\n");
}
