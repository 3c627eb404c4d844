-- call_in_batches(command, key, list [, option]): `command key [option] list…` for a list of any length.
-- In parts, an even number of words. unpack() runs out of stack at about 8,000. And the server makes a string of each word, and forgets it behind
-- the command: those of a short command are made where those of the one before it were, and stay in the processor's caches.
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
