-- Prolongs a lease, tells further inboxes of jobs that nobody has taken, and moves the ends of holds back with this
-- server's clock.
-- ARGV lease, lease in ms
-- Returns {held, first moment at which something is due or -1, now in us, ms by which the clock was set back}
local now = now_us()
if redis.call('GET', base .. ':lease') ~= ARGV[1] then return { 0, -1, now, 0 } end
redis.call('PEXPIRE', base .. ':lease', ARGV[2])
local back = set_back(base .. ':clock', math.floor(now / 1000))
if back > 0 then
  for _, queue in ipairs(redis.call('ZRANGE', base .. ':holds', 0, -1)) do move_back(key_of('held', queue), back) end
  move_back(base .. ':holds', back)
end
-- An inbox that was told may have died before it asked.
for _, queue in ipairs(redis.call('ZRANGEBYSCORE', base .. ':told', '-inf', now / 1000 - 100, 'LIMIT', 0, 100)) do
  local waiting = 0
  for _, key in ipairs(ready_keys(queue)) do waiting = waiting + redis.call('ZCARD', key) end
  if waiting == 0 or not tell(queue, waiting, math.floor(now / 1000)) then redis.call('ZREM', base .. ':told', queue) end
end
local first = math.huge
for _, set in ipairs({ 'heads', 'holds', 'schedules' }) do
  local one = redis.call('ZRANGE', base .. ':' .. set, 0, 0, 'WITHSCORES')[2]
  if one then first = math.min(first, tonumber(one)) end
end
return { 1, first < math.huge and first or -1, now, back }
