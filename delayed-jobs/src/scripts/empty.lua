-- Cancels jobs of a queue that wait for a consumer.
-- ARGV retention in ms, queue, most jobs
-- Returns how many
local count = 0
for _, set in ipairs(ready_keys(ARGV[2])) do
  local popped = redis.call('ZPOPMIN', set, ARGV[3] - count)
  for i = 1, #popped, 2 do
    local key = base .. ':job:' .. popped[i]
    local job = redis.call('HMGET', key, 'once', 'payload', 'due')
    if job[3] then retire(popped[i], key, job[1], job[2], 'cancelled', ARGV[1]) end
  end
  count = count + #popped / 2
end
return count
