-- Takes a free partition. Every grant has a higher token than all before it.
-- ARGV node, lease in ms
-- Returns {lease, 0} or {false, ms that the present lease lasts}
local left = redis.call('PTTL', base .. ':lease')
if left > 0 then return { false, left } end
local token = redis.call('INCR', base .. ':token')
local lease = text(token) .. '@' .. ARGV[1]
redis.call('SET', base .. ':lease', lease, 'PX', ARGV[2])
return { lease, 0 }
