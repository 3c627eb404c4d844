"""
Sinks: programs of the daemon that bring events from Redis to where the file says, one program for each.

1. hold      one daemon of a namespace delivers for a sink; the others stand by until its lease has expired
2. read      the next events of each stream, behind the sink's cursor
3. deliver   what the sink wants of them, in batches; again and again with growing pauses until it is taken
4. note      in Redis how far it is

A sink that is killed delivers again what it had not noted: at least once, with the same id for the same event.
"""
