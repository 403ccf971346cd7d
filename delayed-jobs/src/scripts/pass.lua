-- Tells another inbox of jobs of a queue, in place of one where nobody waits any more.
-- ARGV queue
for _, key in ipairs(ready_keys(ARGV[1])) do
  if redis.call('EXISTS', key) == 1 then
    tell(ARGV[1], 1, math.floor(now_us() / 1000))
    break
  end
end
return 0
