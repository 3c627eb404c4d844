-- A ready job's score is (255 - priority) * BAND + seq: below 2^51, so exact in a double. With `fair_by` a turn, which
-- is not above seq, takes the place of seq (turns.lua). Never append a score to a text with `..`, which cuts it to 14
-- digits; redis.call writes numbers in full.
local BAND = 8796093022208
-- finite(text): a number that Redis accepts as a score; nil: it is not one. Lua, but not Redis, reads "nan", "inf" and
-- " 1" as numbers.
local function finite(text)
  local number = tonumber(text)
  return number and math.abs(number) < 9007199254740992 and number or nil
end
-- count(text): a count; 0: the text is not a count
local function count(text)
  local number = tonumber(text)
  return number and number >= 0 and number < 2147483648 and math.floor(number) or 0
end
-- with_sequence(score, seq): the score of the same priority with another sequence number
local function with_sequence(score, seq) return score - score % BAND + seq end
local function priority_of(score) return 255 - math.floor(score / BAND) end
