# Completion for fish. `glassformer completion` fills in what stands between two @, and adds a line per option.
function __glassformer_runs
  echo last
  for folder in */ runs/*/
    test -e "$folder"@CARD@; and string trim --right --chars=/ $folder
  end
end
complete -c glassformer -f -n __fish_use_subcommand
