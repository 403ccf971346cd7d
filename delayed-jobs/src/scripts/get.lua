-- Reads a job.
-- ARGV id
-- Returns {state, due, created, fired, attempt, attempts before the last requeue, policy, reason, payload}
local key = base .. ':job:' .. ARGV[1]
local job = redis.call('HMGET', key, 'state', 'due', 'created', 'fired', 'attempt', 'spent', 'policy',
  'reason', 'payload')
if job[2] and not job[1] then
  job[1] = redis.call('ZSCORE', base .. ':due', ARGV[1]) and 'pending' or 'fired'
end
job[9] = job[9] or long_payload(ARGV[1])
return job
