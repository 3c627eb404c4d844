-- many(command, key, list [, option]): `command key [option] list…` for a list of any length.
-- In parts of 2,000, an even number: unpack() runs out of stack at about 8,000.
local function many(command, key, list, option)
  for first = 1, #list, 2000 do
    local last = math.min(first + 1999, #list)
    if option then
      redis.call(command, key, option, unpack(list, first, last))
    else
      redis.call(command, key, unpack(list, first, last))
    end
  end
end
