-- Makes what is due ready for the consumers, if the caller still holds the partition. The clock that
-- decides is this server's, so no job is early however wrong a node's clock is.
-- ARGV lease as it was granted, most jobs per call, channel that says what is ready, partition
-- Returns {-1} if fenced, else {now in us, next due or -1, {lateness in ms ...},
--   {name, moment, recurrence, queue and priority of each schedule whose moment has come ...}, jobs that died when
--   their holds ended}
if redis.call('GET', base .. ':lease') ~= ARGV[1] then return { -1, false, false, false, 0 } end
local now = now_us()
local now_ms = math.floor(now / 1000)
-- Tells consumers that jobs of a queue are ready here.
local function tell_ready(queue, urgent)
  -- Consumers that know it ask all partitions which priorities they have.
  if urgent then redis.call('PUBLISH', ARGV[3], '! ' .. queue) end
  redis.call('PUBLISH', ARGV[3], queue == '' and ARGV[4] or ARGV[4] .. ' ' .. queue)
end
local due = redis.call('ZRANGEBYSCORE', base .. ':due', '-inf', now_ms, 'WITHSCORES', 'LIMIT', 0, ARGV[2])
local late, fired, plain = {}, ' ' .. text(now_ms), {}
-- By what follows the digits of the id: priority, `-` and queue, each of them if it is there.
local lists, find = { [''] = plain }, string.find
for i = 1, #due, 2 do
  local id, ready = due[i], plain
  local at = find(id, '-', 1, true) + 17
  if #id >= at then
    local rest = string.sub(id, at)
    ready = lists[rest] or {}
    lists[rest] = ready
  end
  ready[#ready + 1] = id .. ' ' .. due[i + 1] .. fired
  late[#late + 1] = now_ms - tonumber(due[i + 1])
end
if #late > 0 then
  -- They are the first ones, because nothing else happens meanwhile.
  redis.call('ZREMRANGEBYRANK', base .. ':due', 0, #late - 1)
end
for rest, ready in pairs(lists) do
  if #ready > 0 then
    local priority, queue = string.match(rest, '^(%d?)%-?(.*)$')
    redis.call('RPUSH', ready_key(queue, tonumber(priority) or 0), unpack(ready))
    count_pending(queue, -#ready)
    tell_ready(queue, priority ~= '')
  end
end
-- Jobs of consumers that have died.
local died = 0
for _, queue in ipairs(redis.call('ZRANGEBYSCORE', base .. ':holds', '-inf', now_ms, 'LIMIT', 0, 10)) do
  local held_key, again, urgent = key_of('held', queue), false, false
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', held_key, '-inf', now_ms, 'LIMIT', 0, 100)) do
    local what = end_hold(id, queue, held_key, now_ms)
    if what == 'ready' then
      again, urgent = true, urgent or priority_of(id) > 0
    elseif what == 'died' then
      died = died + 1
    end
  end
  local left = redis.call('ZRANGE', held_key, 0, 0, 'WITHSCORES')[2]
  if left then redis.call('ZADD', base .. ':holds', left, queue) else redis.call('ZREM', base .. ':holds', queue) end
  if again then tell_ready(queue, urgent) end
end
local first = redis.call('ZRANGE', base .. ':due', 0, 0, 'WITHSCORES')[2]
local next, passed = first and tonumber(first) or math.huge, {}
local hold = redis.call('ZRANGE', base .. ':holds', 0, 0, 'WITHSCORES')[2]
if hold then next = math.min(next, tonumber(hold)) end
local schedules = redis.call('ZRANGE', base .. ':schedules', 0, 9, 'WITHSCORES')
for i = 1, #schedules, 2 do
  local name, at = schedules[i], tonumber(schedules[i + 1])
  if at > now_ms then
    next = math.min(next, at)
    break
  end
  local plan = redis.call('HMGET', base .. ':schedule:' .. name, 'recurrence', 'queue', 'priority')
  passed[#passed + 1] = { name, at, plan[1] or '', plan[2] or '', tonumber(plan[3] or 0) }
end
return { now, next < math.huge and next or -1, late, passed, died }
