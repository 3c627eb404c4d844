"""
What runs in the application's interpreter: fork server, children, probe, `fusiond call`.

Standard library only, CPython 3.9 and later.
"""

# The files of this folder are handed over into one package, in which they find this one beside them too.
from fusiond import json_depth as json_depth
