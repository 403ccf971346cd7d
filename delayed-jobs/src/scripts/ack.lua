-- Ends jobs that a consumer holds.
-- ARGV retention in ms, then id and attempt of each job
-- Returns for each job 1, or 0 if this attempt does not hold it any more
local reply = {}
for i = 2, #ARGV, 2 do
  local id = ARGV[i]
  local key = base .. ':job:' .. id
  local job = redis.call('HMGET', key, 'attempt', 'once', 'payload')
  local ended = job[1] == ARGV[i + 1] and redis.call('ZREM', key_of('held', queue_of(id)), id) == 1
  if ended then retire(id, key, job[2], job[3], 'done', ARGV[1]) end
  reply[#reply + 1] = ended and 1 or 0
end
return reply
