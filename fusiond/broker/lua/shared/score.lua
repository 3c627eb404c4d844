-- A ready job's score is (255 - priority) * BAND + seq: below 2^51, so exact in a double.
-- Never build it into a text with `..`, which cuts to 14 digits; redis.call writes numbers in full.
local BAND = 8796093022208
-- later(score, seq): the same priority, another place in the row.
local function later(score, seq)
  return score - score % BAND + seq
end
