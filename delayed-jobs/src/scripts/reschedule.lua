-- Moves the deadline of a job that is pending or waits for a consumer; a repetition with the same idempotency key changes
-- nothing.
-- ARGV id, due ("" if a delay is given), delay in ms, idempotency key
local id, due, delay, once = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local key = base .. ':job:' .. id
local job = redis.call('HMGET', key, 'state', 'due', 'moved', 'expires', 'attempt')
if not job[2] then return { 'unknown', 0 } end
-- First, because the job may have fired since. If it was cancelled, it does not fire as the move said.
if once ~= '' and job[3] == once and job[1] ~= 'cancelled' then return { 'pending', tonumber(job[2]) } end
local queue = queue_of(id)
local is_back = redis.call('ZREM', ready_key(queue, priority_of(id)), id) == 1
if not is_back and not redis.call('ZSCORE', key_of('due', queue), id) then
  return { job[1] or 'running', tonumber(job[2]) }
end
local now = math.ceil(now_us() / 1000)
due = due == '' and now + tonumber(delay) or tonumber(due)
local at = text(due)
redis.call('HSET', key, 'due', at, 'moved', once)
if job[4] then redis.call('HSET', key, 'expires', text(job[4] - job[2] + due)) end
redis.call('ZADD', key_of('due', queue), at, id)
if is_back and job[5] then
  redis.call('ZADD', key_of('retry', queue), at, id)
else
  redis.call('ZADD', key_of('retry', queue), 'XX', at, id)
end
note_head(queue)
announce(at)
return { 'pending', due }
