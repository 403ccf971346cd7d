-- Goes on to the next occurrence of a schedule, unless another node has done so: nothing is doubled,
-- whichever nodes ask and however often.
-- ARGV name, moment of the occurrence that has passed, next moment, id of its job, end of the window in ms
-- Returns 1, or 0 if the schedule has another moment by now
local next = redis.call('ZSCORE', base .. ':schedules', ARGV[1])
if not next or tonumber(next) ~= tonumber(ARGV[2]) then return 0 end
add_occurrence(ARGV[1], ARGV[4], ARGV[3], tonumber(ARGV[5]))
return 1
