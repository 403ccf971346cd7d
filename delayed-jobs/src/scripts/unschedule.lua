-- Ends a schedule, and forgets its job that is still pending.
-- ARGV name
-- Returns 1, or 0 if there is none
drop_occurrence(ARGV[1])
redis.call('ZREM', base .. ':schedules', ARGV[1])
return redis.call('DEL', base .. ':schedule:' .. ARGV[1])
