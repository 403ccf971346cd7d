// An echo server on plain epoll that closes connections which are idle for too long.
//
//   echo_server PORT IDLE_MS COUNT     port 0: any; ends after COUNT connections, 0: never
//
// One thread, one timer per connection. Each message moves its timer, which costs no work in the wheel.
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <tickwheel.h>
#include <unistd.h>

struct connection {
  int fd;
  tw_key idle;
};

static int polled, served;

static void check(tw_error error) {
  if (error != TW_ERROR_OK) {
    fprintf(stderr, "tickwheel: %s\n", tw_error_text(error));
    exit(1);
  }
}

static int fail(const char *what) {
  perror(what);
  exit(1);
}

static void drop(struct connection *connection) {
  close(connection->fd); // epoll forgets it
  free(connection);
  served++;
}

static void on_idle(void *ctx, const tw_expired *expired) {
  (void)ctx;
  drop(expired->data);
}

static int listen_on(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) || listen(fd, 128)) fail("listen");
  if (getsockname(fd, (struct sockaddr *)&address, &length)) fail("getsockname");
  printf("listening on 127.0.0.1:%d\n", ntohs(address.sin_port));
  fflush(stdout);
  return fd;
}

static void accept_one(tw_loop *timers, uint64_t now, int listener, uint64_t idle_ns) {
  int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
  if (fd < 0) return; // it is gone already
  struct connection *new = malloc(sizeof *new);
  if (!new) fail("malloc");
  new->fd = fd;
  check(tw_loop_schedule(timers, now, idle_ns, new, &new->idle));
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = new};
  if (epoll_ctl(polled, EPOLL_CTL_ADD, fd, &event)) fail("epoll_ctl");
}

static void echo(tw_loop *timers, uint64_t now, struct connection *from, uint64_t idle_ns) {
  char message[4096];
  ssize_t length = read(from->fd, message, sizeof message);
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return;
  // A peer that does not read its echo is closed, too.
  if (length > 0 && send(from->fd, message, (size_t)length, MSG_NOSIGNAL) == length) {
    check(tw_loop_reschedule(timers, now, from->idle, idle_ns));
    return;
  }
  check(tw_loop_cancel(timers, from->idle, NULL));
  drop(from);
}

int main(int count, char **words) {
  if (count != 4) return fprintf(stderr, "usage: echo_server PORT IDLE_MS COUNT\n"), 2;
  uint64_t idle_ns = strtoull(words[2], NULL, 10) * 1000000;
  int last = atoi(words[3]), listener = listen_on(atoi(words[1]));
  tw_loop *timers;
  check(tw_loop_new(NULL, &timers));
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[64];
  polled = epoll_create1(0);
  if (polled < 0 || epoll_ctl(polled, EPOLL_CTL_ADD, listener, &event)) fail("epoll");
  while (last == 0 || served < last) {
    int ready = epoll_wait(polled, events, 64, tw_loop_poll_timeout_ms(timers, tw_now()));
    uint64_t now = tw_now(); // one reading per round
    // Sockets first: a connection whose data has come is not idle. The timers' poll drops connections, so it is last.
    for (int i = 0; i < ready; i++) {
      struct connection *from = events[i].data.ptr;
      if (from) echo(timers, now, from, idle_ns);
      else accept_one(timers, now, listener, idle_ns);
    }
    check(tw_loop_poll(timers, now, on_idle, NULL, NULL));
  }
  check(tw_loop_free(timers));
  close(listener);
  close(polled);
}
