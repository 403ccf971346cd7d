-- Notes how many partitions a new namespace has, or adds some to one that has fewer. Keys keep to those it began with.
-- KEYS[1] is its settings.
-- ARGV partitions wanted, 1 if a namespace that has fewer gets them
-- Returns how many there are now, and how many of them keys lead to
local noted = tonumber(redis.call('HGET', base, 'partitions') or ARGV[1])
local count = ARGV[2] == '1' and math.max(noted, tonumber(ARGV[1])) or noted
-- Nothing is written if it is there, so a node comes up on a full Redis.
if redis.call('HEXISTS', base, 'key_partitions') == 0 then
  redis.call('HSET', base, 'partitions', count, 'key_partitions', noted)
elseif count > noted then
  redis.call('HSET', base, 'partitions', count)
end
return { count, tonumber(redis.call('HGET', base, 'key_partitions')) }
