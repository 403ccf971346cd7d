-- Cancels a pending job; says what it is otherwise. Repeating it changes nothing.
-- ARGV id, retention in ms
local id = ARGV[1]
local key = base .. ':job:' .. id
local job = read(key)
local due, state = tonumber(job[1] or ''), job[9] or 'fired'
if not due then return { 'unknown', 0 } end
if redis.call('ZREM', base .. ':due', id) == 1 then
  count_pending(queue_of(id), -1)
  state = 'cancelled'
  retire(key, job, state, ARGV[2])
end
return { state, due }
