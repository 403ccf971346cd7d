-- Accepts jobs, each once per idempotency key.
-- ARGV most queues of a partition, birth of the namespace ("" if no job has a key), then for each job: id, payload,
--   due ("" if a delay is given), delay in ms, idempotency key, retry policy, ms after its due moment when it expires
--   ("" for never), trace context
-- Returns for each job: {'created', 'known' or 'conflict', id, due}, or {'crowded', queue, 0} if there are too
--   many queues already. Returns {{'lost', '', 0}} if the partition does not know the birth
if ARGV[2] ~= '' and not is_born(ARGV[2]) then return { { 'lost', '', 0 } } end
local now = math.ceil(now_us() / 1000)
local created, soonest = text(now), math.huge
local reply = {}
-- What each queue gets: its soonest moment, and all moments and ids; false if there is no room for the queue.
local added = {}
for i = 3, #ARGV, 8 do
  local id, payload, due, delay, once, policy, lasts, trace = unpack(ARGV, i, i + 7)
  local queue, known = queue_of(id), nil
  if added[queue] == nil then
    local queues = base .. ':queues'
    local is_one_more = queue ~= '' and redis.call('SISMEMBER', queues, queue) == 0 and
      redis.call('SCARD', queues) >= tonumber(ARGV[1])
    added[queue] = not is_one_more and { soonest = math.huge }
  end
  local entries = added[queue]
  if not entries then
    known = true
    reply[#reply + 1] = { 'crowded', queue, 0 }
  elseif once ~= '' then
    local key = base .. ':once:' .. once
    -- The same key with another request is a mistake of the caller's, not a repetition.
    local priority = priority_of(id)
    local print = redis.sha1hex(#payload .. ':' .. payload .. due .. ':' .. delay .. ':' .. policy ..
      (queue == '' and '' or ':' .. queue) .. (priority == 0 and '' or '!' .. priority) ..
      (lasts == '' and '' or '~' .. lasts))
    known = redis.call('HMGET', key, 'id', 'print')
    if not known[1] then
      known = nil
      redis.call('HSET', key, 'id', id, 'print', print)
    elseif known[2] ~= print then
      reply[#reply + 1] = { 'conflict', known[1], 0 }
    else
      local at = redis.call('HGET', base .. ':job:' .. known[1], 'due')
      reply[#reply + 1] = { 'known', known[1], tonumber(at or 0) }
    end
  end
  if not known then
    due = due == '' and now + tonumber(delay) or tonumber(due)
    local at = text(due)
    local fields = { 'due', at, 'created', created, 'once', once, 'policy', policy }
    if lasts ~= '' then fields[9], fields[10] = 'expires', text(due + tonumber(lasts)) end
    if trace ~= '' then fields[#fields + 1], fields[#fields + 2] = 'trace', trace end
    record(id, payload, unpack(fields))
    entries[#entries + 1], entries[#entries + 2] = at, id
    entries.soonest = math.min(entries.soonest, due)
    reply[#reply + 1] = { 'created', id, due }
  end
end
for queue, entries in pairs(added) do
  if entries and #entries > 0 then
    if queue ~= '' then redis.call('SADD', base .. ':queues', queue) end
    -- Behind another one of its queue a job is not the first of all.
    if plan(queue, text(entries.soonest), unpack(entries)) then soonest = math.min(soonest, entries.soonest) end
  end
end
if soonest < math.huge then announce(text(soonest)) end
return reply
