"""An older and a newer fusiond: side by side on one Redis, and one after the other in one state directory."""
