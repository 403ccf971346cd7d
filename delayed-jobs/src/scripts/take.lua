-- Hands jobs to a consumer, which has to end each of them in time. Whatever was not ended in time comes
-- first: it is ready again, or dead if its attempts are used up.
-- ARGV most jobs, ms for which the consumer holds them
-- Returns {jobs that are still ready, jobs without a record, jobs that died, {for each job:
--   {id, attempt, attempts before the last requeue, policy, due, fired, payload, schedule} ...}}
local now = math.floor(now_us() / 1000)
local most = tonumber(ARGV[1])
local orphans, died = 0, 0
for _, id in ipairs(redis.call('ZRANGEBYSCORE', base .. ':held', '-inf', now, 'LIMIT', 0, most)) do
  local job = redis.call('HMGET', base .. ':job:' .. id, 'attempt', 'spent', 'policy', 'due', 'fired')
  if not job[4] then
    orphans = orphans + 1
  elseif job[1] - (job[2] or 0) >= tonumber(string.match(job[3], '^%d+')) then
    bury(id, 'not acknowledged in time', now)
    died = died + 1
  else
    redis.call('RPUSH', base .. ':ready', id .. ' ' .. job[4] .. ' ' .. job[5])
  end
  redis.call('ZREM', base .. ':held', id)
end
local items = redis.call('LPOP', base .. ':ready', most) or {}
local taken, held, till = {}, {}, text(now + tonumber(ARGV[2]))
for _, item in ipairs(items) do
  local id, due, fired = string.match(item, '^(%S+) (%S+) (%S+)$')
  local key = base .. ':job:' .. id
  local job = redis.call('HMGET', key, 'attempt', 'spent', 'policy', 'payload', 'schedule')
  if job[4] then
    local attempt = (job[1] or 0) + 1
    redis.call('HSET', key, 'attempt', attempt, 'fired', fired)
    held[#held + 1], held[#held + 2] = till, id
    taken[#taken + 1] = { id, attempt, tonumber(job[2] or 0), job[3], tonumber(due), tonumber(fired),
      job[4], job[5] }
  else
    orphans = orphans + 1
  end
end
if #held > 0 then redis.call('ZADD', base .. ':held', unpack(held)) end
return { redis.call('LLEN', base .. ':ready'), orphans, died, taken }
