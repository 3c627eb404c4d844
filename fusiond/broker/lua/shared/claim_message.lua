-- The message with a job for the dispatcher whose claim left this token. (needs queue)
local GIVEN = ROOT .. ':given:'
-- claim_message(token, after, …): after: ms between the claim that left the token and the enqueue of the job
local function claim_message(token, after, id, task, header, args)
  return string.format('job %s %d %d %d %d\n', token, after, #id, #task, #header) .. id .. task .. header .. args
end
