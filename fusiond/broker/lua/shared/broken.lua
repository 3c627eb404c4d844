-- What cannot be read is kept raw in ns:{q}:broken as "<ms> <reason>\n<raw>", newest first, and counted in conf `broken`.
local BROKEN_KEPT = 1000
local put_aside = {}              -- the reasons of this call
local function broken(reason, raw)
  put_aside[#put_aside + 1] = reason
  redis.call('LPUSH', ROOT .. ':broken', now .. ' ' .. reason:gsub('%c', '?') .. '\n' .. raw)
  redis.call('LTRIM', ROOT .. ':broken', 0, BROKEN_KEPT - 1)
  redis.call('HINCRBY', CONF, 'broken', 1)
end
-- break_job(id): the same for a job whose hash is missing, incomplete or no hash; frees its key. Its sets are the caller's.
local function break_job(id)
  local raw = redis.pcall('GET', JOB .. id)
  if type(raw) == 'table' then raw = redis.call('DUMP', JOB .. id) end
  -- kept first: where that fails nothing is gone
  broken('job ' .. id .. (raw and ' is no job' or ' has no body'), raw or id)
  if raw then redis.call('UNLINK', JOB .. id) end
end
