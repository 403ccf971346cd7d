-- Says that a node is alive, and who else is.
-- KEYS[1] base of the nodes  ARGV node, what it says of itself, ms for which it counts as alive
local base = KEYS[1]
local time = redis.call('TIME')
local now = math.floor(time[1] * 1000 + time[2] / 1000)
redis.call('ZADD', base .. ':alive', now, ARGV[1])
redis.call('HSET', base .. ':said', ARGV[1], ARGV[2])
local dead = redis.call('ZRANGEBYSCORE', base .. ':alive', '-inf', '(' .. (now - tonumber(ARGV[3])))
for _, name in ipairs(dead) do
  redis.call('ZREM', base .. ':alive', name)
  redis.call('HDEL', base .. ':said', name)
end
return redis.call('ZRANGE', base .. ':alive', 0, -1)
