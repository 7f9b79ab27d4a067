package command

// Completion returns the completion script of a shell, or "". It runs `elastic completion words` at each tab.
func Completion(shell string) string {
	return map[string]string{"bash": bash, "zsh": zsh, "fish": fish}[shell]
}

// bash replaces what follows the "=" of a word, so candidates lose what is before.
const bash = `# bash completion of elastic: source <(elastic completion bash)
_elastic() {
  local line cur=${COMP_WORDS[COMP_CWORD]}
  if [[ $cur == [=:] ]]; then cur=; fi
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
    :files) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    :dirs) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    :program) mapfile -t COMPREPLY < <(compgen -c -f -- "$cur") ;;
    :command*)
      if declare -F _command_offset >/dev/null; then _command_offset $((${line#* } + 1))
      else mapfile -t COMPREPLY < <(compgen -f -- "$cur"); fi ;;
    *) line=${line%%$'\t'*}; COMPREPLY+=("${line#*=}") ;;
    esac
  done < <(elastic completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o bashdefault -o filenames -F _elastic elastic
`

const zsh = `#compdef elastic
# zsh completion of elastic: source <(elastic completion zsh), after compinit
_elastic() {
  local line
  local -a found
  for line in ${(f)"$(elastic completion words -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)"}; do
    case $line in
    :files) compset -P '*='; _files; return ;;
    :dirs) compset -P '*='; _files -/; return ;;
    :program) _command_names -e; _files; return ;;
    :command*) shift $((${line#* } + 1)) words; ((CURRENT -= ${line#* } + 1)); _normal; return ;;
    *) found+=("${${line//:/\\:}/$'\t'/:}") ;;
    esac
  done
  _describe elastic found
}
compdef _elastic elastic
`

const fish = `# fish completion of elastic: elastic completion fish | source
function __elastic_words
    set -l cur (commandline -ct)
    set -l before (commandline -opc)
    set -l head (string match -r -- '^-[^=]*=' "$cur")
    set -l value (string replace -r -- '^-[^=]*=' '' "$cur")
    for line in (elastic completion words -- $before[2..-1] "$cur" 2>/dev/null)
        switch $line
            case :files ':command*'
                __fish_complete_path "$value" | string replace -r -- '^' "$head"
            case :dirs
                __fish_complete_directories "$value" | string replace -r -- '^' "$head"
            case :program
                __fish_complete_command
                __fish_complete_path "$cur"
            case '*'
                echo $line
        end
    end
end
complete -c elastic -f -a '(__elastic_words)'
`
