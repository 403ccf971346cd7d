-- Accepts jobs, each once per idempotency key.
-- ARGV window in ms, then for each job: id, payload, due ("" if a delay is given), delay in ms,
--   idempotency key, retry policy
-- Returns for each job: {'created', 'known' or 'conflict', id, due}
local now = math.ceil(now_us() / 1000)
local horizon, created = now + tonumber(ARGV[1]), text(now)
local reply, entries, near = {}, {}, {}
for i = 2, #ARGV, 6 do
  local id, payload, due, delay, once, policy = unpack(ARGV, i, i + 5)
  local known
  if once ~= '' then
    local key = base .. ':once:' .. once
    -- The same key with another request is a mistake of the caller's, not a repetition.
    local print = redis.sha1hex(#payload .. ':' .. payload .. due .. ':' .. delay .. ':' .. policy)
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
    redis.call('HSET', base .. ':job:' .. id, 'payload', payload, 'due', at, 'created', created,
      'once', once, 'policy', policy)
    entries[#entries + 1], entries[#entries + 2] = at, id
    if due <= horizon and near[#near] ~= at then near[#near + 1] = at end
    reply[#reply + 1] = { 'created', id, due }
  end
end
if #entries > 0 then redis.call('ZADD', base .. ':due', unpack(entries)) end
announce(near)
return reply
