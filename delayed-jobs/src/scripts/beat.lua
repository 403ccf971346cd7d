-- Says that a node is alive, and who else is.
-- KEYS[1] is the base of the nodes  ARGV node, what it says of itself, ms for which it counts as alive
local now = math.floor(now_us() / 1000)
redis.call('ZADD', base .. ':alive', now, ARGV[1])
redis.call('HSET', base .. ':said', ARGV[1], ARGV[2])
local dead = redis.call('ZRANGEBYSCORE', base .. ':alive', '-inf', '(' .. (now - tonumber(ARGV[3])))
for _, name in ipairs(dead) do
  redis.call('ZREM', base .. ':alive', name)
  redis.call('HDEL', base .. ':said', name)
end
return redis.call('ZRANGE', base .. ':alive', 0, -1)
