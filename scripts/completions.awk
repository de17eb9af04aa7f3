# Writes the completions of the command line from the list in docs/options.md:
#
#     awk -v shell=bash -f scripts/completions.awk docs/options.md    (or shell=zsh)
#
# A word that begins with "-" is an option, the first other word a model (*.gguf, *.bin, a folder); after an option
# stand its words (modes, types, templates), files, or nothing of which the shell knows.

/^```/ { inside = !inside; next }
!inside { next }
/^Modes:/ { in_modes = 1; next }
/^$/ { in_modes = 0; n = 0; next }
in_modes { modes = modes (modes ? " " : "") $1; if (/^  -/) in_modes = 0 }
/^  -[a-z], --|^      --/ {
    line = $0
    sub(/^ +/, "", line)
    names[++count] = ""
    if (line ~ /^-[a-z], /) {
        names[count] = substr(line, 1, 2)
        line = substr(line, 5)
    }
    match(line, /^--[a-z-]+/)
    longs[count] = substr(line, 1, RLENGTH)
    rest = substr(line, RLENGTH + 1)
    arguments[count] = ""
    if (match(rest, /^( [^ ]+|\[=[A-Z]+\])( |$)/) && rest !~ /^  /) {
        arguments[count] = substr(rest, 1, RLENGTH)
        rest = substr(rest, RLENGTH + 1)
    }
    sub(/^ +/, "", rest)
    helps[count] = rest
    n = count
    next
}
n && /^ +[^ ]/ { sub(/^ +/, ""); helps[n] = helps[n] " " $0 }

# The words that may follow option i, separated by spaces.
function words(i,   text) {
    if (arguments[i] ~ /MODE/)
        return modes
    if (longs[i] == "--template" && match(helps[i], / or [a-z0-9-]+(, [a-z0-9-]+)+/)) {
        text = substr(helps[i], RSTART + 4, RLENGTH - 4)
        gsub(/,/, "", text)
        return text
    }
    if (arguments[i] !~ /^ [a-z0-9_|]+ *$/) # a list of words
        return ""
    text = arguments[i]
    gsub(/ /, "", text)
    gsub(/\|/, " ", text)
    return text
}

function bash_file(   i, cases, all, others) {
    for (i = 1; i <= count; i++) {
        all = all " " longs[i]
        if (!arguments[i] || arguments[i] ~ /^\[/)
            continue
        if (words(i))
            cases = cases "    " (names[i] ? names[i] "|" : "") longs[i] ") words='" words(i) "' ;;\n"
        else
            others = others (others ? "|" : "") (names[i] ? names[i] "|" : "") longs[i]
    }
    print "# norma's completions, written by scripts/completions.awk"
    print "_norma() {"
    print "    local word=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]} words="
    print "    [ \"$word\" = = ] && word="
    print "    [ \"$option\" = = ] && option=${COMP_WORDS[COMP_CWORD - 2]}"
    print "    [ \"${COMP_WORDS[COMP_CWORD]}\" = = ] && option=${COMP_WORDS[COMP_CWORD - 1]}"
    print "    COMPREPLY=()"
    print "    case $option in"
    printf "%s    %s) ;;\n", cases, others
    print "    *)"
    print "        case $word in"
    print "        -*) words='" substr(all, 2) "' ;;"
    print "        *)"
    print "            compopt -o filenames"
    print "            mapfile -t COMPREPLY < <(compgen -f -X '!*.gguf' -- \"$word\"; compgen -f -X '!*.bin' -- \"$word\""
    print "                compgen -d -- \"$word\")"
    print "            return ;;"
    print "        esac ;;"
    print "    esac"
    print "    # without a match readline completes the names of files"
    print "    [ -z \"$words\" ] || mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")"
    print "}"
    print "complete -o default -F _norma norma"
}

function zsh_file(   i, text, action) {
    print "#compdef norma"
    print "# norma's completions, written by scripts/completions.awk"
    print "_arguments \\"
    for (i = 1; i <= count; i++) {
        text = helps[i]
        sub(/;.*/, "", text)
        if (text !~ /^\[/)
            sub(/ \[.*/, "", text) # the default
        gsub(/'/, "'\\''", text)
        gsub(/\[|\]/, "", text)
        gsub(/:/, "\\:", text)
        text = "[" text "]"
        if (arguments[i] ~ /^\[/)
            action = "-" text "::file:_files"
        else if (arguments[i]) {
            action = words(i) ? "(" words(i) ")" : arguments[i] ~ /F(ILE|OLDER)/ ? "_files" : " "
            if (longs[i] == "--template")
                action = "_alternative \"names\\:name\\:" action "\" \"files\\:file\\:_files\""
            gsub(/ /, "", arguments[i])
            action = text ":" arguments[i] ":" action
        }
        if (!arguments[i])
            action = text
        print "    '*" longs[i] (arguments[i] ? "=" : "") action "' \\"
        if (names[i])
            print "    '*" names[i] (arguments[i] ? "+" : "") action "' \\"
    }
    print "    '1:model:_files -g \"*.(gguf|bin)(-.)\"'"
}

END {
    if (!count || !modes)
        exit 1
    if (shell == "zsh")
        zsh_file()
    else
        bash_file()
}
