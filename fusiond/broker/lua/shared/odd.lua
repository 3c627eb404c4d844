-- What fsck finds wrong with the keys of a queue. (needs queue, score)
local TYPES = {
  { 'queue', 'zset' }, { 'scheduled', 'zset' }, { 'started', 'zset' }, { 'finished', 'zset' }, { 'failed', 'zset' },
  { 'canceled', 'zset' }, { 'deferred', 'zset' }, { 'inbox', 'list' }, { 'broken', 'list' }, { 'conf', 'hash' },
  { 'seq', 'string' }, { 'ticks', 'hash' }, { 'leaving', 'hash' }, { 'arriving', 'hash' },
}
-- last_arrival(): the greatest that a ready job has; one look a priority is enough
local function last_arrival()
  local greatest, below = 0, '+inf'
  for _ = 0, 255 do
    local last = redis.pcall('ZREVRANGEBYSCORE', QUEUE, below, 0, 'WITHSCORES', 'LIMIT', 0, 1)
    if last.err or #last == 0 then break end
    local score = tonumber(last[2])
    if score < 256 * BAND then greatest = math.max(greatest, score % BAND) end
    -- a score beyond all priorities is the job's own finding
    below = score < 256 * BAND and '(' .. string.format('%.17g', later(score, 0)) or '(' .. string.format('%.17g', 256 * BAND)
  end
  return greatest
end
-- odd_keys(): {key without its root, kind, detail}, …
local function odd_keys()
  local found = {}
  for _, each in ipairs(TYPES) do
    local kind = redis.call('TYPE', ROOT .. ':' .. each[1]).ok
    if kind ~= 'none' and kind ~= each[2] then found[#found + 1] = { each[1], 'wrong-type', kind .. ' ' .. each[2] } end
  end
  local seq = redis.pcall('GET', SEQ)
  if type(seq) == 'table' then return found end
  local arrived = last_arrival()
  if seq and not (seq:find('^%d+$') and tonumber(seq) < BAND) or tonumber(seq or 0) < arrived then
    found[#found + 1] = { 'seq', 'sequence', (seq or 'missing') .. ' ' .. string.format('%.17g', arrived) }
  end
  return found
end
