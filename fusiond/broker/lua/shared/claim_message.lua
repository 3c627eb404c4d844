-- The message that brings a job to the dispatcher that has left this token. (needs queue)
local GIVEN = ROOT .. ':given:'
-- claim_message(token, after, …): `after`: ms from when the token was left to when the job was enqueued
local function claim_message(token, after, id, task, header, args)
  return string.format('job %s %d %d %d %d\n', token, after, #id, #task, #header) .. id .. task .. header .. args
end
