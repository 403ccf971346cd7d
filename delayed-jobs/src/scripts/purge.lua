-- Forgets dead jobs.
-- ARGV the ids
-- Returns how many were dead
local gone = 0
for _, id in ipairs(ARGV) do gone = gone + forget(id) end
return gone
