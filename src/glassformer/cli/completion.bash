# Completion for bash and zsh: glassformer itself says what may follow.
_glassformer() {
  local word words
  COMPREPLY=()
  while IFS= read -r word; do
    if [[ "$word" == "@PATHS@" ]]; then
      compopt -o filenames 2>/dev/null
    elif [[ -n "$word" ]]; then
      COMPREPLY+=("$word")
    fi
  done < <("${COMP_WORDS[0]}" completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o bashdefault -o default -F _glassformer glassformer gf
