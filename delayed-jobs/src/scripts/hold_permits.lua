-- Keeps permits for longer, or gives them back. One that has ended stays so.
-- KEYS[1] is the base of the queues  ARGV queue, ms from now (0 gives them back), channel that says what is ready, then
--   receipts
local held, ms = key_of('held', ARGV[1]), tonumber(ARGV[2])
local before, now = redis.call('ZCARD', held), math.floor(now_us() / 1000)
for i = 4, #ARGV do
  if ms == 0 then
    redis.call('ZREM', held, ARGV[i])
  elseif tonumber(redis.call('ZSCORE', held, ARGV[i]) or 0) > now then
    redis.call('ZADD', held, text(now + ms), ARGV[i])
  end
end
local most = tonumber(string.match(redis.call('HGET', base .. ':limits', ARGV[1]) or '', '^%d+') or 0)
if ms == 0 and most > 0 and before >= most then
  -- Consumers may have waited for this.
  redis.call('PUBLISH', ARGV[3], '* ' .. ARGV[1])
end
return 0
