#compdef trawlnet
# Completions of trawlnet for zsh. Keep them in a folder of $fpath, before compinit is run:
#   trawlnet completion zsh > ~/.zfunc/_trawlnet
_trawlnet() {
    local current=${words[CURRENT]} before=${words[CURRENT-1]} at= word
    local following switches valued
    _trawlnet_usage "$at"
    for word in "${(@)words[2,CURRENT-1]}"; do
        [[ " $following " == *" $word "* ]] || break
        at="${at:+$at }$word"
        _trawlnet_usage "$at"
    done
    # What a flag wants is a file or a folder, if anything can be completed at all.
    if [[ " $valued " == *" $before "* ]]; then
        _files
    elif [[ $current == -* ]]; then
        compadd -- ${=switches} ${=valued}
    elif [[ -n $following ]]; then
        compadd -- ${=following}
    else
        _files
    fi
}
if [ "$funcstack[1]" = "_trawlnet" ]; then
    _trawlnet "$@"
else
    compdef _trawlnet trawlnet
fi
