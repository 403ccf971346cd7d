-- Reads the moments at which something is due, from `after` on (exclusive) to the end of the window.
-- ARGV after ("-inf" or "(ms"), window in ms, most jobs per call
-- Returns {now in us, notices sent so far, read up to (ms), 1 if there is more, {moment in ms ...}}
local now = now_us()
local horizon = math.ceil(now / 1000) + tonumber(ARGV[2])
local most = tonumber(ARGV[3])
local found = redis.call('ZRANGEBYSCORE', base .. ':due', ARGV[1], horizon, 'WITHSCORES', 'LIMIT', 0, most)
local sent = tonumber(redis.call('GET', base .. ':seq') or 0)
local moments, up_to, more, last = {}, horizon, 0, nil
-- When it fires, the moment of the schedule after this one is told.
local schedule = tonumber(redis.call('ZRANGE', base .. ':schedules', 0, 0, 'WITHSCORES')[2])
if schedule and schedule <= horizon then moments[1] = schedule end
for i = 2, #found, 2 do
  if found[i] ~= last then
    last = found[i]
    moments[#moments + 1] = tonumber(last)
  end
end
if #found == 2 * most then
  -- What else is due at the last moment needs no further entry, so the next page begins after it.
  up_to, more = tonumber(last), 1
end
-- Notices begin there.
redis.call('SET', base .. ':read', text(up_to))
return { now, sent, up_to, more, moments }
