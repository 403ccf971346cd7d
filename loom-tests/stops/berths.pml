/* The berths of two shards: src/engine/crew/berth.rs, by_hand.rs and lifecycle.rs. Each shard is turned by a thread of its
 * own, in a task, or with HAND both shards by two threads. A third thread stops the engine meanwhile.
 *
 * Each of the three may stop for ever before each of its steps, in its turn and in an end as well. A thread that turns
 * waits for nobody: only its shard's end waits for the engine's lock. A shard whose turner has not stopped is ended once
 * the engine is told to stop, and no shard is ended twice.
 *
 * Spin must accept the model, and reject each broken version:
 *
 * sound:
 * broken: ENGINE_LOCK   a turn takes and returns its shard under a lock of the engine
 * broken: ENGINE_TOLD   a turn answers `wait_idle` under a lock of the engine
 * broken: NO_LOOK       a turner does not look at the phase after its turn
 * broken: LOOK_EARLY    a turner looks at the phase before it has let go of its berth
 * broken: NO_TAKE       an end leaves the shard in its berth
 * sound: HAND
 * broken: HAND HAND_WAITS  a turn by hand waits for a shard that another thread turns
 */
#define SHARDS 2
#define STOPPER 2
#define TURNS 2

#define STEP(operation) atomic { if :: fate[me] = STOPPED; goto stopped :: skip -> operation fi }

mtype = { BUSY, DONE, STOPPED };

bool engine_lock = false;
bool told = false;             /* the engine's phase */
bool locked[SHARDS] = false;   /* the berths */
bool ended[SHARDS] = false;
bool taken[SHARDS] = false;
byte ends[SHARDS] = 0;
mtype fate[3] = BUSY;

/* Takes the shard out if its berth is free, and ends it. */
inline end_if_free(shard) {
  STEP(if :: locked[shard] -> mine = false :: else -> mine = !taken[shard]; taken[shard] = true fi);
#ifdef NO_TAKE
  atomic { if :: mine -> taken[shard] = false :: else fi };
#endif
  if
  :: mine ->
end_waits:                                          /* for a stop or an end that has stopped */
     atomic { !engine_lock -> engine_lock = true };
     STEP(ends[shard]++);
     STEP(engine_lock = false)
  :: else
  fi
}

proctype turner(byte me) {
  bool mine, seen;
  byte shard = me;
  byte rounds = 0;
turn:
#ifdef ENGINE_LOCK
  atomic { !engine_lock -> engine_lock = true };
  STEP(engine_lock = false);
#endif
#ifdef HAND
  shard = (rounds + me) % SHARDS;
#ifndef HAND_WAITS
  STEP(if :: locked[shard] -> goto next :: else -> locked[shard] = true; goto mine_now fi);
#endif
#endif
  atomic { !locked[shard] -> locked[shard] = true };
mine_now:
  STEP(seen = told || taken[shard]);
  if
  :: !seen ->
     STEP(skip);
#ifdef ENGINE_TOLD
     atomic { !engine_lock -> engine_lock = true };
     STEP(engine_lock = false)
#endif
  :: else
  fi;
#ifdef LOOK_EARLY
  STEP(seen = told);
#endif
  STEP(locked[shard] = false);
#ifdef NO_LOOK
  seen = false;
#else
#ifndef LOOK_EARLY
  STEP(seen = told);
#endif
#endif
  if
  :: seen -> end_if_free(shard)
  :: else ->
next:
     rounds++;
     if :: rounds < TURNS -> goto turn :: else fi
  fi;
  fate[me] = DONE;
stopped:
  skip
}

active proctype stopper() {
  byte me = STOPPER;
  byte shard = 0;
  bool mine;
  atomic { run turner(0); run turner(1) }
  atomic { !engine_lock -> engine_lock = true };
  STEP(told = true);
  STEP(engine_lock = false);
  do
  :: shard < SHARDS -> end_if_free(shard); shard++
  :: else -> break
  od;
  fate[me] = DONE;
stopped:
  skip
}

#ifdef HAND
#define A_TURNER_STOPPED(shard) (fate[0] == STOPPED || fate[1] == STOPPED)
#else
#define A_TURNER_STOPPED(shard) (fate[shard] == STOPPED)
#endif
#define IS_ENDED(shard) (ends[shard] == 1 || ends[shard] == 0 && (A_TURNER_STOPPED(shard) || fate[STOPPER] == STOPPED))

active proctype judge() {
  bool each_ended_once;
end_judge:
  fate[0] != BUSY && fate[1] != BUSY && fate[STOPPER] != BUSY;
  each_ended_once = IS_ENDED(0) && IS_ENDED(1);
  assert(each_ended_once)
}
