-- Begins each script of a partition. KEYS[1] is what the names of its keys begin with.
local base = KEYS[1]
local function now_us()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
local function text(number) return string.format('%.0f', number) end
-- Tells the holder of the partition at which moments something is due now.
local function announce(moments)
  if #moments == 0 then return end
  local count = redis.call('INCR', base .. ':seq')
  redis.call('PUBLISH', base .. ':near', text(count) .. ' ' .. table.concat(moments, ' '))
end
-- Ends a job: its record, and the memory of its idempotency key, stay for `retention` ms.
local function retire(key, once, state, retention)
  redis.call('HSET', key, 'state', state)
  redis.call('PEXPIRE', key, retention)
  if once and once ~= '' then redis.call('PEXPIRE', base .. ':once:' .. once, retention) end
end
-- Moves a job whose attempts are used up to the dead ones.
local function bury(id, reason, now_ms)
  redis.call('HSET', base .. ':job:' .. id, 'state', 'dead', 'reason', reason)
  redis.call('ZADD', base .. ':dead', text(now_ms), id)
end
-- Makes the next job of a recurring schedule, due at `due`.
local function add_occurrence(name, id, due, horizon)
  local key = base .. ':schedule:' .. name
  local plan = redis.call('HMGET', key, 'payload', 'policy')
  redis.call('HSET', base .. ':job:' .. id, 'payload', plan[1], 'due', due, 'created',
    text(math.ceil(now_us() / 1000)), 'policy', plan[2], 'schedule', name)
  redis.call('HSET', key, 'job', id)
  redis.call('ZADD', base .. ':due', due, id)
  redis.call('ZADD', base .. ':schedules', due, name)
  if tonumber(due) <= horizon then announce({ due }) end
end
-- Forgets the job of a schedule that is still pending.
local function drop_occurrence(name)
  local id = redis.call('HGET', base .. ':schedule:' .. name, 'job')
  if id and redis.call('ZREM', base .. ':due', id) == 1 then
    redis.call('DEL', base .. ':job:' .. id)
  end
end
