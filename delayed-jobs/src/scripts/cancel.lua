-- Cancels a pending job; says what it is otherwise. Repeating it changes nothing.
-- KEYS[1] base  ARGV id, retention in ms
local base, id = KEYS[1], ARGV[1]
local key = base .. ':job:' .. id
local job = redis.call('HMGET', key, 'state', 'due', 'once')
if not job[1] then return { 'unknown', 0 } end
if job[1] == 'pending' then
  redis.call('ZREM', base .. ':due', id)
  redis.call('HSET', key, 'state', 'cancelled')
  redis.call('PEXPIRE', key, ARGV[2])
  if job[3] ~= '' then redis.call('PEXPIRE', base .. ':once:' .. job[3], ARGV[2]) end
  job[1] = 'cancelled'
end
return { job[1], tonumber(job[2]) }
