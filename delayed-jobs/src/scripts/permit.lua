-- Grants permits for jobs of a queue that has limits. They count from now on, so a node that ends before it has taken
-- jobs for them keeps others from taking too many, and not the other way round.
-- KEYS[1] is the base of the queues  ARGV queue, most permits, ms for which a consumer holds a job, name of the request
-- Returns {permits (-1 if the queue has no limits), ms until there may be more, or -1, moment at which they end}
local queue, most, name = ARGV[1], tonumber(ARGV[2]), ARGV[4]
local limits = redis.call('HGET', base .. ':limits', queue)
if not limits then return { -1, -1, 0 } end
local concurrency, rate, per = string.match(limits, '^(%d+) (%d+) (%d+)$')
concurrency, rate, per = tonumber(concurrency), tonumber(rate), tonumber(per)
local now, again = math.floor(now_us() / 1000), -1
local till = now + tonumber(ARGV[3])
local held, recent = key_of('held', queue), key_of('recent', queue)
local back = set_back(key_of('clock', queue), now)
if back > 0 then
  move_back(held, back)
  move_back(recent, back)
end
if concurrency > 0 then
  redis.call('ZREMRANGEBYSCORE', held, '-inf', now)
  most = math.min(most, concurrency - redis.call('ZCARD', held))
  if most <= 0 then again = redis.call('ZRANGE', held, 0, 0, 'WITHSCORES')[2] - now end
end
if rate > 0 then
  redis.call('ZREMRANGEBYSCORE', recent, '-inf', now - per)
  local granted = redis.call('ZCARD', recent)
  most = math.min(most, rate - granted)
  if granted >= rate then
    local oldest = redis.call('ZRANGE', recent, granted - rate, granted - rate, 'WITHSCORES')[2]
    again = math.max(again, oldest + per - now)
  end
end
for n = 1, most do
  if concurrency > 0 then redis.call('ZADD', held, text(till), name .. ':' .. n) end
  if rate > 0 then redis.call('ZADD', recent, text(now), name .. ':' .. n) end
end
if rate > 0 then redis.call('PEXPIRE', recent, per) end
return { math.max(0, most), again, till }
