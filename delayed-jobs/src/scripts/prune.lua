-- Forgets the oldest dead jobs: those that died too long ago, and those that are too many.
-- ARGV ms for which they are kept or "", how many are kept or "", most per call
-- Returns how many are forgotten
local dead, gone = base .. ':dead', 0
local function forget_all(ids)
  for _, id in ipairs(ids) do gone = gone + forget(id) end
end
if ARGV[1] ~= '' then
  local last = math.floor(now_us() / 1000) - tonumber(ARGV[1])
  forget_all(redis.call('ZRANGEBYSCORE', dead, '-inf', text(last), 'LIMIT', 0, ARGV[3]))
end
if ARGV[2] ~= '' then
  local more = math.min(redis.call('ZCARD', dead) - tonumber(ARGV[2]), tonumber(ARGV[3]))
  if more > 0 then forget_all(redis.call('ZRANGE', dead, 0, more - 1)) end
end
return gone
