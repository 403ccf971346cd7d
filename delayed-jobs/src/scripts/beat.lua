-- Says that a node is alive, and what it has done since its last beat; and who else is alive.
-- KEYS[1] is the base of the nodes  ARGV node, what it says of itself, ms for which it counts as alive,
--   jobs fired, attempts failed, the most that one of those jobs was late in ms, length of a part of the past in ms,
--   how many parts are kept
local now = math.floor(now_us() / 1000)
redis.call('ZADD', base .. ':alive', now, ARGV[1])
redis.call('HSET', base .. ':said', ARGV[1], ARGV[2])
-- One that was heard of in the future counts from now, because this server's clock was set back.
for _, name in ipairs(redis.call('ZRANGEBYSCORE', base .. ':alive', '(' .. now, '+inf')) do
  redis.call('ZADD', base .. ':alive', now, name)
end
local dead = redis.call('ZRANGEBYSCORE', base .. ':alive', '-inf', '(' .. (now - tonumber(ARGV[3])))
for _, name in ipairs(dead) do
  redis.call('ZREM', base .. ':alive', name)
  redis.call('HDEL', base .. ':said', name)
end
local fired, failed, late = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if fired + failed > 0 then
  local past, length, kept = base .. ':past', tonumber(ARGV[7]), tonumber(ARGV[8])
  local part = math.floor(now / length)
  local known = redis.call('HGET', past, part)
  if known then
    local a, b, c = string.match(known, '(%d+) (%d+) (%d+)')
    fired, failed, late = fired + a, failed + b, math.max(late, tonumber(c))
  else
    for _, one in ipairs(redis.call('HKEYS', past)) do
      if tonumber(one) <= part - kept then redis.call('HDEL', past, one) end
    end
  end
  redis.call('HSET', past, part, string.format('%d %d %d', fired, failed, late))
  redis.call('PEXPIRE', past, length * kept)
end
return redis.call('ZRANGE', base .. ':alive', 0, -1)
