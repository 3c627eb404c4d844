-- The keys of the queue whose root, ns:{q}, is KEYS[1]; all share the braces, thus the slot.
local ROOT = KEYS[1]
local QUEUE, SCHEDULED, STARTED = ROOT .. ':queue', ROOT .. ':scheduled', ROOT .. ':started'
local SEQ, CONF, WAKE, JOB = ROOT .. ':seq', ROOT .. ':conf', ROOT .. ':wake', ROOT .. ':job:'
