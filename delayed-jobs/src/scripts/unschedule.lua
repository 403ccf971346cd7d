-- Ends a schedule. Jobs that it has made stay.
-- ARGV name, its moment ("" for any)
-- Returns 1, or 0 if there is none, or none with this moment
local at = redis.call('ZSCORE', base .. ':schedules', ARGV[1])
if ARGV[2] ~= '' and (not at or tonumber(at) ~= tonumber(ARGV[2])) then return 0 end
redis.call('ZREM', base .. ':schedules', ARGV[1])
return redis.call('DEL', base .. ':schedule:' .. ARGV[1])
