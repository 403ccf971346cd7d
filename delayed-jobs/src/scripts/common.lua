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
