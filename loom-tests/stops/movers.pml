/* Threads that move one timer, and the owner that fires it: src/node/record.rs, src/state/word.rs, src/node/table.rs.
 *
 * A mover may stop for ever before each of its steps. Then no other mover waits for it, and the timer does not fire
 * before the deadline that its node shows. It fires by the deadline of the last move that was completed, or by a later
 * one that a stopped mover has written since.
 *
 * Time stands while movers are busy, and then passes by one tick per turn of the owner.
 *
 * Spin must accept the model, and reject each broken version:
 *
 * sound:
 * broken: ONE_AT_A_TIME     a mover waits until no other one is at work
 * broken: TRUST_A_MOVER     a mover does not send a message if another one is at work, which may send one
 * broken: TRUST_A_PROMISE   a mover does not send a message if another one has promised one
 * broken: OLD_ENTRY_DIES    the old entry is void as soon as the deadline was moved earlier
 * broken: NOT_SETTLED       the owner fires without closing the deadline to movers at work
 * broken: UNACKNOWLEDGED    the owner reads the deadline before it acknowledges the moves
 */
#define MOVERS 2

/* The state word. */
#define LIVE 1
#define MOVED 2
#define PULLED 4
#define MOVER 8
#define COUNT 24
#define HINT 32
#define HINTS 224
#define MARK(word) ((word) & (LIVE | HINTS))
#define REMARKED(word) (((word) & ~(HINTS | PULLED)) | (((word) + HINT) & HINTS))

/* The deadline's highest bit. */
#define SETTLED 8
#define TICK(deadline) ((deadline) & 7)

#define STEP(operation) atomic { if :: fate[me] = STOPPED; goto end :: skip -> operation fi }

mtype = { BUSY, DONE, STOPPED };

byte state = LIVE;
byte deadline;
mtype fate[MOVERS] = BUSY;

/* Messages, by their senders: a mark is never 0. */
byte sent_mark[MOVERS];
byte sent_tick[MOVERS];

/* For the check: the moves in the order of their exchanges, and the first deadline at the bottom. */
byte moves = 0;
byte moved_to[MOVERS + 1];
byte moved_by[MOVERS + 1];

proctype mover(byte me; byte tick) {
  byte seen, begun, old, new;
  bool earlier, tell;
  /* begin_move */
  STEP(seen = state);
begin:
  if
  :: !(seen & LIVE) -> goto done
  :: else
  fi;
#ifdef ONE_AT_A_TIME
  (state & COUNT) == 0;
  STEP(seen = state);
#else
  assert((seen & COUNT) != COUNT);
#endif
  STEP(if :: state == seen -> state = state + MOVER; begun = state :: else -> seen = state; goto begin fi);
  /* DeadlineWord::move_to */
  STEP(old = deadline);
move:
  if
  :: old & SETTLED -> STEP(state = state - MOVER; goto done)
  :: else
  fi;
  STEP(
    if
    :: deadline == old ->
       deadline = tick;
       moves++;
       moved_to[moves] = tick;
       moved_by[moves] = me
    :: else -> old = deadline; goto move
    fi
  );
  earlier = (tick < old);
  seen = begun;
finish:
  if
  :: !(seen & LIVE) -> STEP(state = state - MOVER; goto done)
  :: else
  fi;
  new = seen - MOVER;
  tell = earlier;
#ifndef TRUST_A_MOVER
  tell = tell || (new & COUNT);
#endif
#ifndef TRUST_A_PROMISE
  tell = tell || (new & PULLED);
#endif
  new = new | MOVED | (tell -> PULLED : 0);
#ifdef OLD_ENTRY_DIES
  if :: tell -> new = REMARKED(new) :: else fi;
#endif
  STEP(
    if
    :: state == seen -> state = new
    :: else -> earlier = earlier || MARK(state) != MARK(begun); seen = state; goto finish
    fi
  );
  if
  :: tell -> STEP(sent_tick[me] = tick; sent_mark[me] = MARK(new))
  :: else
  fi;
done:
  fate[me] = DONE;
end:
  skip
}

/* The latest tick by which the timer must fire. */
inline find_bound() {
  bound = 0;
  at = moves;
  do
  :: moved_to[at] > bound -> bound = moved_to[at]
  :: moved_to[at] <= bound && (at == 0 || fate[moved_by[at]] == DONE) -> break
  :: moved_to[at] <= bound && at > 0 && fate[moved_by[at]] != DONE -> at--
  od
}

#define ENTRIES (MOVERS + 1)

active proctype owner() {
  byte now = 1, seen, found, n, free, bound, at;
  bool quiet;
  /* The inserted entries; none has mark 0. */
  byte entry_tick[ENTRIES], entry_mark[ENTRIES];
  atomic {
    if :: deadline = 1 :: deadline = 3 fi;
    moved_to[0] = deadline;
    entry_tick[0] = deadline;
    entry_mark[0] = LIVE;
    for (n : 0 .. MOVERS - 1) {
      if :: at = 1 :: at = 2 :: at = 4 fi;
      run mover(n, at)
    }
  }
turn:
  atomic {
    quiet = true;
    n = 0;
    do
    :: n == MOVERS -> break
    :: n < MOVERS -> quiet = quiet && fate[n] != BUSY; n++
    od
  }
  /* The inbox: Table::arrive. */
  n = 0;
  do
  :: n == MOVERS -> break
  :: n < MOVERS && !sent_mark[n] -> n++
  :: n < MOVERS && sent_mark[n] ->
     atomic {
       free = 1 + n;
       entry_tick[free] = sent_tick[n];
       entry_mark[free] = sent_mark[n];
       sent_mark[n] = 0
     }
     seen = state;
     do
     :: MARK(seen) != entry_mark[free] -> entry_mark[free] = 0; break
     :: MARK(seen) == entry_mark[free] && !(seen & PULLED) -> break
     :: MARK(seen) == entry_mark[free] && (seen & PULLED) ->
        if
        :: atomic { state == seen -> state = REMARKED(seen) };
           entry_mark[free] = MARK(REMARKED(seen));
           entry_tick[free] = TICK(deadline);
           break
        :: atomic { state != seen -> seen = state }
        fi
     od;
     n++
  od;
  /* The due entries: Table::due. */
  n = 0;
  do
  :: n == ENTRIES -> break
  :: n < ENTRIES && (!entry_mark[n] || entry_tick[n] > now) -> n++
  :: n < ENTRIES && entry_mark[n] && entry_tick[n] <= now ->
     seen = state;
decide:
     if
     :: MARK(seen) != entry_mark[n] -> entry_mark[n] = 0; goto next
     :: else
     fi;
#ifdef UNACKNOWLEDGED
     found = deadline;
#endif
     if
     :: seen & MOVED ->
        if
        :: atomic { state == seen -> state = state & ~MOVED; seen = state }
        :: atomic { state != seen -> seen = state; goto decide }
        fi
     :: else
     fi;
#ifndef UNACKNOWLEDGED
     found = deadline;
#endif
     if
     :: TICK(found) > now -> entry_tick[n] = TICK(found); goto next
     :: else
     fi;
#ifndef NOT_SETTLED
     if
     :: (seen & COUNT) && !(found & SETTLED) ->
        if
        :: atomic { deadline == found -> deadline = deadline | SETTLED }
        :: atomic { deadline != found -> seen = state; goto decide }
        fi
     :: else
     fi;
#endif
     if
     :: atomic { state == seen -> state = state & ~LIVE; goto fired }
     :: atomic { state != seen -> seen = state; goto decide }
     fi;
next:
     n++
  od;
  if
  :: quiet ->
     find_bound();
     assert(now < bound);
     now++
  :: else
  fi;
  goto turn;
fired:
  assert(now >= TICK(deadline));
end:
  skip
}
