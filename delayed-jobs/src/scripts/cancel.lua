-- Cancels jobs that have not ended: pending ones, those that wait for a consumer, and those that consumers hold. Each says
-- what it is otherwise. Repeating it changes nothing.
-- ARGV retention in ms, then the ids
-- Returns for each job {state, due, 1 if a consumer held it}
local reply = {}
for i = 2, #ARGV do
  local id = ARGV[i]
  local key, queue = base .. ':job:' .. id, queue_of(id)
  local job = redis.call('HMGET', key, 'state', 'due', 'once', 'payload', 'held')
  local state, held = job[1] or job[2] and 'waiting' or 'unknown', tonumber(job[5] or 0)
  if job[2] and not job[1] then
    local gone = redis.call('ZREM', key_of('due', queue), id)
    if gone == 1 then
      note_head(queue)
      redis.call('ZREM', key_of('retry', queue), id)
    else
      gone = redis.call('ZREM', ready_key(queue, priority_of(id)), id)
    end
    if gone == 0 then
      held = redis.call('ZREM', key_of('held', queue), id)
      gone = held
      -- A repetition is answered alike.
      if held == 1 then redis.call('HSET', key, 'held', 1) end
    end
    if gone == 1 then
      state = 'cancelled'
      retire(id, key, job[3], job[4], state, ARGV[1])
    end
  end
  reply[#reply + 1] = { state, tonumber(job[2] or 0), held }
end
return reply
