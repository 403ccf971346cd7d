-- What a partition looks like.
-- ARGV seconds ahead
-- Returns {lease, ms left, ms that the oldest pending job is overdue, dead, {jobs due within each second ahead ...},
--   {for each queue: {name, pending, ready, held by consumers, ms since the first ready one fired, ms since the held
--   one that is to be ended first fired} ...}}
local now = math.floor(now_us() / 1000)
local due = base .. ':due'
local first = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
local lag = first[2] and math.max(0, now - tonumber(first[2])) or 0
local function since(fired) return fired and math.max(0, now - tonumber(fired)) or 0 end
local queues = {}
local function look(queue, pending)
  local lists, held = ready_keys(queue, 9, 0), key_of('held', queue)
  local waiting, taken, age = 0, redis.call('ZCARD', held), 0
  local first_list = redis.call('EXISTS', unpack(lists, 1, 9)) > 0 and 1 or 10
  for i = first_list, 10 do
    local first = redis.call('LINDEX', lists[i], 0)
    if first then
      waiting = waiting + redis.call('LLEN', lists[i])
      age = math.max(age, since(string.match(first, '(%S+)$')))
    end
  end
  if queue ~= '' and pending + waiting + taken == 0 then
    -- The next job makes it known again.
    redis.call('HDEL', base .. ':queues', queue)
    return
  end
  local next = redis.call('ZRANGE', held, 0, 0)[1]
  queues[#queues + 1] = { queue, pending, waiting, taken, age,
    since(next and redis.call('HGET', base .. ':job:' .. next, 'fired')) }
end
local named, of_named = redis.call('HGETALL', base .. ':queues'), 0
for i = 1, #named, 2 do
  local pending = math.max(0, tonumber(named[i + 1]))
  of_named = of_named + pending
  look(named[i], pending)
end
look('', math.max(0, redis.call('ZCARD', due) - of_named))
local ahead = {}
for second = 0, tonumber(ARGV[1]) - 1 do
  local from = second == 0 and '-inf' or now + second * 1000
  ahead[#ahead + 1] = redis.call('ZCOUNT', due, from, '(' .. (now + (second + 1) * 1000))
end
return { redis.call('GET', base .. ':lease') or '', redis.call('PTTL', base .. ':lease'), lag,
  redis.call('ZCARD', base .. ':dead'), ahead, queues }
