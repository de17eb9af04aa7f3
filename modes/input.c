/* input.c: messages from a terminal or a pipe.
 *
 * A terminal that moves its cursor sends keys, which text/editor.c makes a
 * message of; others, such as emacs' shell, edit lines themselves.
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

/* Reads the next line into in->line, without its newline. Returns as
 * input_read(). */
static int next_line(Messages *in) {
    Buffer *line = &in->line;
    bool is_first = !line->bytes;
    int c = EOF;
    line->n = 0;
    errno = 0;
    buffer_append(line, "", 0);
    while (!interrupted && !line->failed && line->n <= MAX_LINE) {
        c = getc(stdin);
        if (c == EOF || c == '\n')
            break;
        buffer_append(line, &(char){(char)c}, 1);
    }
    if (line->failed)
        return -1;
    if (line->n > MAX_LINE)
        return fail("standard input: a line of more than %d bytes", MAX_LINE);
    if (c == EOF && errno && errno != EINTR)
        return fail("standard input: %s", strerror(errno));
    if (interrupted || (c == EOF && (errno || !line->n)))
        return 1;
    line->n -= line->n && line->bytes[line->n - 1] == '\r';
    line->bytes[line->n] = '\0';
    return is_first ? text_begin("standard input", line->bytes, &line->n) : 0;
}

/* Reads a message from a pipe, or from a terminal that edits lines itself. */
static int read_lines(Messages *in, bool typed) {
    Buffer *m = &in->message;
    m->n = 0;
    if (typed)
        fputs("User: ", stderr);
    do {
        int status = next_line(in);
        if (status && typed)
            fputc('\n', stderr); /* after "User: " */
        if (status)
            return status;
        if (typed && in->line.n >= MAX_TYPED) {
            note(
                "ignored: a line that the terminal cut at %d bytes; use a pipe or /load",
                MAX_TYPED);
            terminal_discard();
            m->n = in->line.n = 0;
        }
        if (m->n)
            buffer_append(m, "\n", 1);
        buffer_append(m, in->line.bytes, in->line.n);
        if (m->failed)
            return -1;
    } while (typed && is_quote_open(m));
    return 0;
}

bool input_edits(bool now) {
    return on_terminal(stdin) && has_escapes() && terminal_open(now);
}

int input_read(Messages *in, char **message, size_t *size) {
    bool typed = on_terminal(stdin), edits = input_edits(true);
    in->editor.styled = may_style();
    int status = edits ? editor_read(&in->editor) : read_lines(in, typed);
    if (status)
        return status;
    Buffer *m = edits ? editor_text(&in->editor) : &in->message;
    if (typed && !in->editor.begins_pasted && !strncmp(m->bytes, "\"\"\"", 3)) {
        m->n -= 6;
        memmove(m->bytes, m->bytes + 3, m->n);
        m->bytes[m->n] = '\0';
    }
    *message = m->bytes;
    *size = m->n;
    return -m->failed;
}

void input_close(Messages *in) {
    terminal_discard();
    terminal_close();
    editor_close(&in->editor);
    free(in->line.bytes);
    free(in->message.bytes);
}
