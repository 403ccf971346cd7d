-- What a partition looks like.
-- ARGV seconds ahead
-- Returns {lease, ms left, ms that the oldest pending job is overdue, dead, {jobs due within each second ahead ...},
--   {for each queue: {name, pending, ready, held by consumers, ms since the first ready one fired, ms since the held
--   one that is to be ended first was taken} ...}}
local now = math.floor(now_us() / 1000)
local first = redis.call('ZRANGE', base .. ':heads', 0, 0, 'WITHSCORES')
local lag = first[2] and math.max(0, now - tonumber(first[2])) or 0
local function since(moment) return moment and math.max(0, now - moment) or 0 end
local queues, all_dead = {}, 0
local function look(queue)
  local held = key_of('held', queue)
  local pending, dead = redis.call('ZCARD', key_of('due', queue)), redis.call('ZCARD', key_of('dead', queue))
  all_dead = all_dead + dead
  local waiting, taken, age = 0, redis.call('ZCARD', held), 0
  for _, key in ipairs(ready_keys(queue)) do
    local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
    if first then
      waiting = waiting + redis.call('ZCARD', key)
      age = math.max(age, since(math.floor(first)))
    end
  end
  if queue ~= '' and pending + waiting + taken + dead == 0 then
    -- The next job makes it known again.
    redis.call('SREM', base .. ':queues', queue)
    redis.call('HDEL', base .. ':asked', queue)
    redis.call('EXPIRE', key_of('waiters', queue), 60)
    return
  end
  local next = redis.call('ZRANGE', held, 0, 0)[1]
  local by = next and redis.call('HGET', base .. ':job:' .. next, 'by')
  queues[#queues + 1] = { queue, pending, waiting, taken, age, since(by and tonumber(string.match(by, '^%d+'))) }
end
for _, queue in ipairs(redis.call('SMEMBERS', base .. ':queues')) do look(queue) end
look('')
local seconds, ahead = tonumber(ARGV[1]), {}
for second = 1, seconds do ahead[second] = 0 end
local last = now + seconds * 1000
for _, queue in ipairs(redis.call('ZRANGEBYSCORE', base .. ':heads', '-inf', '(' .. last)) do
  local due = key_of('due', queue)
  for second = 1, seconds do
    local from = second == 1 and '-inf' or now + (second - 1) * 1000
    ahead[second] = ahead[second] + redis.call('ZCOUNT', due, from, '(' .. (now + second * 1000))
  end
end
return { redis.call('GET', base .. ':lease') or '', redis.call('PTTL', base .. ':lease'), lag, all_dead, ahead, queues }
