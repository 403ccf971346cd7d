-- Moves the deadline of a pending job; a repetition with the same idempotency key changes nothing.
-- KEYS[1] base  ARGV id, due ("" if a delay is given), delay in ms, idempotency key, window in ms
local base, id, due, delay, once = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local key = base .. ':job:' .. id
local job = redis.call('HMGET', key, 'state', 'due', 'moved')
if not job[1] then return { 'unknown', 0 } end
if job[1] ~= 'pending' or (once ~= '' and job[3] == once) then
  return { job[1], tonumber(job[2]) }
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.ceil(time[2] / 1000)
due = due == '' and now + tonumber(delay) or tonumber(due)
local text = string.format('%.0f', due)
redis.call('HSET', key, 'due', text, 'moved', once)
redis.call('ZADD', base .. ':due', text, id)
if due <= now + tonumber(ARGV[5]) then
  local count = redis.call('INCR', base .. ':seq')
  redis.call('PUBLISH', base .. ':near', string.format('%.0f', count) .. ' ' .. text)
end
return { 'pending', due }
