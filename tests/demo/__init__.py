"""`make demo`: a tour of fusiond that shows each thing for real, checks it, and ends by itself."""
