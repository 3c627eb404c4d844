"""The tasks of fusion.yaml: plain functions. Run one without a daemon: `fusiond call hello Ada`."""


def hello(name: str) -> dict[str, str]:
    """Say hello; what a task returns is kept as the job's result."""
    print(f"hello {name}")
    return {"greeted": name}


def report(region: str = "eu") -> str:
    """Stand for a task that takes long."""
    return f"report of {region}"
