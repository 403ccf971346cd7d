-- Lets a consumer hold jobs for longer. A hold that has ended stays so, because its permit may be another job's by now.
-- ARGV ms from now, then id and attempt of each job
-- Returns for each job 1, 0 if this attempt does not hold it any more, or -1 if that is because the job was cancelled
local now = math.floor(now_us() / 1000)
local till = text(now + tonumber(ARGV[1]))
local reply = {}
for i = 2, #ARGV, 2 do
  local id = ARGV[i]
  local job = redis.call('HMGET', base .. ':job:' .. id, 'attempt', 'state')
  local own = job[1] == ARGV[i + 1] and
    tonumber(redis.call('ZSCORE', key_of('held', queue_of(id)), id) or 0) > now
  if own then
    redis.call('ZADD', key_of('held', queue_of(id)), till, id)
    note_hold(queue_of(id), till)
  end
  reply[#reply + 1] = own and 1 or job[1] == ARGV[i + 1] and job[2] == 'cancelled' and -1 or 0
end
return reply
