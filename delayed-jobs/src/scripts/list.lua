-- Lists jobs of a partition by their moments.
-- ARGV kind: due, retry, ready, held or dead; queue, or "*" for all; first and last moment as ranges write them; 1 if the last
--   comes first; how many are passed over; most
-- Returns {id, moment ...}
local kind, from, to, backwards = ARGV[1], ARGV[3], ARGV[4], ARGV[5] == '1'
local skip, most = tonumber(ARGV[6]), tonumber(ARGV[7])
local queues, found = { ARGV[2] }, {}
if ARGV[2] == '*' then
  queues = redis.call('SMEMBERS', base .. ':queues')
  queues[#queues + 1] = ''
end
-- Like Redis: by moment, then by name.
local function comes_before(a, b)
  if backwards then a, b = b, a end
  if a[2] ~= b[2] then return a[2] < b[2] end
  return a[1] < b[1]
end
local keys = {}
for _, queue in ipairs(queues) do
  for _, key in ipairs(kind == 'ready' and ready_keys(queue) or { key_of(kind, queue) }) do keys[#keys + 1] = key end
end
for _, key in ipairs(keys) do
  local range = { 'ZRANGE', key, from, to, 'BYSCORE' }
  if backwards then range = { 'ZRANGE', key, to, from, 'BYSCORE', 'REV' } end
  for _, word in ipairs({ 'LIMIT', 0, skip + most, 'WITHSCORES' }) do range[#range + 1] = word end
  local members = redis.call(unpack(range))
  for i = 1, #members, 2 do found[#found + 1] = { members[i], tonumber(members[i + 1]) } end
  table.sort(found, comes_before)
  for i = #found, skip + most + 1, -1 do found[i] = nil end
  -- What comes after the last one is not asked for any more.
  if #found == skip + most then
    local edge = string.format('%.17g', found[#found][2])
    if backwards then from = edge else to = edge end
  end
end
local reply = {}
for i = skip + 1, #found do reply[#reply + 1] = { found[i][1], math.floor(found[i][2]) } end
return reply
