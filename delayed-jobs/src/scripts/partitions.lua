-- Notes how many partitions a new namespace has, or adds some to one that has fewer. Keys keep to those it began with.
-- KEYS[1] is its settings.
-- ARGV partitions wanted, what a namespace that has fewer gets: 0 nothing, 1 rules for so many, 2 the partitions
-- Returns how many there are now, and how many of them keys lead to
local wanted, step = tonumber(ARGV[1]), ARGV[2]
local noted = tonumber(redis.call('HGET', base, 'partitions') or wanted)
local count = step == '2' and math.max(noted, wanted) or noted
-- Nothing is written if it is there, so a node comes up on a full Redis.
if redis.call('HEXISTS', base, 'key_partitions') == 0 then
  redis.call('HSET', base, 'partitions', count, 'key_partitions', noted)
elseif count > noted then
  redis.call('HSET', base, 'partitions', count)
end
if step == '1' and wanted > tonumber(redis.call('HGET', base, 'rule_partitions') or noted) then
  redis.call('HSET', base, 'rule_partitions', wanted)
end
return { count, tonumber(redis.call('HGET', base, 'key_partitions')) }
