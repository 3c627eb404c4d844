"""
Ready-made tasks: what a file can run before anyone has written code.

    fusiond.tasks.echo       print and return the arguments
    fusiond.tasks.webhook    call a URL, signed

Standard library only, and little of it: the fork server of a group loads this package, and the less memory it uses,
the faster it forks. A task imports what only it needs when it runs.
"""

from __future__ import annotations

from typing import Any

from fusiond.tasks.webhooks import WebhookRefused, WebhookUnavailable, webhook

__all__ = ["WebhookRefused", "WebhookUnavailable", "echo", "webhook"]


def echo(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """Print the arguments, and return them as {"args": […], "kwargs": {…}}."""
    print(*args, *(f"{name}={value!r}" for name, value in kwargs.items()), flush=True)
    return {"args": list(args), "kwargs": kwargs}
