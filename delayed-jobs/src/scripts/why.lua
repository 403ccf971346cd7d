-- Says what a job that waits depends on.
-- ARGV id
-- Returns {now, jobs of its partition that wait for a consumer and may come before it, whether a node holds the partition,
--   whether the queue is paused, whether it is limited, moment at which a consumer last asked for the queue}
local queue, ahead = queue_of(ARGV[1]), 0
for priority = priority_of(ARGV[1]), 9 do ahead = ahead + redis.call('ZCARD', ready_key(queue, priority)) end
local rules = redis.call('SMISMEMBER', base .. ':rules', 'paused:' .. queue, 'limited:' .. queue)
return { math.floor(now_us() / 1000), math.max(0, ahead - 1), redis.call('EXISTS', base .. ':lease'), rules[1], rules[2],
  tonumber(redis.call('HGET', base .. ':asked', queue) or 0) }
