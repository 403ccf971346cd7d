// Timers of tickwheel inside of a libuv loop: one uv_timer_t ends the loop's sleep for all of them.
//
// A prepare handle runs right before the loop blocks, a check handle right after. They keep the loop while a timer is
// pending, as a uv_timer_t does.
#include <stdio.h>
#include <stdlib.h>
#include <tickwheel.h>
#include <uv.h>

#define MS 1000000ull

struct timers {
  tw_loop *timers;
  uv_prepare_t before;
  uv_check_t after;
  uv_timer_t sleep;
};

static void check(tw_error error) {
  if (error != TW_ERROR_OK) {
    fprintf(stderr, "tickwheel: %s\n", tw_error_text(error));
    exit(1);
  }
}

static void only_wakes(uv_timer_t *sleep) { (void)sleep; }

static void before_the_sleep(uv_prepare_t *before) {
  struct timers *it = before->data;
  int timeout = tw_loop_poll_timeout_ms(it->timers, tw_now());
  uv_update_time(before->loop); // uv_timer_start counts from the loop's time
  if (timeout < 0) uv_timer_stop(&it->sleep);
  else uv_timer_start(&it->sleep, only_wakes, (uint64_t)timeout, 0);
}

static void after_the_sleep(uv_check_t *after) {
  struct timers *it = after->data;
  check(tw_loop_poll(it->timers, tw_now(), tw_call, it, NULL));
  if (tw_loop_pending(it->timers) > 0) uv_ref((uv_handle_t *)&it->before);
  else uv_unref((uv_handle_t *)&it->before);
}

static void begin(struct timers *it, uv_loop_t *loop) {
  check(tw_loop_new(NULL, &it->timers));
  uv_prepare_init(loop, &it->before);
  uv_check_init(loop, &it->after);
  uv_timer_init(loop, &it->sleep);
  it->before.data = it->after.data = it;
  uv_prepare_start(&it->before, before_the_sleep);
  uv_check_start(&it->after, after_the_sleep);
  uv_unref((uv_handle_t *)&it->after);
}

// Each timer has a function of its own.
struct tick {
  tw_fire fire;
  const char *name;
  int left;
};

static void on_tick(void *ctx, const tw_expired *expired) {
  struct timers *it = ctx;
  struct tick *tick = expired->data;
  printf("%s\n", tick->name);
  if (--tick->left == 0) check(tw_loop_cancel(it->timers, expired->key, NULL));
}

static void on_timeout(void *ctx, const tw_expired *expired) {
  (void)ctx;
  printf("timeout of %s\n", ((struct tick *)expired->data)->name);
}

int main(void) {
  uv_loop_t *loop = uv_default_loop();
  struct timers it;
  struct tick tick = {.fire = on_tick, .name = "tick", .left = 3}, slow = {.fire = on_timeout, .name = "slow"};
  begin(&it, loop);
  check(tw_loop_schedule_periodic(it.timers, tw_now(), 10 * MS, 10 * MS, TW_PERIOD_SKIP, &tick, NULL));
  check(tw_loop_schedule(it.timers, tw_now(), 55 * MS, &slow, NULL));
  uv_run(loop, UV_RUN_DEFAULT); // until no timer is pending
  uv_close((uv_handle_t *)&it.before, NULL);
  uv_close((uv_handle_t *)&it.after, NULL);
  uv_close((uv_handle_t *)&it.sleep, NULL);
  uv_run(loop, UV_RUN_DEFAULT);
  uv_loop_close(loop);
  check(tw_loop_free(it.timers));
}
