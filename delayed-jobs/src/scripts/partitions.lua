-- Notes how many partitions a new namespace has, or adds some to one that has fewer. Keys keep to those it began with.
-- KEYS[1] is its settings.
-- ARGV partitions wanted, what a namespace that has fewer gets: 0 nothing, 1 rules for so many, 2 the partitions;
--   partitions that keys of a new one lead to, its birth
-- Returns how many there are now, how many of them keys lead to, and the birth
local wanted, step = tonumber(ARGV[1]), ARGV[2]
local found = redis.call('HMGET', base, 'partitions', 'key_partitions', 'birth')
local noted = tonumber(found[1] or wanted)
local count = step == '2' and math.max(noted, wanted) or noted
local keys, birth = tonumber(found[2] or found[1] or ARGV[3]), found[3] or ARGV[4]
-- Nothing is written if it is there, so a node comes up on a full Redis.
if not found[2] then redis.call('HSET', base, 'key_partitions', keys) end
if not found[3] then redis.call('HSET', base, 'birth', birth) end
if not found[1] or count > noted then redis.call('HSET', base, 'partitions', count) end
if step == '1' and wanted > tonumber(redis.call('HGET', base, 'rule_partitions') or noted) then
  redis.call('HSET', base, 'rule_partitions', wanted)
end
return { count, keys, birth }
