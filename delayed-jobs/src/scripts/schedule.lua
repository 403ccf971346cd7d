-- Sets a recurring schedule up, or changes it. The same one again changes nothing.
-- ARGV name, recurrence, payload, retry policy, first moment, id of its first job, end of the window in ms,
--   queue, birth of the namespace, priority
-- Returns {'created', 'changed' or 'known', next moment}, or {'lost', 0} if the partition does not know the birth
if not is_born(ARGV[9]) then return { 'lost', 0 } end
local name = ARGV[1]
local key = base .. ':schedule:' .. name
local known = redis.call('HMGET', key, 'recurrence', 'payload', 'policy', 'queue', 'priority')
local next = redis.call('ZSCORE', base .. ':schedules', name)
if next and known[1] == ARGV[2] and known[2] == ARGV[3] and known[3] == ARGV[4]
  and (known[4] or '') == ARGV[8] and (known[5] or '0') == ARGV[10] then
  return { 'known', tonumber(next) }
end
drop_occurrence(name)
redis.call('HSET', key, 'recurrence', ARGV[2], 'payload', ARGV[3], 'policy', ARGV[4], 'queue', ARGV[8],
  'priority', ARGV[10])
add_occurrence(name, ARGV[6], ARGV[5], tonumber(ARGV[7]))
return { known[1] and 'changed' or 'created', tonumber(ARGV[5]) }
