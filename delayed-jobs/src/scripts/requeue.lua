-- Gives dead jobs all their attempts again; they are due now.
-- ARGV the ids
-- Returns how many were dead
local at = text(math.ceil(now_us() / 1000))
local count = 0
for _, id in ipairs(ARGV) do
  if redis.call('ZREM', key_of('dead', queue_of(id)), id) == 1 then
    local key = base .. ':job:' .. id
    -- The count goes on, so that no receipt of an earlier attempt fits a later one.
    redis.call('HSET', key, 'due', at, 'spent', redis.call('HGET', key, 'attempt') or 0)
    redis.call('HDEL', key, 'state', 'expires')
    plan(queue_of(id), at, at, id)
    count = count + 1
  end
end
if count > 0 then announce(at) end
return count
