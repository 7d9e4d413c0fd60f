# Completion of weir's commands and flags for bash: the program itself says what it has.
_weir() {
  local cur prev words cword
  _init_completion || return
  if [ "$cword" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W "$(weir --help | awk '/^Subcommands:/{on=1;next} on && /^  [a-z]/{print $1}') --help --version" -- "$cur")
  elif [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(weir "${words[1]}" --help 2>/dev/null | grep -oE '^ +(-[a-z],)?--[a-z-]+' | grep -oE -- '--[a-z-]+')" -- "$cur")
  else
    _filedir
  fi
} && complete -F _weir weir
