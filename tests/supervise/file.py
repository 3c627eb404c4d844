"""The file of a daemon whose programs are stand-ins: its Redis is nowhere, and nobody asks it."""


def file(workers="main: {processes: 2}", *, tasks="hello: {run: fusiond.tasks.echo}", more=""):
    """`workers`, `tasks`: what stands between their braces · `more`: further keys, as lines."""
    return (
        'broker: {url: "redis://localhost:1/"}\n'
        "defaults: {workers: {directory: /}}\n"
        f"tasks: {{{tasks}}}\nworkers: {{{workers}}}\n{more}"
    )
