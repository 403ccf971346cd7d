-- Ends delivered jobs. Counts those that were still to be acknowledged.
-- KEYS[1] base  ARGV group, retention in ms, then stream entry and id of each job
local base, group, retention = KEYS[1], ARGV[1], ARGV[2]
local ended = 0
for i = 3, #ARGV, 2 do
  local entry, id = ARGV[i], ARGV[i + 1]
  if redis.call('XACK', base .. ':stream', group, entry) == 1 then
    redis.call('XDEL', base .. ':stream', entry)
    local key = base .. ':job:' .. id
    local once = redis.call('HGET', key, 'once')
    if once then
      redis.call('HSET', key, 'state', 'done')
      redis.call('PEXPIRE', key, retention)
      if once ~= '' then redis.call('PEXPIRE', base .. ':once:' .. once, retention) end
    end
    ended = ended + 1
  end
end
return ended
