-- Prolongs a lease. Returns {held, notices sent so far, now in us}
-- ARGV lease, lease in ms
local held = 0
if redis.call('GET', base .. ':lease') == ARGV[1] then
  redis.call('PEXPIRE', base .. ':lease', ARGV[2])
  held = 1
end
return { held, tonumber(redis.call('GET', base .. ':seq') or 0), now_us() }
