# Completion of fusiond in fish.
fusiond completion fish | source
