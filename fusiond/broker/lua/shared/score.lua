-- A ready job's score is (255 - priority) * BAND + seq: below 2^51, so exact in a double. In place of seq it may have a turn, up to seq (turns.lua).
-- Never build it into a text with `..`, which cuts to 14 digits; redis.call writes numbers in full.
local BAND = 8796093022208
-- finite(text): a number that Redis takes as a score, too; nil for what is none. Lua alone reads "nan", "inf" and " 1" as numbers.
local function finite(text)
  local number = tonumber(text)
  return number and math.abs(number) < 9007199254740992 and number or nil
end
-- count(text): how often; 0 for what is not a count
local function count(text)
  local number = tonumber(text)
  return number and number >= 0 and number < 2147483648 and math.floor(number) or 0
end
-- with_sequence(score, seq): the same priority, another place in the row.
local function with_sequence(score, seq)
  return score - score % BAND + seq
end
-- priority_of(score): the priority to which a place in the row belongs
local function priority_of(score) return 255 - math.floor(score / BAND) end
