# Completions of trawlnet for bash. Keep them:
#   trawlnet completion bash > ~/.local/share/bash-completion/completions/trawlnet
_trawlnet() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} at= word
    local following switches valued
    _trawlnet_usage "$at"
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case " $following " in
            *" $word "*) at="${at:+$at }$word"; _trawlnet_usage "$at" ;;
            *) break ;;
        esac
    done
    COMPREPLY=()
    # What a flag wants is a file or a folder, if anything can be completed at all.
    case " $valued " in *" $before "*) return ;; esac
    case $current in
        -*) COMPREPLY=($(compgen -W "$switches $valued" -- "$current")) ;;
        *) COMPREPLY=($(compgen -W "$following" -- "$current")) ;;
    esac
}
complete -o default -F _trawlnet trawlnet
