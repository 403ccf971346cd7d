/* The sleep of a shard's owner and the producers that end it: src/park/wake_state.rs over the owner's own sleep. That is
 * a worker's futex (src/park/parker/linux.rs), or with TASK a task of a runtime, which a waker wakes
 * (src/engine/crew/wake.rs).
 *
 * A producer may stop for ever before each of its steps. A producer that does not stop must be served: the owner
 * drains its message, or sleeps no longer than its tick. The steps P1 to P9 and O1 to O8 are those of
 * src/park/README.md. A timeout may end one of the owner's sleeps early.
 *
 * Spin must accept the model, and reject each broken version:
 *
 * sound:
 * sound: TASK
 * broken: ELECT_IN_TOKEN  the token elects one caller once more, below the handshake
 * broken: CALLED_BEFORE   a producer notes its call before it makes the call
 * broken: NO_LAST_CHECK   the owner does not check the inbox after it has announced its sleep
 * broken: TOKEN_CLEARED   a worker clears the token before it sleeps
 * broken: TASK TAKEN      a producer takes the task's waker out before it calls it
 * broken: TASK UNSEEN     a task registers its waker after it has announced its sleep
 */
#define PRODUCERS 2
#define FAR 3      /* the owner's own next deadline; producers schedule for 1 or 2 */
#define NOTHING 7

#define IDLE 0
#define CALLED 1
#define ASLEEP 2
#define BOTH 3

#define STEP(operation) atomic { if :: fate[me] = STOPPED; goto end :: skip -> operation fi }

mtype = { BUSY, DONE, STOPPED };

byte inbox_due = NOTHING;
byte wake_at = 0;      /* 0 if the owner is awake, otherwise one more than the tick of its sleep */
byte sleep = 0;
byte called = 0;
byte token = IDLE;
bool in_kernel = false;
bool waker = false;    /* the task's waker is registered */
bool ready = false;    /* the runtime will poll the task */

bool pushed[PRODUCERS];
bool drained[PRODUCERS];
byte tick[PRODUCERS];
mtype fate[PRODUCERS] = BUSY;

proctype producer(byte me) {
  byte seen;
  bool seen_asleep;
  bool clone;
  STEP(pushed[me] = true);                                                    /* P1 */
  STEP(seen = (tick[me] < inbox_due));                                        /* P3 */
  if
  :: !seen -> STEP(if :: tick[me] + 1 >= wake_at -> goto done :: else fi)
  :: else
  fi;
  STEP(inbox_due = (tick[me] < inbox_due -> tick[me] : inbox_due));           /* P4 */
  STEP(if :: tick[me] + 1 >= wake_at -> goto done :: else fi);                /* P6 */
  STEP(seen = sleep);
  STEP(if :: called == seen -> goto done :: else fi);                         /* P7 */
#ifdef CALLED_BEFORE
  STEP(called = seen);
#endif
#ifdef TASK
#ifdef TAKEN
  STEP(clone = waker; waker = false);                                         /* P8 */
#else
  STEP(clone = waker);                                                        /* P8 */
#endif
  STEP(ready = ready || clone);
#else
#ifdef ELECT_IN_TOKEN
#define MUST_CALL (token == ASLEEP)
#else
#define MUST_CALL (token >= ASLEEP)
#endif
  STEP(seen_asleep = MUST_CALL; token = (token >= ASLEEP -> BOTH : CALLED); if :: seen_asleep :: else -> goto noted fi);  /* P8 */
  STEP(in_kernel = false);                                                    /* the system call */
#endif
noted:
  STEP(called = seen);                                                        /* P9 */
done:
  fate[me] = DONE;
end:
  skip
}

#define SERVED(p) (fate[p] == STOPPED || fate[p] == DONE && (drained[p] || tick[p] >= next))

active proctype owner() {
  byte next;
  bool timed_out;
  atomic {
    if :: timed_out = true :: timed_out = false fi;    /* without a timeout, or with one */
    if :: tick[0] = 1 :: tick[0] = 2 fi;
    if :: tick[1] = 1 :: tick[1] = 2 fi;
    run producer(0);
    run producer(1)
  }
turn:
#ifndef UNSEEN
  waker = true;
#endif
  if                                                           /* a drain, which the owner may leave out */
  :: inbox_due = NOTHING;                                      /* O1 */
     drained[0] = drained[0] || pushed[0];                     /* O3 */
     drained[1] = drained[1] || pushed[1]
  :: skip
  fi;
  atomic {
    next = inbox_due;
    if :: drained[0] && tick[0] < next -> next = tick[0] :: else fi;
    if :: drained[1] && tick[1] < next -> next = tick[1] :: else fi;
    if :: FAR < next -> next = FAR :: else fi
  }
  atomic { sleep++; wake_at = next + 1 }                       /* O4 */
#ifndef NO_LAST_CHECK
  if                                                           /* O6 */
  :: inbox_due < next -> wake_at = 0; goto turn
  :: else
  fi;
#endif
#ifdef UNSEEN
  waker = true;
#endif
#ifdef TOKEN_CLEARED
  token = IDLE;
#endif
#ifdef TASK
  if                                                           /* O7 */
  :: ready
  :: !timed_out -> timed_out = true
  :: SERVED(0) && SERVED(1) -> goto end
  fi;
  ready = false;
#else
  if                                                           /* O7 */
  :: atomic { token == IDLE -> token = ASLEEP };
     atomic { in_kernel = (token == ASLEEP) };
     if
     :: !in_kernel
     :: atomic { !timed_out -> timed_out = true; in_kernel = false }
     :: SERVED(0) && SERVED(1) -> goto end
     fi
  :: token != IDLE
  fi;
  token = IDLE;
#endif
  wake_at = 0;                                                 /* O8 */
  goto turn;
end:
  skip
}
