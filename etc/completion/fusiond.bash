# Completion of fusiond in bash.
source <(fusiond completion bash)
