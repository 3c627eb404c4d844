"""Task code of the targets: what comes in goes out."""


def echo(*args, **kwargs):
    return [args, kwargs]


def told(*args, job, **kwargs):
    return [args, kwargs, job["key"], job["meta"]]
