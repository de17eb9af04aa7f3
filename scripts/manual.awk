# Writes the manual page from docs/options.md, whose list of options is --help's (a test compares them):
#
#     awk -v version=0.1.0 -f scripts/manual.awk docs/options.md > norma.1
#
# The first block of code becomes the synopsis, the modes and the options; every chapter after it a section. Tables become
# tagged paragraphs.

# The text for troff: Markdown's links and code, and characters with a meaning of their own.
function troff(s,   parts, n, i, out) {
    while (match(s, /\[[^]]*\]\([^)]*\)/)) # [words](link)
        s = substr(s, 1, RSTART - 1) substr(s, RSTART + 1, index(substr(s, RSTART), "](") - 2) substr(s, RSTART + RLENGTH)
    gsub(/\\/, "\\e", s)
    gsub(/-/, "\\-", s)
    gsub(/'/, "\\(aq", s)
    gsub(/~/, "\\(ti", s)
    gsub(/\^/, "\\(ha", s)
    gsub(/\.\/run/, "norma", s)
    gsub(/`run`/, "`norma`", s)
    n = split(s, parts, "`")
    for (i = 1; i <= n; i++)
        out = out (i % 2 ? parts[i] : "\\fB" parts[i] "\\fR")
    return out ~ /^\./ ? "\\&" out : out
}

function tagged(tag, body) {
    print ".TP"
    print tag
    if (body != "")
        print troff(body)
}

BEGIN {
    printf ".TH NORMA 1 \"\" \"norma %s\" \"User Commands\"\n", version
    print ".nh\n.ad l\n.SH NAME\nnorma \\- runs LLaMA\\-style models"
}

/^```/ {
    fence = !fence
    if (fence)
        blocks++
    if (blocks > 1)
        print fence ? ".PP\n.nf\n.RS 2" : ".RE\n.fi"
    next
}

# ---- the list of --help -----------------------------------------------------

fence && blocks == 1 && sub(/^usage: run /, "") {
    print ".SH SYNOPSIS\n.B norma"
    print troff($0)
    print ".SH DESCRIPTION"
    next
}
fence && blocks == 1 && /^Modes:$/ { print ".SH MODES"; next }
fence && blocks == 1 && /^  [a-z]/ {
    tagged("\\fB" $1 "\\fR", substr($0, index($0, $2)))
    next
}
fence && blocks == 1 && /^  -[a-z], --|^      --/ {
    sub(/^ +/, "")
    if (!options++)
        print ".SH OPTIONS"
    match($0, /^(-[a-z], )?--[a-z-]+( [^ ]+|\[=[A-Z]+\])?/)
    usage = substr($0, 1, RLENGTH)
    body = substr($0, RLENGTH + 1)
    sub(/^ +/, "", body)
    tagged("\\fB" troff(usage) "\\fR", body)
    next
}
fence && blocks == 1 && /^   / { sub(/^ +/, ""); print troff($0); next } # an option's text goes on
fence && blocks == 1 && /:$/ { sub(/:$/, ""); print ".SS " troff($0); next }
fence && blocks == 1 && /^$/ { next }
fence && blocks == 1 { print troff($0); next }

# ---- the chapters after it --------------------------------------------------

fence { print troff($0); next }
!blocks { next }
/^## / { print ".SH \"" troff(toupper(substr($0, 4))) "\""; next }
/^\| --- / { next }
/^\|/ {
    if (!rows++) # its headings
        next
    sub(/^\| /, "")
    sub(/ \|$/, "")
    at = index($0, " | ")
    tagged(troff(substr($0, 1, at - 1)), substr($0, at + 3))
    next
}
{ rows = 0 }
/^$/ { print ".PP"; next }
{ print troff($0) }

END {
    if (!options)
        exit 1
}
