-- Accepts a job, once per idempotency key.
-- KEYS[1] base  ARGV id, payload, due ("" if a delay is given), delay in ms, idempotency key, window in ms
local base = KEYS[1]
local id, payload, due, delay, once = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.ceil(time[2] / 1000)
if once ~= '' then
  local key = base .. ':once:' .. once
  -- The same key with another request is a mistake of the caller's, not a repetition.
  local print = redis.sha1hex(#payload .. ':' .. payload .. due .. ':' .. delay)
  local known = redis.call('HMGET', key, 'id', 'print')
  if known[1] then
    if known[2] ~= print then return { 'conflict', known[1], 0 } end
    local at = redis.call('HGET', base .. ':job:' .. known[1], 'due')
    return { 'known', known[1], tonumber(at or 0) }
  end
  redis.call('HSET', key, 'id', id, 'print', print)
end
due = due == '' and now + tonumber(delay) or tonumber(due)
local text = string.format('%.0f', due)
redis.call('HSET', base .. ':job:' .. id, 'payload', payload, 'due', text, 'state', 'pending',
  'created', string.format('%.0f', now), 'once', once)
redis.call('ZADD', base .. ':due', text, id)
if due <= now + tonumber(ARGV[6]) then
  local count = redis.call('INCR', base .. ':seq')
  redis.call('PUBLISH', base .. ':near', string.format('%.0f', count) .. ' ' .. text)
end
return { 'created', id, due }
