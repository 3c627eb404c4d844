-- call_in_batches(command, key, list [, option]): `command key [option] list…` for a list of any length. A batch has an
-- even number of words. unpack() cannot return more than about 8,000. And the server makes a string of each word, and
-- frees it after the command: the strings of a short command reuse the memory of the one before it, which is still in
-- the processor's cache.
local PART = 100                  -- words
local function call_in_batches(command, key, list, option)
  for first = 1, #list, PART do
    local last = math.min(first + PART - 1, #list)
    if option then
      redis.call(command, key, option, unpack(list, first, last))
    else
      redis.call(command, key, unpack(list, first, last))
    end
  end
end
