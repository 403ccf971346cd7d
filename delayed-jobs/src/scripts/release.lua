-- Gives a partition back, if it is still held.
-- KEYS[1] base  ARGV lease
local key = KEYS[1] .. ':lease'
if redis.call('GET', key) == ARGV[1] then return redis.call('DEL', key) end
return 0
