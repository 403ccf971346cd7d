-- Makes what is due ready for the consumers, if the caller still holds the partition. The clock that
-- decides is this server's, so no job is early however wrong a node's clock is.
-- ARGV lease as it was granted, most jobs per call (at most 4096), channel that all inboxes hear
-- Returns {-1} if fenced, else {now in us, next due or -1, {lateness in ms ...},
--   {name, moment, recurrence, queue and priority of each schedule whose moment has come ...}, jobs that died when
--   their holds ended}
if redis.call('GET', base .. ':lease') ~= ARGV[1] then return { -1, false, false, false, 0 } end
local now = now_us()
local now_ms = math.floor(now / 1000)
-- Jobs of each queue that are ready now, and whether some have a priority.
local counts, urgent = {}, {}
local function count(queue, more, priority)
  counts[queue] = (counts[queue] or 0) + more
  urgent[queue] = urgent[queue] or priority > 0
end
local find, byte = string.find, string.byte
local late, room = {}, tonumber(ARGV[2])
-- Returns the first members of a set and their scores: with the first that is not due yet, if there is one.
local function first_of(set, most)
  -- Mostly few are due.
  local found = redis.call('ZRANGE', set, 0, 8, 'WITHSCORES')
  local last = #found == 18 and tonumber(found[18])
  return last and last <= now_ms and redis.call('ZRANGE', set, 0, most, 'WITHSCORES') or found
end
local heads, next = first_of(base .. ':heads', room), math.huge
for at = 1, #heads, 2 do
  local first = tonumber(heads[at + 1])
  if room == 0 or first > now_ms then
    next = math.min(next, first)
    break
  end
  local queue, fired, head, sets = heads[at], 0, nil, {}
  local due_key = key_of('due', queue)
  local due = first_of(due_key, room)
  for i = 1, #due, 2 do
    local id, moment = due[i], tonumber(due[i + 1])
    if moment > now_ms or fired == room then
      head = due[i + 1]
      break
    end
    -- Behind the digits comes the priority, or `-` and the queue, or nothing.
    local priority = byte(id, find(id, '-', 1, true) + 17) or 45
    local entries = sets[priority]
    if not entries then
      entries = {}
      sets[priority] = entries
    end
    entries[#entries + 1], entries[#entries + 2] = now_ms + #late / 4096, id
    late[#late + 1] = now_ms - moment
    fired = fired + 1
  end
  -- They are the first ones, because nothing else happens meanwhile.
  if fired > 0 then redis.call('ZREMRANGEBYRANK', due_key, 0, fired - 1) end
  if head then
    redis.call('ZADD', base .. ':heads', head, queue)
    next = math.min(next, tonumber(head))
  else
    redis.call('ZREM', base .. ':heads', queue)
  end
  for priority, entries in pairs(sets) do
    priority = priority == 45 and 0 or priority - 48
    make_ready(queue, priority, entries)
    count(queue, #entries / 2, priority)
  end
  room = room - fired
end
-- Jobs of consumers that have died.
local died = 0
local hold = tonumber(redis.call('ZRANGE', base .. ':holds', 0, 0, 'WITHSCORES')[2])
local ended = hold and hold <= now_ms and
  redis.call('ZRANGEBYSCORE', base .. ':holds', '-inf', now_ms, 'LIMIT', 0, 10) or {}
for _, queue in ipairs(ended) do
  local held_key = key_of('held', queue)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', held_key, '-inf', now_ms, 'LIMIT', 0, 100)) do
    local what = end_hold(id, queue, held_key, now_ms)
    if what == 'ready' then
      count(queue, 1, priority_of(id))
    elseif what == 'died' then
      died = died + 1
    end
  end
  local left = redis.call('ZRANGE', held_key, 0, 0, 'WITHSCORES')[2]
  if left then redis.call('ZADD', base .. ':holds', left, queue) else redis.call('ZREM', base .. ':holds', queue) end
end
for queue, more in pairs(counts) do
  -- Inboxes that know it ask all partitions which priorities they have.
  if urgent[queue] then redis.call('PUBLISH', ARGV[3], '! ' .. queue) end
  tell(queue, more, now_ms)
end
local passed = {}
if #ended > 0 then hold = tonumber(redis.call('ZRANGE', base .. ':holds', 0, 0, 'WITHSCORES')[2]) end
if hold then next = math.min(next, hold) end
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
