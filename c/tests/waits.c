// Waiting for one callback, where it is easy to wait for the wrong one or for ever. Ends with 1 at the first surprise.
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <tickwheel.h>
#include <unistd.h>

#define SECOND 1000000000ull
#define EXPECT(condition) \
  ((condition) ? (void)0 : (printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition), exit(1)))
#define GETS(error, call) EXPECT((call) == TW_ERROR_##error)

// A callback that runs until it is told to return.
struct gate {
  tw_fire fire;
  atomic_bool begun, go_on, returned;
};

static void pass(void *ctx, const tw_expired *expired) {
  struct gate *gate = expired->data;
  (void)ctx;
  atomic_store(&gate->begun, true);
  while (!atomic_load(&gate->go_on)) sched_yield();
  atomic_store(&gate->returned, true);
}

static void await(atomic_bool *flag) {
  while (!atomic_load(flag)) sched_yield();
}

static tw_timer *engine_of_one(void) {
  tw_options options = {.shards = 1, .unpinned = 1};
  tw_timer *timer;
  GETS(OK, tw_timer_new(&options, tw_call, NULL, &timer));
  return timer;
}

// The key that the timer had which was 2^23 earlier in the same memory: a key's first word is generation and shard.
static tw_key long_stale(tw_key key) {
  key.high -= (1ull << 23) << 18;
  return key;
}

// While another timer's callback runs, there is nothing to wait for with keys of timers that have ended.
static void old_keys(void) {
  tw_timer *timer = engine_of_one();
  struct gate gate = {.fire = pass};
  tw_key cancelled, key;
  GETS(OK, tw_timer_schedule(timer, 60 * SECOND, &gate, &cancelled));
  GETS(OK, tw_timer_cancel(timer, cancelled, NULL));
  GETS(OK, tw_timer_schedule(timer, 0, &gate, &key)); // in the memory of the one before
  EXPECT(cancelled.low == key.low);
  await(&gate.begun);
  GETS(OK, tw_timer_wait(timer, cancelled, UINT64_MAX));
  GETS(OK, tw_timer_wait(timer, long_stale(key), UINT64_MAX));
  GETS(TIMED_OUT, tw_timer_wait(timer, key, 1000000));
  atomic_store(&gate.go_on, true);
  GETS(OK, tw_timer_wait(timer, key, UINT64_MAX));
  EXPECT(atomic_load(&gate.returned));
  GETS(OK, tw_timer_wait(timer, long_stale(key), UINT64_MAX));
  GETS(OK, tw_timer_free(timer));
}

// Two engines whose callbacks ask for each other's.
struct side {
  struct gate gate;
  tw_timer *timer, *other;
  tw_key key, key_of_other;
  atomic_bool *other_begun, asked;
};

static void ask_the_other(void *ctx, const tw_expired *expired) {
  struct side *side = expired->data;
  (void)ctx;
  atomic_store(&side->gate.begun, true);
  await(side->other_begun);
  GETS(IN_CALLBACK, tw_timer_wait(side->timer, expired->key, UINT64_MAX)); // its own
  GETS(IN_CALLBACK, tw_timer_wait(side->other, side->key_of_other, UINT64_MAX));
  atomic_store(&side->asked, true);
  await(&side->gate.go_on);
}

static void callbacks_that_ask_for_each_other(void) {
  struct side sides[2] = {0};
  for (int i = 0; i < 2; i++) {
    sides[i].gate.fire = ask_the_other;
    sides[i].timer = engine_of_one();
    sides[i].other_begun = &sides[1 - i].gate.begun;
  }
  for (int i = 0; i < 2; i++) {
    sides[i].other = sides[1 - i].timer;
    GETS(OK, tw_timer_schedule(sides[i].timer, 3600 * SECOND, &sides[i], &sides[i].key));
    sides[1 - i].key_of_other = sides[i].key;
  }
  for (int i = 0; i < 2; i++) GETS(OK, tw_timer_reschedule(sides[i].timer, sides[i].key, 0));
  for (int i = 0; i < 2; i++) await(&sides[i].asked);
  for (int i = 0; i < 2; i++) atomic_store(&sides[i].gate.go_on, true);
  for (int i = 0; i < 2; i++) GETS(OK, tw_timer_wait(sides[i].timer, sides[i].key, UINT64_MAX));
  for (int i = 0; i < 2; i++) GETS(OK, tw_timer_free(sides[i].timer));
}

// In a callback a wait for one that is over answers so.
struct late {
  struct gate gate;
  tw_timer *other;
  tw_key over;
};

static void ask_for_what_is_over(void *ctx, const tw_expired *expired) {
  struct late *late = expired->data;
  (void)ctx;
  GETS(OK, tw_timer_wait(late->other, late->over, UINT64_MAX));
  atomic_store(&late->gate.returned, true);
}

static void callbacks_that_ask_for_what_is_over(void) {
  tw_timer *timer = engine_of_one(), *other = engine_of_one();
  struct gate gate = {.fire = pass, .go_on = true};
  struct late late = {.gate.fire = ask_for_what_is_over, .other = other};
  GETS(OK, tw_timer_schedule(other, 0, &gate, &late.over));
  await(&gate.returned);
  GETS(OK, tw_timer_schedule(timer, 0, &late, NULL));
  await(&late.gate.returned);
  GETS(OK, tw_timer_free(timer));
  GETS(OK, tw_timer_free(other));
}

// A loop that moves: the thread that polls now is in the callback, the one that has polled before is not.
struct moving {
  struct gate gate;
  tw_loop *timers;
  tw_remote *remote;
  tw_remote_key key;
};

static void ask_on_the_new_thread(void *ctx, const tw_expired *expired) {
  struct moving *moving = expired->data;
  GETS(IN_CALLBACK, tw_remote_wait(moving->remote, (tw_remote_key){expired->key}, UINT64_MAX));
  pass(ctx, expired);
}

static void *poll_once(void *arg) {
  struct moving *moving = arg;
  GETS(OK, tw_loop_poll(moving->timers, tw_now() + SECOND, tw_call, NULL, NULL));
  GETS(OK, tw_remote_wait(moving->remote, moving->key, UINT64_MAX));
  return NULL;
}

static void loops_that_move(void) {
  struct moving moving = {.gate.fire = ask_on_the_new_thread};
  struct gate first = {.fire = pass, .go_on = true};
  pthread_t thread;
  GETS(OK, tw_loop_new_with_remotes(NULL, NULL, NULL, &moving.timers));
  GETS(OK, tw_remote_new(moving.timers, &moving.remote));
  GETS(OK, tw_remote_schedule(moving.remote, 0, &first, &moving.key));
  poll_once(&moving);
  EXPECT(atomic_load(&first.returned));
  GETS(OK, tw_remote_schedule(moving.remote, 0, &moving.gate, &moving.key));
  EXPECT(!pthread_create(&thread, NULL, poll_once, &moving));
  await(&moving.gate.begun);
  GETS(TIMED_OUT, tw_remote_wait(moving.remote, moving.key, 1000000));
  atomic_store(&moving.gate.go_on, true);
  GETS(OK, tw_remote_wait(moving.remote, moving.key, UINT64_MAX));
  EXPECT(atomic_load(&moving.gate.returned));
  EXPECT(!pthread_join(thread, NULL));
  GETS(OK, tw_loop_free(moving.timers));
  GETS(OK, tw_remote_wait(moving.remote, moving.key, UINT64_MAX));
  tw_remote_free(moving.remote);
}

int main(void) {
  alarm(120); // a hang ends it
  callbacks_that_ask_for_what_is_over();
  loops_that_move();
  old_keys();
  callbacks_that_ask_for_each_other();
  printf("all as expected\n");
}
