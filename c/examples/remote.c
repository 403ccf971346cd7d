// A pthread schedules on another thread's loop, cancels, and wakes it where that is needed.
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <tickwheel.h>
#include <unistd.h>

#define MS 1000000ull

static void check(tw_error error) {
  if (error != TW_ERROR_OK) {
    fprintf(stderr, "tickwheel: %s\n", tw_error_text(error));
    exit(1);
  }
}

static void wake(void *ctx) {
  uint64_t one = 1;
  if (write(*(int *)ctx, &one, sizeof one) != sizeof one) abort();
}

static void fire(void *ctx, const tw_expired *expired) {
  printf("%s, %s\n", (char *)expired->data, expired->lateness < 60000 * MS ? "in time" : "a minute late");
  ++*(int *)ctx;
}

static void *other_thread(void *remote) {
  tw_remote_key minute;
  void *data;
  check(tw_remote_schedule(remote, 60000 * MS, "after a minute", &minute));
  check(tw_remote_cancel(remote, minute, &data));
  printf("cancelled: %s\n", (char *)data);
  check(tw_remote_schedule(remote, 20 * MS, "after 20 ms", NULL)); // ends the loop's sleep of an hour
  check(tw_remote_schedule(remote, 40 * MS, "after 40 ms", NULL));
  return NULL;
}

int main(void) {
  struct pollfd event = {.fd = eventfd(0, EFD_NONBLOCK), .events = POLLIN};
  tw_options options = {.tick_ns = MS};
  tw_loop *timers;
  tw_remote *remote;
  check(tw_loop_new_with_remotes(&options, wake, &event.fd, &timers));
  check(tw_remote_new(timers, &remote));
  check(tw_loop_schedule(timers, tw_now(), 3600000 * MS, "after an hour", NULL));

  pthread_t thread;
  if (pthread_create(&thread, NULL, other_thread, remote)) abort();
  int fired = 0;
  while (fired < 2) {
    poll(&event, 1, tw_loop_poll_timeout_ms(timers, tw_now()));
    uint64_t wakes;
    if (read(event.fd, &wakes, sizeof wakes) < 0) wakes = 0; // nothing to read: a timer ended the sleep
    check(tw_loop_poll(timers, tw_now(), fire, &fired, NULL));
  }
  pthread_join(thread, NULL);
  printf("%zu pending\n", tw_loop_pending(timers));
  check(tw_loop_free(timers));
  if (tw_remote_schedule(remote, MS, NULL, NULL) == TW_ERROR_CLOSED) printf("the loop is gone\n");
  tw_remote_free(remote);
  close(event.fd);
}
