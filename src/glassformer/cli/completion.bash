# Completion for bash and zsh. `glassformer completion` fills in what stands between two @.
_glassformer() {
  local IFS=$' \t\n' name cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}"
  local verb="${COMP_WORDS[1]}" options="" values="" after=""
  COMPREPLY=()
  if [[ "$prev" == "=" ]]; then prev="${COMP_WORDS[COMP_CWORD-2]}"; fi
  if [[ "$cur" == "=" ]]; then cur=""; fi
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "@VERBS@" -- "$cur"))
    return
  fi
  case "$verb" in
@ACTIONS@
  esac
  case "$verb" in
@CASES@
  esac
  if [[ "$cur" == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$cur"))
    return
  fi
  [[ "$prev" == -* && -n "$after" ]] && values="$after"
  case "$values" in
    @files | "") return ;;
    @data)
      compopt -o filenames 2>/dev/null
      COMPREPLY=($(compgen -W "@DATASETS@" -- "$cur"))
      while IFS= read -r name; do COMPREPLY+=("$name"); done < <(compgen -f -- "$cur") ;;
    @runs)
      compopt -o filenames 2>/dev/null
      for name in last */ runs/*/; do
        [[ "$name" == last || -e "${name}@CARD@" ]] && [[ "$name" == "$cur"* ]] && COMPREPLY+=("${name%/}")
      done ;;
    *)
      name=""
      [[ "$cur" == *,* ]] && name="${cur%,*},"
      COMPREPLY=($(compgen -P "$name" -W "$values" -- "${cur##*,}")) ;;
  esac
}
complete -o bashdefault -o default -F _glassformer glassformer gf
