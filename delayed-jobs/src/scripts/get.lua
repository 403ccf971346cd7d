-- Reads a job.
-- ARGV id
-- Returns its record as names and values, with its state and payload, and the moment at which its hold ends or at which
--   it died
local id = ARGV[1]
local queue = queue_of(id)
local job = redis.call('HGETALL', base .. ':job:' .. id)
if #job == 0 then return job end
local function add(name, value)
  if value then job[#job + 1], job[#job + 2] = name, value end
end
local state = redis.call('HGET', base .. ':job:' .. id, 'state')
if not state then
  local held_until = redis.call('ZSCORE', key_of('held', queue), id)
  add('state', held_until and 'running' or redis.call('ZSCORE', key_of('due', queue), id) and 'pending' or 'waiting')
  add('held_until', held_until)
end
add('died', redis.call('ZSCORE', key_of('dead', queue), id))
add('payload', long_payload(id))
return job
