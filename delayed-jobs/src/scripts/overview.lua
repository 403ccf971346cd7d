-- What a partition looks like.
-- ARGV seconds ahead
-- Returns {lease, ms left, pending, ms that the oldest is overdue, ready, held by consumers, dead, ms since
--   the first ready one fired, ms since the held one that is to be ended first fired, {jobs due within
--   each second ahead ...}}
local now = math.floor(now_us() / 1000)
local due = base .. ':due'
local first = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
local lag = first[2] and math.max(0, now - tonumber(first[2])) or 0
local function since(fired) return fired and math.max(0, now - tonumber(fired)) or 0 end
local ready = redis.call('LINDEX', base .. ':ready', 0)
local held = redis.call('ZRANGE', base .. ':held', 0, 0)[1]
local ahead = {}
for second = 0, tonumber(ARGV[1]) - 1 do
  local from = second == 0 and '-inf' or now + second * 1000
  ahead[#ahead + 1] = redis.call('ZCOUNT', due, from, '(' .. (now + (second + 1) * 1000))
end
return { redis.call('GET', base .. ':lease') or '', redis.call('PTTL', base .. ':lease'),
  redis.call('ZCARD', due), lag, redis.call('LLEN', base .. ':ready'),
  redis.call('ZCARD', base .. ':held'), redis.call('ZCARD', base .. ':dead'),
  since(ready and string.match(ready, '(%S+)$')),
  since(held and redis.call('HGET', base .. ':job:' .. held, 'fired')), ahead }
