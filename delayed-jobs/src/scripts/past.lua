-- What all nodes have done in the last minutes.
-- KEYS[1] is the base of the nodes  ARGV length of a part in ms, how many parts
-- Returns {jobs fired, attempts failed, the most that a job was late in ms} of each part, the one under way being last.
local length, parts = tonumber(ARGV[1]), tonumber(ARGV[2])
local last, past = math.floor(now_us() / 1000 / length), {}
for part = last - parts + 1, last do
  local known = redis.call('HGET', base .. ':past', part) or '0 0 0'
  local fired, failed, late = string.match(known, '(%d+) (%d+) (%d+)')
  past[#past + 1] = { tonumber(fired), tonumber(failed), tonumber(late) }
end
return past
