# Completion for fish: glassformer itself says what may follow.
function __glassformer
  set -l words (commandline -opc) (commandline -ct)
  set -l found (glassformer completion words -- $words[2..] 2>/dev/null | string match --invert -- @PATHS@)
  if test -n "$found"
    printf '%s\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c glassformer -f -a '(__glassformer)'
complete -c gf -w glassformer
