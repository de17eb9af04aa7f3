/* input.c: messages from a terminal or a pipe.
 *
 * A terminal sends the marks "\033[200~" and "\033[201~" around pasted text
 * once it is asked to (terminal_open).
 * Tests: chat, cli.
 */
#include "modes/input.h"
#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TYPED = 4095 }; /* bytes; a terminal cuts longer lines */

/* Reads the next line into in->line[*size], without its newline. Returns as
 * input_read(). */
static int next_line(Messages *in, size_t *size) {
    bool first = !in->line;
    errno = 0;
    ssize_t n = interrupted ? -1 : getline(&in->line, &in->room, stdin);
    if (n < 0)
        return errno && errno != EINTR
                   ? fail("standard input: %s", strerror(errno))
                   : 1;
    *size = (size_t)n - (in->line[n - 1] == '\n');
    *size -= *size && in->line[*size - 1] == '\r';
    return interrupted ? 1
           : first     ? text_begin("standard input", in->line, size)
                       : 0;
}

/* Removes the marks of pastes from a line. Returns whether a paste goes on in
 * the next line. */
static bool remove_marks(char *line, size_t *size, bool pasting) {
    enum { N = 6 };
    char *end = line + *size;
    for (char *at = line; at + N <= end;)
        if (memcmp(at, "\033[200~", N) && memcmp(at, "\033[201~", N))
            at++;
        else {
            pasting = at[4] == '0';
            end -= N;
            memmove(at, at + N, end - at);
        }
    *size = end - line;
    return pasting;
}

int input_read(Messages *in, char **message, size_t *size) {
    static const char quotes[] = "\"\"\"";
    enum { N = sizeof quotes - 1 };
    bool typed = on_terminal(stdin);
    Buffer *m = &in->message;
    bool pasting = false, begins = false, ends = false;
    if (typed) {
        terminal_open();
        fputs("User: ", stderr);
    }
    m->n = 0;
    do {
        size_t n;
        int status = next_line(in, &n);
        if (status && typed)
            fputc('\n', stderr); /* after "User: " */
        if (status)
            return status;
        if (!pasting && !m->n)
            begins = typed && n >= N && !memcmp(in->line, quotes, N);
        bool is_cut = typed && n >= MAX_TYPED;
        if (typed)
            pasting = remove_marks(in->line, &n, pasting) && !is_cut;
        if (is_cut) {
            note(
                "ignored: a line that the terminal cut at %d bytes; use a pipe, /load, or shorter lines between \"\"\"",
                MAX_TYPED);
            terminal_discard();
            m->n = n = 0;
            begins = false;
        }
        if (m->n)
            buffer_append(m, "\n", 1);
        buffer_append(m, in->line, n);
        if (m->failed)
            return -1;
        ends = m->n >= 2 * N && !memcmp(m->bytes + m->n - N, quotes, N);
    } while (pasting || (begins && !ends));
    *message = m->bytes + (begins ? N : 0);
    *size = m->n - (begins ? 2 * N : 0);
    (*message)[*size] = '\0';
    return 0;
}

void input_close(Messages *in) {
    terminal_discard();
    terminal_close();
    free(in->line);
    free(in->message.bytes);
}
