-- Gives a partition back, if it is still held.
-- ARGV lease
local key = base .. ':lease'
if redis.call('GET', key) == ARGV[1] then return redis.call('DEL', key) end
return 0
