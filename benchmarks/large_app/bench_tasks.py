"""Jobs that do nothing, in an application that imports 85 MB: Django, SQLAlchemy, pandas."""

import django
import numpy as np
import pandas as pd
import sqlalchemy.dialects.postgresql
import sqlalchemy.orm
from django.conf import settings

settings.configure(INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes"])
django.setup()

import django.contrib.auth.models  # noqa: E402 - only once it is set up
import django.forms  # noqa: E402
import django.template  # noqa: E402
import django.test  # noqa: E402

LOADED = (np, pd, sqlalchemy, django)


def noop(*_args: object, **_kwargs: object) -> None:
    """Nothing."""


clock = mark = rest = noop
