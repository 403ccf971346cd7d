-- What a partition looks like.
-- KEYS[1] base  ARGV group, seconds ahead
-- Returns {lease, ms left, pending, ms that the oldest is overdue, in the stream, delivered and not
--   acknowledged, jobs due within each second ahead ...}
local base = KEYS[1]
local time = redis.call('TIME')
local now = math.floor(time[1] * 1000 + time[2] / 1000)
local due = base .. ':due'
local first = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
local lag = first[2] and math.max(0, now - tonumber(first[2])) or 0
local unacknowledged = 0
local groups = redis.pcall('XINFO', 'GROUPS', base .. ':stream')
if not groups.err then
  for _, group in ipairs(groups) do
    for i = 1, #group, 2 do
      if group[i] == 'pending' then unacknowledged = unacknowledged + group[i + 1] end
    end
  end
end
local reply = { redis.call('GET', base .. ':lease') or '', redis.call('PTTL', base .. ':lease'),
  redis.call('ZCARD', due), lag, redis.call('XLEN', base .. ':stream'), unacknowledged }
for second = 0, tonumber(ARGV[2]) - 1 do
  local from = second == 0 and '-inf' or now + second * 1000
  reply[#reply + 1] = redis.call('ZCOUNT', due, from, '(' .. (now + (second + 1) * 1000))
end
return reply
