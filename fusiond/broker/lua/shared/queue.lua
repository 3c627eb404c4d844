-- The keys of the queue whose root, ns:{q}, is KEYS[1]. All have the same braces, so they are in the same slot.
local ROOT = KEYS[1]
local QUEUE, SCHEDULED, STARTED = ROOT .. ':queue', ROOT .. ':scheduled', ROOT .. ':started'
local SEQ, CONF, WAKE, JOB = ROOT .. ':seq', ROOT .. ':conf', ROOT .. ':wake', ROOT .. ':job:'
