"""What follows the end of a job: the task or the URL that is called, and how calls of URLs are signed."""

from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import urlsplit

from fusiond.config.kinds import FilePath, Key, Name, text

_URL: Final = "write an address such as https://ops.example.com/failed"
URL: Final = text("URL", r"^https?://[^\s/?#@]+([/?#]\S*)?$", _URL, maxLength=2000)

Url = Annotated[str, URL]


@dataclass(frozen=True, slots=True)
class Callback:
    """What is called when a job ends: a task of this file, or a URL."""

    #: A task; its job gets one argument, the keyword `event`: a dict about the job that has ended.
    task: Annotated[Name | None, Key("Task", "page_someone", either=True)] = None
    #: An address; a job of the queue `callbacks` sends the same event there as JSON. Its host may be private.
    webhook: Annotated[Url | None, Key("Webhook", "https://ops.example.com/failed", either=True)] = None

    @property
    def host(self) -> str | None:
        """The host of its URL, in lower case; None: it has none."""
        return urlsplit(self.webhook).hostname if self.webhook else None


@dataclass(frozen=True, slots=True)
class Webhooks:
    """How URLs are called at the end of jobs."""

    #: A file whose content signs each request, read by the daemon when a worker group starts.
    secret_file: Annotated[
        FilePath | None, Key("Secret file", "/run/credentials/fusiond.service/webhooks", in_place=True)
    ] = None
