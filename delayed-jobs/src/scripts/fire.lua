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
local find, byte = string.find, string.byte
local late, fired, room = {}, ' ' .. text(now_ms), tonumber(ARGV[2])
for _, queue in ipairs(redis.call('ZRANGEBYSCORE', base .. ':heads', '-inf', now_ms, 'LIMIT', 0, room)) do
  local due_key, plain, urgent = key_of('due', queue), {}, nil
  local due = redis.call('ZRANGEBYSCORE', due_key, '-inf', now_ms, 'WITHSCORES', 'LIMIT', 0, room)
  for i = 1, #due, 2 do
    local id, ready = due[i], plain
    -- Behind the digits comes the priority, or `-` and the queue, or nothing.
    local priority = byte(id, find(id, '-', 1, true) + 17)
    if priority and priority ~= 45 then
      urgent = urgent or {}
      ready = urgent[priority] or {}
      urgent[priority] = ready
    end
    ready[#ready + 1] = id .. ' ' .. due[i + 1] .. fired
    late[#late + 1] = now_ms - tonumber(due[i + 1])
  end
  -- They are the first ones, because nothing else happens meanwhile.
  if #due > 0 then redis.call('ZREMRANGEBYRANK', due_key, 0, #due / 2 - 1) end
  note_head(queue)
  if #plain > 0 then redis.call('RPUSH', ready_key(queue, 0), unpack(plain)) end
  for priority, ready in pairs(urgent or {}) do redis.call('RPUSH', ready_key(queue, priority - 48), unpack(ready)) end
  tell_ready(queue, urgent)
  room = room - #due / 2
  if room == 0 then break end
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
local first = redis.call('ZRANGE', base .. ':heads', 0, 0, 'WITHSCORES')[2]
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
