#compdef fusiond
eval "$(fusiond completion zsh)"
_python_argcomplete "$@"
