-- Takes a free partition. Every grant has a higher token than all before it.
-- ARGV node, lease in ms, birth of the namespace
-- Returns {lease, 0, 1 if the partition knows the birth, when its last lease was prolonged} or
--   {false, ms that the present lease lasts, 0, 0}
local left, term = redis.call('PTTL', base .. ':lease'), tonumber(redis.call('GET', base .. ':term') or 0)
if left > 0 then
  -- It lasts for longer than it was granted for, because this server's clock was set back.
  if left > term then
    left = term
    redis.call('PEXPIRE', base .. ':lease', term)
  end
  return { false, left, 0, 0 }
end
local token = redis.call('INCR', base .. ':token')
local lease = text(token) .. '@' .. ARGV[1]
redis.call('SET', base .. ':lease', lease, 'PX', ARGV[2])
redis.call('SET', base .. ':term', ARGV[2])
return { lease, 0, is_born(ARGV[3]) and 1 or 0, tonumber(redis.call('GET', base .. ':clock') or 0) }
