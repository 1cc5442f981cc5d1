# Completions of trawlnet for fish. Keep them:
#   trawlnet completion fish > ~/.config/fish/completions/trawlnet.fish
function _trawlnet
    set -l typed (commandline -opc)
    set -l current (commandline -ct)
    set -l at
    _trawlnet_usage ""
    for word in $typed[2..-1]
        contains -- $word $_trawlnet_following; or break
        set -a at $word
        _trawlnet_usage "$at"
    end
    # What a flag wants is a file or a folder, if anything can be completed at all.
    if contains -- $typed[-1] $_trawlnet_valued
        __fish_complete_path $current
    else if string match -q -- "-*" $current
        string join \n -- $_trawlnet_switches $_trawlnet_valued
    else if set -q _trawlnet_following[1]
        string join \n -- $_trawlnet_following
    else
        __fish_complete_path $current
    end
end
complete -c trawlnet -f -a "(_trawlnet)"
