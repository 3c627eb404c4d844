"""
Runs of flows: what follows when, and the verbs' use for it.

    shapes.py        what a run is started with, and keeps whatever a reload brings
    references.py    `input.day`, `extract.files`: the value that a step is given
    progress.py      the state of a run, and which steps may begin
    runs.py          one run as it was read, and the ids of its jobs
    run_callbacks.py the job that is called at its end
    run_plans.py     advance a run: read it, begin steps, write it
    lost_jobs.py     end the steps whose jobs are gone
    run_control.py   start, suspend, resume, cancel and requeue runs; list and show them

The first three are pure. Nobody leads: whoever starts a run, takes in the end of a step, or sweeps, takes it a step
further.
"""
