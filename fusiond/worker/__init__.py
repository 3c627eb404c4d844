"""What runs jobs: dispatcher, fork server, child."""

# The files that run in the application's interpreter find it beside them there, and here.
from fusiond import nesting as nesting
