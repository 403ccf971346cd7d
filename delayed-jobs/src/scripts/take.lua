-- Hands jobs to a consumer, which has to end each of them in time. Whatever was not ended in time comes
-- first: it is ready again, or dead if its attempts are used up.
-- ARGV most jobs (with 0 it only counts), ms for which the consumer holds them, queue, moment at which the caller's permits
--   for so many end, or 0, name of the consumer, channel of an inbox that is told of the next job if none is left
-- Returns {jobs that are still ready or whose hold has ended (-1 if the queue is limited and the caller has no permits), jobs without a record, jobs that died, {for each job:
--   {id, attempt, attempts before the last requeue, policy, due, fired, payload, schedule, trace context} ...}, {if it only
--   counts, how many are left of each priority from 0 on ...}}
local now = math.floor(now_us() / 1000)
local most, queue = tonumber(ARGV[1]), ARGV[3]
local rules = redis.call('SMISMEMBER', base .. ':rules', 'paused:' .. queue, 'limited:' .. queue,
  'urgent:' .. queue)
if rules[1] == 1 then return { 0, 0, 0, {}, {} } end
-- For those who ask why a job does not come. Anybody can ask for any name, so only those with jobs are noted.
if queue == '' or redis.call('SISMEMBER', base .. ':queues', queue) == 1 then
  redis.call('HSET', base .. ':asked', queue, text(now))
end
-- A request that was held up on the way finds its permits with others. Jobs are held as long as they are.
local permits_end = tonumber(ARGV[4])
if most > 0 and rules[2] == 1 and permits_end <= now then return { -1, 0, 0, {}, {} } end
local held_key = key_of('held', queue)
-- Notes that the inbox waits. One that waits asks all partitions each 15 s, and finds nothing then.
local function wait(found_nothing)
  local waiters = key_of('waiters', queue)
  redis.call('SADD', waiters, ARGV[6])
  if found_nothing then redis.call('EXPIRE', waiters, 60) end
end
if most == 0 then
  local left, waiting, keys = 0, {}, ready_keys(queue, rules[3])
  for priority = 0, 9 do
    local key = keys[#keys - priority]
    waiting[priority + 1] = key and redis.call('ZCARD', key) or 0
  end
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', held_key, '-inf', now, 'LIMIT', 0, 1000)) do
    local priority = priority_of(id)
    waiting[priority + 1] = waiting[priority + 1] + 1
  end
  for _, count in ipairs(waiting) do left = left + count end
  if left == 0 then wait(true) end
  return { left, 0, 0, {}, waiting }
end
-- Takes at most so many jobs, the highest priority first. Returns ids, each followed by its score.
local function pop_first(keys, count)
  local items = {}
  for _, key in ipairs(keys) do
    if #items >= 2 * count then break end
    local popped = redis.call('ZPOPMIN', key, count - #items / 2)
    for i = 1, #popped do items[#items + 1] = popped[i] end
  end
  return items
end
-- Takes the most urgent jobs. Of ten jobs that are taken while several priorities wait, one is the job that has
-- waited for the longest time, so that none starves.
local function pop(keys)
  if #keys == 1 then return redis.call('ZPOPMIN', keys[1], most) end
  if redis.call('EXISTS', unpack(keys)) < 2 then return pop_first(keys, most) end
  local items, turn_key = {}, key_of('turn', queue)
  local turn = tonumber(redis.call('GET', turn_key) or 0)
  while #items < 2 * most do
    local popped
    if turn < 9 then
      popped = pop_first(keys, math.min(most - #items / 2, 9 - turn))
      turn = turn + #popped / 2
    else
      local longest, since
      for _, key in ipairs(keys) do
        local first = tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
        -- Of those that fired together it is the most urgent one.
        if first and (not since or math.floor(first) < since) then longest, since = key, math.floor(first) end
      end
      popped, turn = longest and redis.call('ZPOPMIN', longest) or {}, 0
    end
    if #popped == 0 then break end
    for i = 1, #popped do items[#items + 1] = popped[i] end
  end
  redis.call('SET', turn_key, turn, 'EX', 3600)
  return items
end
local orphans, died = 0, 0
-- No hold ends before this moment.
local first_end = tonumber(redis.call('ZSCORE', base .. ':holds', queue))
local has_ended = first_end and first_end <= now
for _, id in ipairs(has_ended and redis.call('ZRANGEBYSCORE', held_key, '-inf', now, 'LIMIT', 0, most) or {}) do
  local what = end_hold(id, queue, held_key, now)
  if what == 'orphan' then orphans = orphans + 1 elseif what == 'died' then died = died + 1 end
end
local keys = ready_keys(queue, has_ended and 1 or rules[3])
local items = pop(keys)
local taken, held = {}, {}
local by = text(now) .. ' ' .. ARGV[5]
local till = text(permits_end > now and permits_end or now + tonumber(ARGV[2]))
for i = 1, #items, 2 do
  local id, fired = items[i], math.floor(items[i + 1])
  local key = base .. ':job:' .. id
  local job = redis.call('HMGET', key, 'attempt', 'spent', 'policy', 'payload', 'schedule', 'trace', 'expires', 'due')
  local payload = job[4] or long_payload(id)
  local attempt = (job[1] or 0) + 1
  if attempt > 1 then redis.call('ZREM', key_of('retry', queue), id) end
  if job[7] and tonumber(job[7]) <= now then
    bury(id, 'expired before a consumer took it', now)
    died = died + 1
  elseif payload and job[3] then
    redis.call('HSET', key, 'attempt', attempt, 'fired', fired, 'by', by)
    held[#held + 1], held[#held + 2] = till, id
    taken[#taken + 1] = { id, attempt, tonumber(job[2] or 0), job[3], tonumber(job[8]), fired, payload, job[5], job[6] }
  else
    orphans = orphans + 1
  end
end
if #held > 0 then
  redis.call('ZADD', held_key, unpack(held))
  if not first_end or tonumber(till) < first_end then note_hold(queue, till) end
end
-- Fewer than were asked for are all.
local left = #items < 2 * most and 0 or redis.call('EXISTS', unpack(keys))
if has_ended then left = left + redis.call('ZCOUNT', held_key, '-inf', now) end
if left == 0 then wait(#items == 0) end
return { left, orphans, died, taken, {} }
