"""`python -m fusiond.cli`: the same as `fusiond`, where the script is not on PATH."""

import sys

from fusiond.cli import main

sys.exit(main())
