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
-- The list of jobs of a queue that wait for a consumer, of one priority.
local function ready_key(queue, priority)
  return key_of(priority == 0 and 'ready' or 'ready' .. priority, queue)
end
-- These lists from one priority down to another.
local function ready_keys(queue, from, to)
  local keys = {}
  for priority = from, to, -1 do keys[#keys + 1] = ready_key(queue, priority) end
  return keys
end
-- Counts the pending jobs of a queue. Those of the default queue are the rest of `due`.
local function count_pending(queue, more)
  if queue ~= '' then redis.call('HINCRBY', base .. ':queues', queue, more) end
end
-- The moment up to which the holder must be told of what becomes due: the end of the window, or of what it has read. That
-- is later once this server's clock was set back, and the holder does not read it again.
local function horizon_of(window_ends)
  return math.max(window_ends, tonumber(redis.call('GET', base .. ':read') or 0))
end
-- Tells the holder of the partition at which moments something is due now.
local function announce(moments)
  if #moments == 0 then return end
  local count = redis.call('INCR', base .. ':seq')
  redis.call('PUBLISH', channel, text(count) .. ' ' .. table.concat(moments, ' '))
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
  redis.call('ZADD', base .. ':dead', text(now_ms), id)
end
-- Forgets a dead job. Returns how many were dead: 1 or 0.
local function forget(id)
  local gone = redis.call('ZREM', base .. ':dead', id)
  if gone == 1 then
    local key = base .. ':job:' .. id
    local once = redis.call('HGET', key, 'once')
    if once and once ~= '' then redis.call('DEL', base .. ':once:' .. once) end
    redis.call('DEL', key, base .. ':payload:' .. id)
  end
  return gone
end
-- Makes the next job of a recurring schedule, due at `due`.
local function add_occurrence(name, id, due, window_ends)
  local key = base .. ':schedule:' .. name
  local plan = redis.call('HMGET', key, 'payload', 'policy')
  record(id, plan[1], 'due', due, 'created', text(math.ceil(now_us() / 1000)), 'policy', plan[2],
    'schedule', name)
  count_pending(queue_of(id), 1)
  redis.call('HSET', key, 'job', id)
  redis.call('ZADD', base .. ':due', due, id)
  redis.call('ZADD', base .. ':schedules', due, name)
  if tonumber(due) <= horizon_of(window_ends) then announce({ due }) end
end
-- Forgets the job of a schedule that is still pending.
local function drop_occurrence(name)
  local id = redis.call('HGET', base .. ':schedule:' .. name, 'job')
  if id and redis.call('ZREM', base .. ':due', id) == 1 then
    count_pending(queue_of(id), -1)
    redis.call('DEL', base .. ':job:' .. id, base .. ':payload:' .. id)
  end
end
