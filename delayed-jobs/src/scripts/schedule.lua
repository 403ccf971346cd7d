-- Sets a recurring schedule up, or changes it. The same one again changes nothing.
-- ARGV name, recurrence, payload, retry policy, first moment from now on, queue, birth of the namespace, priority,
--   overlap
-- Returns {'created', 'changed' or 'known', next moment}, or {'lost', 0} if the partition does not know the birth
if not is_born(ARGV[7]) then return { 'lost', 0 } end
local name, next = ARGV[1], tonumber(ARGV[5])
local key, schedules = base .. ':schedule:' .. name, base .. ':schedules'
local known = redis.call('HMGET', key, 'recurrence', 'payload', 'policy', 'queue', 'priority', 'overlap')
local planned = redis.call('ZSCORE', schedules, name)
local has_times = planned and known[1] == ARGV[2]
-- One that is later than the first moment from now on was planned while this server's clock was ahead.
if has_times then next = math.min(next, tonumber(planned)) end
redis.call('ZADD', schedules, text(next), name)
announce(text(next))
if has_times and known[2] == ARGV[3] and known[3] == ARGV[4] and known[4] == ARGV[6] and known[5] == ARGV[8]
  and known[6] == ARGV[9] then
  return { 'known', next }
end
redis.call('HSET', key, 'recurrence', ARGV[2], 'payload', ARGV[3], 'policy', ARGV[4], 'queue', ARGV[6],
  'priority', ARGV[8], 'overlap', ARGV[9])
return { known[1] and 'changed' or 'created', next }
