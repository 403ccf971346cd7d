// Every function of the header, used and misused. Ends with 1 at the first surprise.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tickwheel.h>
#include <time.h>

#define SECOND 1000000000ull
#define EXPECT(condition) \
  ((condition) ? (void)0 : (printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition), exit(1)))
#define GETS(error, call) EXPECT((call) == TW_ERROR_##error)

static int count; // timers fired, or left
static int numbers[100];
static const tw_key no_key;

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
  GETS(NULL, tw_remote_cancel(NULL, no_key, NULL));
  GETS(NULL, tw_remote_reschedule(NULL, no_key, 0));
  GETS(NULL, tw_timer_schedule(NULL, 0, NULL, NULL));
  GETS(NULL, tw_timer_cancel(NULL, no_key, NULL));
  GETS(NULL, tw_timer_reschedule(NULL, no_key, 0));
  GETS(NULL, tw_timer_deadline(NULL, no_key, NULL));
  GETS(NULL, tw_timer_stop(NULL, NULL, NULL));
  EXPECT(tw_loop_poll_timeout(NULL, 0) == 0 && tw_loop_pending(NULL) == 0 && tw_timer_pending(NULL) == 0);
  GETS(OK, tw_loop_free(NULL)); // as free(NULL)
  GETS(OK, tw_timer_free(NULL));
  tw_remote_free(NULL);
}

static void wake(void *ctx) { atomic_fetch_add((atomic_int *)ctx, 1); }

static void *use_remote(void *remote) {
  for (int i = 0; i < 1000; i++) {
    tw_key key;
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

// The periodic timer of the README: on a loop, which is told the time, and on an engine.
#define PERIOD 1500000ull

struct beat {
  uint64_t next; // when it is due, not rounded
  uint64_t last, shortest; // the last deadline, and the shortest distance of two
  atomic_int beats;
};

static void beat_of_loop(void *timers, const tw_expired *expired) {
  struct beat *beat = expired->data;
  GETS(OK, tw_loop_schedule(timers, beat->next, PERIOD, beat, NULL));
  beat->next += PERIOD;
  atomic_fetch_add(&beat->beats, 1);
}

static void beat_of_worker(void *ctx, const tw_expired *expired) {
  struct engine *engine = ctx;
  struct beat *beat = expired->data;
  uint64_t now = tw_now();
  beat->next += PERIOD;
  if (beat->beats > 0 && expired->deadline - beat->last < beat->shortest) {
    beat->shortest = expired->deadline - beat->last;
  }
  beat->last = expired->deadline;
  if (atomic_fetch_add(&beat->beats, 1) < 20) {
    GETS(OK, tw_timer_schedule(engine->timer, beat->next > now ? beat->next - now : 0, beat, NULL));
  }
}

static void beats(void) {
  tw_options options = {.shards = 1, .unpinned = 1};
  struct timespec pause = {.tv_nsec = 1000000};
  struct beat on_loop = {.next = PERIOD}, on_worker = {.next = tw_now(), .shortest = UINT64_MAX};
  struct engine engine = {0};
  tw_loop *timers;
  GETS(OK, tw_loop_new(NULL, &timers));
  GETS(OK, tw_loop_schedule(timers, 0, PERIOD, &on_loop, NULL));
  for (uint64_t ms = 1; ms <= 300; ms++) GETS(OK, tw_loop_poll(timers, ms * 1000000, beat_of_loop, timers, NULL));
  EXPECT(on_loop.beats == 200);
  GETS(OK, tw_loop_free(timers));

  GETS(OK, tw_timer_new(&options, beat_of_worker, &engine, &engine.timer));
  GETS(OK, tw_timer_schedule(engine.timer, 0, &on_worker, NULL));
  while (atomic_load(&on_worker.beats) <= 20) nanosleep(&pause, NULL);
  EXPECT(on_worker.shortest < 2000000); // ticks of 1 ms: one period that is rounded up is 2 ms
  GETS(OK, tw_timer_free(engine.timer));
}

int main(void) {
  tw_options three = {.max_pending = 3};
  tw_loop *alone, *shared, *other;
  EXPECT(strstr(tw_error_text(TW_ERROR_FULL), "max_pending") && tw_error_text(-5) && tw_now() <= tw_now());
  GETS(OK, tw_loop_new(NULL, &other));
  GETS(OK, tw_loop_new(&three, &alone));
  GETS(OK, tw_loop_new_with_remotes(&three, NULL, NULL, &shared));
  loop(alone, other);
  loop(shared, other);
  nulls(other);
  GETS(OK, tw_loop_free(other));
  remotes();
  workers();
  beats();
  printf("all as expected\n");
}
