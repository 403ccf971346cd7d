-- Makes the job of a schedule whose moment has passed, and plans the next moment, unless another node has done so: nothing
-- is doubled, whichever nodes ask and however often. While the schedule's last job still waits it makes none, if the
-- schedule says so.
-- ARGV name, moment that has passed, next moment, id of the job
-- Returns 1 if there is a new job, else 0
local name, at, id = ARGV[1], ARGV[2], ARGV[4]
local key, schedules = base .. ':schedule:' .. name, base .. ':schedules'
local planned = redis.call('ZSCORE', schedules, name)
if not planned or tonumber(planned) ~= tonumber(at) then return 0 end
redis.call('ZADD', schedules, ARGV[3], name)
local made = redis.call('HMGET', key, 'payload', 'policy', 'overlap', 'job')
if made[3] == 'skip' and made[4] then
  local last = redis.call('HMGET', base .. ':job:' .. made[4], 'due', 'state')
  if last[1] and not last[2] then return 0 end
end
record(id, made[1], 'due', at, 'created', text(math.ceil(now_us() / 1000)), 'policy', made[2], 'schedule', name)
redis.call('HSET', key, 'job', id)
if queue_of(id) ~= '' then redis.call('SADD', base .. ':queues', queue_of(id)) end
plan(queue_of(id), at, at, id)
return 1
