-- Prolongs a lease. Returns {held, notices sent so far, now in us}
-- KEYS[1] base  ARGV lease, lease in ms
local base = KEYS[1]
local held = 0
if redis.call('GET', base .. ':lease') == ARGV[1] then
  redis.call('PEXPIRE', base .. ':lease', ARGV[2])
  held = 1
end
local time = redis.call('TIME')
return { held, tonumber(redis.call('GET', base .. ':seq') or 0), time[1] * 1000000 + time[2] }
