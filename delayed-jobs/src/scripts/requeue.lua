-- Gives dead jobs all their attempts again; they are due now.
-- ARGV the ids
-- Returns how many were dead
local at = text(math.ceil(now_us() / 1000))
local entries = {}
for _, id in ipairs(ARGV) do
  if redis.call('ZREM', base .. ':dead', id) == 1 then
    local key = base .. ':job:' .. id
    -- The count goes on, so that no receipt of an earlier attempt fits a later one.
    redis.call('HSET', key, 'due', at, 'spent', redis.call('HGET', key, 'attempt') or 0)
    redis.call('HDEL', key, 'state')
    entries[#entries + 1], entries[#entries + 2] = at, id
    count_pending(queue_of(id), 1)
  end
end
if #entries > 0 then
  redis.call('ZADD', base .. ':due', unpack(entries))
  announce(at)
end
return #entries / 2
