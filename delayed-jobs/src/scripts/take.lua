-- Hands jobs to a consumer, which has to end each of them in time. Whatever was not ended in time comes
-- first: it is ready again, or dead if its attempts are used up.
-- ARGV most jobs (with 0 it only counts), ms for which the consumer holds them, queue, moment at which the caller's permits for so many end, or 0
-- Returns {jobs that are still ready or whose hold has ended (-1 if the queue is limited and the caller has no permits), jobs without a record, jobs that died, {for each job:
--   {id, attempt, attempts before the last requeue, policy, due, fired, payload, schedule} ...}}
local now = math.floor(now_us() / 1000)
local most, queue = tonumber(ARGV[1]), ARGV[3]
local rules = redis.call('SMISMEMBER', base .. ':rules', 'paused:' .. queue, 'limited:' .. queue)
if rules[1] == 1 then return { 0, 0, 0, {} } end
-- A request that was held up on the way finds its permits with others. Jobs are held as long as they are.
local permits_end = tonumber(ARGV[4])
if most > 0 and rules[2] == 1 and permits_end <= now then return { -1, 0, 0, {} } end
local ready_key, held_key = key_of('ready', queue), key_of('held', queue)
local orphans, died = 0, 0
for _, id in ipairs(redis.call('ZRANGEBYSCORE', held_key, '-inf', now, 'LIMIT', 0, most)) do
  local job = redis.call('HMGET', base .. ':job:' .. id, 'attempt', 'spent', 'policy', 'due', 'fired')
  if not job[4] then
    orphans = orphans + 1
  elseif job[1] - (job[2] or 0) >= tonumber(string.match(job[3], '^%d+')) then
    bury(id, 'not acknowledged in time', now)
    died = died + 1
  else
    redis.call('RPUSH', ready_key, id .. ' ' .. job[4] .. ' ' .. job[5])
  end
  redis.call('ZREM', held_key, id)
end
local items = redis.call('LPOP', ready_key, most) or {}
local taken, held = {}, {}
local till = text(permits_end > now and permits_end or now + tonumber(ARGV[2]))
for _, item in ipairs(items) do
  local id, due, fired = string.match(item, '^(%S+) (%S+) (%S+)$')
  local key = base .. ':job:' .. id
  local job = redis.call('HMGET', key, 'attempt', 'spent', 'policy', 'payload', 'schedule')
  local payload = job[4] or long_payload(id)
  if payload and job[3] then
    local attempt = (job[1] or 0) + 1
    redis.call('HSET', key, 'attempt', attempt, 'fired', fired)
    held[#held + 1], held[#held + 2] = till, id
    taken[#taken + 1] = { id, attempt, tonumber(job[2] or 0), job[3], tonumber(due), tonumber(fired),
      payload, job[5] }
  else
    orphans = orphans + 1
  end
end
if #held > 0 then redis.call('ZADD', held_key, unpack(held)) end
local left = redis.call('LLEN', ready_key) + redis.call('ZCOUNT', held_key, '-inf', now)
return { left, orphans, died, taken }
