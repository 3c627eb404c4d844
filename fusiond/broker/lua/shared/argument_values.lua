-- The values of the arguments that `by` of the file names, as one text. fusiond/argument_values.py makes the same text
-- of the same arguments.
local values_of_call
-- argument_values(): created once in a call, and only if it is needed
local function argument_values()
  if values_of_call then return values_of_call end
  local MOST_VALUES = 100         -- bytes; a longer text is replaced by its digest
  -- value_text(name, value): raises a reason that a person can act on
  local function value_text(name, value)
    if type(value) == 'boolean' then return tostring(value) end
    if type(value) == 'number' and value % 1 == 0 and math.abs(value) < 9007199254740992 then
      return value == 0 and '0' or ('%.0f'):format(value)
    end
    if type(value) == 'string' then
      return '"' .. value:gsub('[^%w_.~:@-]', function(other) return ('%%%02X'):format(other:byte()) end) .. '"'
    end
    if value == nil then error(name .. ' is missing', 0) end
    error(name .. ' is neither a text, nor a boolean, nor an integer below 2^53', 0)
  end
  -- of(by, args, kwargs): by: names such as kwargs.user_id and args.0, separated by commas
  local function of(by, args, kwargs)
    local texts = {}
    for name in by:gmatch('[^,]+') do
      local place, keyword = name:match('^args%.(%d+)$'), name:match('^kwargs%.(.+)$')
      local from
      if place then from = args else from = kwargs end
      texts[#texts + 1] = value_text(name, (type(from) == 'table' and from or {})[place and place + 1 or keyword])
    end
    local text = table.concat(texts, ',')
    return #text > MOST_VALUES and '#' .. redis.sha1hex(text) or text
  end
  -- of_body(by, body): the same for arguments as they are stored
  local function of_body(by, body)
    local good, read = pcall(cjson.decode, body)
    if not good or type(read) ~= 'table' then error('its arguments cannot be read', 0) end
    if body:find('^%s*%[') then return of(by, read[1], read[2]) end
    return of(by, read.args, read.kwargs)
  end
  values_of_call = { of = of, of_body = of_body }
  return values_of_call
end
