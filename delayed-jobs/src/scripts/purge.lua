-- Forgets dead jobs.
-- ARGV the ids
-- Returns how many were dead
local gone = 0
for _, id in ipairs(ARGV) do
  if redis.call('ZREM', base .. ':dead', id) == 1 then
    local key = base .. ':job:' .. id
    local once = redis.call('HGET', key, 'once')
    if once and once ~= '' then redis.call('DEL', base .. ':once:' .. once) end
    redis.call('DEL', key)
    gone = gone + 1
  end
end
return gone
