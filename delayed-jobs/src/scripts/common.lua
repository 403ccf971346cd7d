-- Begins each script of a partition. KEYS are the channel of its notices, and what the names of its keys begin with.
local channel, base = KEYS[1], KEYS[#KEYS]
local function now_us()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
local function text(number) return string.format('%.0f', number) end
-- Whether this partition is of the namespace that the caller knows, so that keys lead the caller here. It is not once
-- Redis came back empty.
local function is_born(birth) return redis.call('GET', base .. ':birth') == birth end
-- The queue that an id names after its partition and its digits; '' for the default queue.
local function queue_of(id)
  local at = string.find(id, '-', 8, true)
  return at and string.sub(id, at + 1) or ''
end
-- The priority that an id has after its digits.
local function priority_of(id)
  local at = string.find(id, '-', 1, true) + 17
  return tonumber(string.sub(id, at, at)) or 0
end
-- The key of a list or set that each queue has.
local function key_of(kind, queue)
  return base .. ':' .. kind .. (queue == '' and '' or ':' .. queue)
end
-- The jobs of a queue that wait for a consumer, of one priority, in the order in which they were made ready: a score is
-- this moment in ms, and a part of a ms for each job before it in the same script.
local function ready_key(queue, priority)
  return key_of(priority == 0 and 'ready' or 'ready' .. priority, queue)
end
local function make_ready(queue, priority, entries)
  redis.call('ZADD', ready_key(queue, priority), unpack(entries))
  if priority > 0 then redis.call('SADD', base .. ':rules', 'urgent:' .. queue) end
end
-- The keys of those that may have jobs, from the highest priority down. A queue that has none with a priority is no longer
-- urgent.
local function ready_keys(queue, is_urgent)
  local keys, rule = {}, 'urgent:' .. queue
  if (is_urgent or redis.call('SISMEMBER', base .. ':rules', rule)) == 1 then
    for priority = 9, 1, -1 do keys[#keys + 1] = ready_key(queue, priority) end
    if redis.call('EXISTS', unpack(keys)) == 0 then
      redis.call('SREM', base .. ':rules', rule)
      keys = {}
    end
  end
  keys[#keys + 1] = ready_key(queue, 0)
  return keys
end
-- Plans jobs of a queue. What follows are moments, of which one is the soonest, and ids, in turn. `heads` has the first
-- moment of each queue. Returns whether it is another one now.
local function plan(queue, soonest, ...)
  redis.call('ZADD', key_of('due', queue), ...)
  return redis.call('ZADD', base .. ':heads', 'LT', 'CH', soonest, queue) == 1
end
-- Notes the first moment of a queue after jobs have left it.
local function note_head(queue)
  local first = redis.call('ZRANGE', key_of('due', queue), 0, 0, 'WITHSCORES')[2]
  if first then redis.call('ZADD', base .. ':heads', first, queue) else redis.call('ZREM', base .. ':heads', queue) end
end
-- Tells inboxes that wait for jobs of a queue here, each for one of so many jobs, and each once: it waits again when it
-- has asked and found none left. One that nobody hears has ended. Notes the queue for `renew` if others wait besides.
-- Returns whether others do (0 or 1), or nothing if none was told.
local function tell(queue, count, now)
  local waiters, others = key_of('waiters', queue), nil
  local partition = string.match(base, '{(%d+)}')
  while count > 0 do
    local inbox = redis.call('SPOP', waiters)
    if not inbox then break end
    others = redis.call('EXISTS', waiters)
    -- In a cluster an inbox has a channel for each partition.
    local publish = string.sub(inbox, 1, #base) == base and 'SPUBLISH' or 'PUBLISH'
    count = count - redis.call(publish, inbox, partition .. ' ' .. others .. ' ' .. queue)
  end
  if others == 1 then redis.call('ZADD', base .. ':told', text(now), queue) end
  return others
end
-- Tells the holder of the partition when something is due, if that is its first moment now.
local function announce(soonest)
  local first = redis.call('ZRANGE', base .. ':heads', 0, 0, 'WITHSCORES')[2]
  if not first or tonumber(soonest) <= tonumber(first) then redis.call('PUBLISH', channel, soonest) end
end
-- Writes the record of a new job. A payload of more than 64 bytes has a key of its own, because with a value as long as
-- that Redis keeps a record as a table, which takes three times as much as a list, and does not shrink.
local function record(id, payload, ...)
  if #payload > 64 then
    redis.call('SET', base .. ':payload:' .. id, payload)
    redis.call('HSET', base .. ':job:' .. id, ...)
  else
    redis.call('HSET', base .. ':job:' .. id, 'payload', payload, ...)
  end
end
-- The payload of a job that has not ended, if its record does not hold it.
local function long_payload(id) return redis.call('GET', base .. ':payload:' .. id) end
-- Ends a job: its record, and the memory of its idempotency key, stay for `retention` ms, a long payload does not.
local function retire(id, key, once, payload, state, retention)
  if not payload then redis.call('DEL', base .. ':payload:' .. id) end
  redis.call('HSET', key, 'state', state)
  redis.call('PEXPIRE', key, retention)
  if once and once ~= '' then redis.call('PEXPIRE', base .. ':once:' .. once, retention) end
end
-- Moves a job whose attempts are used up to the dead ones.
local function bury(id, reason, now_ms)
  redis.call('HSET', base .. ':job:' .. id, 'state', 'dead', 'reason', reason)
  redis.call('ZADD', key_of('dead', queue_of(id)), text(now_ms), id)
end
-- Ends the hold of a job: it is ready again, or dead if its attempts are used up. Returns 'orphan', 'died' or 'ready'.
local function end_hold(id, queue, held_key, now)
  local job = redis.call('HMGET', base .. ':job:' .. id, 'attempt', 'spent', 'policy', 'due')
  redis.call('ZREM', held_key, id)
  if not job[4] then return 'orphan' end
  if job[1] - (job[2] or 0) >= tonumber(string.match(job[3], '^%d+')) then
    bury(id, 'not acknowledged in time', now)
    return 'died'
  end
  make_ready(queue, priority_of(id), { text(now), id })
  return 'ready'
end
-- Notes when the first hold of a queue ends; the holder of the partition is told if that is the first of all.
local function note_hold(queue, till)
  local first = redis.call('ZRANGE', base .. ':holds', 0, 0, 'WITHSCORES')[2]
  redis.call('ZADD', base .. ':holds', 'LT', till, queue)
  if not first or tonumber(till) < tonumber(first) then announce(till) end
end
-- Forgets a dead job. Returns how many were dead: 1 or 0.
local function forget(id)
  local gone = redis.call('ZREM', key_of('dead', queue_of(id)), id)
  if gone == 1 then
    local key = base .. ':job:' .. id
    local once = redis.call('HGET', key, 'once')
    if once and once ~= '' then redis.call('DEL', base .. ':once:' .. once) end
    redis.call('DEL', key, base .. ':payload:' .. id)
  end
  return gone
end
-- Notes the time at a key. Returns by how many ms this server's clock was set back since the last time, or 0 for less
-- than a second.
local function set_back(key, now)
  local back = tonumber(redis.call('GET', key) or 0) - now
  redis.call('SET', key, text(now))
  return back > 1000 and back or 0
end
-- Moves all moments of a set back.
local function move_back(set, ms)
  local all = redis.call('ZRANGE', set, 0, -1, 'WITHSCORES')
  for i = 1, #all, 2 do redis.call('ZADD', set, text(all[i + 1] - ms), all[i]) end
end
