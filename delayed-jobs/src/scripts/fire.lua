-- Hands what is due to the consumers, if the caller still holds the partition. The clock that decides is
-- this server's, so no job is early however wrong a node's clock is.
-- KEYS[1] base  ARGV lease as it was granted, most jobs per call
-- Returns {-1} if fenced, else {now in us, next due or -1, jobs without a record, lateness in ms ...}
local base = KEYS[1]
if redis.call('GET', base .. ':lease') ~= ARGV[1] then return { -1 } end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = math.floor(now / 1000)
local most = tonumber(ARGV[2])
local due = redis.call('ZRANGEBYSCORE', base .. ':due', '-inf', now_ms, 'WITHSCORES', 'LIMIT', 0, most)
local reply, gone, orphans = { now, -1, 0 }, {}, 0
local fired = string.format('%.0f', now_ms)
for i = 1, #due, 2 do
  local id, at = due[i], due[i + 1]
  local key = base .. ':job:' .. id
  local payload = redis.call('HGET', key, 'payload')
  if payload then
    redis.call('XADD', base .. ':stream', '*', 'id', id, 'due', at, 'fired', fired, 'payload', payload)
    redis.call('HSET', key, 'state', 'fired', 'fired', fired)
    reply[#reply + 1] = now_ms - tonumber(at)
  else
    orphans = orphans + 1
  end
  gone[#gone + 1] = id
end
if #gone > 0 then redis.call('ZREM', base .. ':due', unpack(gone)) end
local next = redis.call('ZRANGE', base .. ':due', 0, 0, 'WITHSCORES')
if next[2] then reply[2] = tonumber(next[2]) end
reply[3] = orphans
return reply
