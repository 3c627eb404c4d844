-- Bodies that cannot be read are kept raw in ns:{q}:broken as "<ms> <reason>\n<raw>", newest first, and counted in conf
-- `broken`.
local BROKEN_KEPT = 1000
local broken_reasons = {}         -- the reasons of this call
local function store_broken(reason, raw)
  broken_reasons[#broken_reasons + 1] = reason
  redis.call('LPUSH', ROOT .. ':broken', now .. ' ' .. reason:gsub('%c', '?') .. '\n' .. raw)
  redis.call('LTRIM', ROOT .. ':broken', 0, BROKEN_KEPT - 1)
  redis.call('HINCRBY', CONF, 'broken', 1)
  if events then events.record('broken', '-', '-', ' m' .. escape(reason:sub(1, 255))) end
end
-- break_job(id): the same for a job whose text is missing or not a job; deletes its keys. The caller removes it from
-- its sets. (needs job)
local function break_job(id)
  local raw, args = redis.pcall('GET', JOB .. id), redis.pcall('GET', JOB .. id .. ARGS)
  if type(raw) == 'table' then raw = redis.call('DUMP', JOB .. id) end
  if type(args) == 'string' then raw = (raw or '') .. args end
  -- stored first: if that fails, nothing is lost
  store_broken('job ' .. id .. (raw and ' is not a job' or ' has no body'), raw or id)
  delete_jobs({ id })
end
