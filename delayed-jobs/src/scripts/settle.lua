-- Notes for which jobs permits were used, and takes the others back.
-- KEYS[1] is the base of the queues  ARGV queue, name of the request, permits, moment at which they end, then the
--   receipt of each job
local held, recent = key_of('held', ARGV[1]), key_of('recent', ARGV[1])
for n = 1, tonumber(ARGV[3]) do
  local permit, receipt = ARGV[2] .. ':' .. n, ARGV[4 + n]
  local counted = redis.call('ZREM', held, permit) == 1
  if receipt and counted then redis.call('ZADD', held, ARGV[4], receipt) end
  if not receipt then redis.call('ZREM', recent, permit) end
end
return 0
