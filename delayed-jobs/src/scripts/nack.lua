-- Gives failed jobs back: each is due again after its backoff, or dead if its attempts are used up.
-- ARGV delay in ms instead of the backoff or "", 1 if they are dead at once, reason, a random number, then id and
--   attempt of each job
-- Returns for each job the moment of its next attempt, -1 if it is dead, or -2 if this attempt does not
--   hold it any more
local now = math.floor(now_us() / 1000)
local delay, kill, reason = tonumber(ARGV[1]), ARGV[2] == '1', ARGV[3]
local soonest = math.huge
-- A server may begin every script with the same random numbers, so the caller gives the seed.
math.randomseed(tonumber(ARGV[4]))
local reply = {}
for i = 5, #ARGV, 2 do
  local id, attempt = ARGV[i], ARGV[i + 1]
  local key = base .. ':job:' .. id
  local job = redis.call('HMGET', key, 'attempt', 'spent', 'policy')
  if job[1] ~= attempt or redis.call('ZREM', key_of('held', queue_of(id)), id) == 0 then
    reply[#reply + 1] = -2
  else
    local most, first, factor, longest, jitter =
      string.match(job[3], '^(%S+) (%S+) (%S+) (%S+) (%S+)$')
    local made = attempt - (job[2] or 0)
    if kill or made >= tonumber(most) then
      bury(id, reason, now)
      reply[#reply + 1] = -1
    else
      local wait = delay
      if not wait then
        -- The power may be infinite, and 0 times that is no number.
        longest = tonumber(longest)
        wait = math.min(first * math.min(factor ^ (made - 1), longest), longest)
        wait = wait * (1 + jitter * (2 * math.random() - 1))
      end
      local due = now + math.ceil(wait)
      local at = text(due)
      redis.call('HSET', key, 'due', at, 'reason', reason)
      plan(queue_of(id), at, at, id)
      -- Until the next attempt begins.
      redis.call('ZADD', key_of('retry', queue_of(id)), at, id)
      soonest = math.min(soonest, due)
      reply[#reply + 1] = due
    end
  end
end
if soonest < math.huge then announce(text(soonest)) end
return reply
