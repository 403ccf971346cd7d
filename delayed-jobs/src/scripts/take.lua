-- Hands jobs to a consumer, which has to end each of them in time. Whatever was not ended in time comes
-- first: it is ready again, or dead if its attempts are used up.
-- ARGV most jobs (with 0 it only counts), ms for which the consumer holds them, queue, moment at which the caller's permits for so many end, or
--   0, name of the consumer
-- Returns {jobs that are still ready or whose hold has ended (-1 if the queue is limited and the caller has no permits), jobs without a record, jobs that died, {for each job:
--   {id, attempt, attempts before the last requeue, policy, due, fired, payload, schedule, trace context} ...}, {if it only
--   counts, how many are left of each priority from 0 on ...}}
local now = math.floor(now_us() / 1000)
local most, queue = tonumber(ARGV[1]), ARGV[3]
local rules = redis.call('SMISMEMBER', base .. ':rules', 'paused:' .. queue, 'limited:' .. queue)
if rules[1] == 1 then return { 0, 0, 0, {}, {} } end
-- For those who ask why a job does not come. Anybody can ask for any name, so only those with jobs are noted.
if queue == '' or redis.call('SISMEMBER', base .. ':queues', queue) == 1 then
  redis.call('HSET', base .. ':asked', queue, text(now))
end
-- A request that was held up on the way finds its permits with others. Jobs are held as long as they are.
local permits_end = tonumber(ARGV[4])
if most > 0 and rules[2] == 1 and permits_end <= now then return { -1, 0, 0, {}, {} } end
local held_key, lists = key_of('held', queue), ready_keys(queue, 9, 0)
if most == 0 then
  local left, waiting = 0, {}
  local has_urgent = redis.call('EXISTS', unpack(lists, 1, 9)) > 0
  for priority = 0, 9 do
    waiting[priority + 1] = (priority == 0 or has_urgent) and redis.call('LLEN', lists[10 - priority]) or 0
  end
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', held_key, '-inf', now, 'LIMIT', 0, 1000)) do
    local priority = priority_of(id)
    waiting[priority + 1] = waiting[priority + 1] + 1
  end
  for _, count in ipairs(waiting) do left = left + count end
  return { left, 0, 0, {}, waiting }
end
-- Takes at most so many jobs of the highest priority that waits.
local function pop_first(count)
  local command = { 'LMPOP', 10 }
  for _, list in ipairs(lists) do command[#command + 1] = list end
  command[13], command[14], command[15] = 'LEFT', 'COUNT', count
  local popped = redis.call(unpack(command))
  return popped and popped[2]
end
-- Takes the most urgent jobs. Of ten jobs that are taken while several priorities wait, one is the job that has
-- waited for the longest time, so that none starves.
local function pop()
  if redis.call('EXISTS', unpack(lists)) < 2 then
    return pop_first(most) or {}
  end
  local items, turn_key = {}, key_of('turn', queue)
  local turn = tonumber(redis.call('GET', turn_key) or 0)
  while #items < most do
    local popped
    if turn < 9 then
      popped = pop_first(math.min(most - #items, 9 - turn))
      turn = turn + #(popped or {})
    else
      local longest, since
      for _, list in ipairs(lists) do
        local first = redis.call('LINDEX', list, 0)
        local fired = first and tonumber(string.match(first, '(%S+)$'))
        if fired and (not since or fired < since) then longest, since = list, fired end
      end
      popped, turn = longest and { redis.call('LPOP', longest) }, 0
    end
    if not popped then break end
    for _, item in ipairs(popped) do items[#items + 1] = item end
  end
  redis.call('SET', turn_key, turn, 'EX', 3600)
  return items
end
local orphans, died = 0, 0
for _, id in ipairs(redis.call('ZRANGEBYSCORE', held_key, '-inf', now, 'LIMIT', 0, most)) do
  local what = end_hold(id, queue, held_key, now)
  if what == 'orphan' then orphans = orphans + 1 elseif what == 'died' then died = died + 1 end
end
local items = pop()
local taken, held = {}, {}
local by = text(now) .. ' ' .. ARGV[5]
local till = text(permits_end > now and permits_end or now + tonumber(ARGV[2]))
for _, item in ipairs(items) do
  local id, due, fired = string.match(item, '^(%S+) (%S+) (%S+)$')
  local key = base .. ':job:' .. id
  local job = redis.call('HMGET', key, 'attempt', 'spent', 'policy', 'payload', 'schedule', 'trace', 'expires')
  local payload = job[4] or long_payload(id)
  local attempt = (job[1] or 0) + 1
  if attempt > 1 then redis.call('ZREM', key_of('retry', queue), id) end
  if job[7] and tonumber(job[7]) <= now then
    bury(id, 'expired before a consumer took it', now)
    died = died + 1
  elseif payload and job[3] then
    redis.call('HSET', key, 'attempt', attempt, 'fired', fired, 'by', by)
    held[#held + 1], held[#held + 2] = till, id
    taken[#taken + 1] = { id, attempt, tonumber(job[2] or 0), job[3], tonumber(due), tonumber(fired),
      payload, job[5], job[6] }
  else
    orphans = orphans + 1
  end
end
if #held > 0 then
  redis.call('ZADD', held_key, unpack(held))
  note_hold(queue, till)
end
local left = redis.call('EXISTS', unpack(lists)) + redis.call('ZCOUNT', held_key, '-inf', now)
return { left, orphans, died, taken, {} }
