-- Cancels a pending job; says what it is otherwise. Repeating it changes nothing.
-- ARGV id, retention in ms
local id = ARGV[1]
local key = base .. ':job:' .. id
local job = redis.call('HMGET', key, 'state', 'due', 'once', 'payload')
if not job[2] then return { 'unknown', 0 } end
if redis.call('ZREM', key_of('due', queue_of(id)), id) == 1 then
  note_head(queue_of(id))
  redis.call('ZREM', key_of('retry', queue_of(id)), id)
  retire(id, key, job[3], job[4], 'cancelled', ARGV[2])
  job[1] = 'cancelled'
end
return { job[1] or 'fired', tonumber(job[2]) }
