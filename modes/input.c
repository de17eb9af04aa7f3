/* input.c: messages from a terminal or a pipe.
 *
 * A terminal sends the marks "\033[200~" and "\033[201~" around pasted text once it is asked to (terminal_open).
 */
#include "modes/input.h"
#include "base/error.h"
#include "base/process.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_LINE = 1 << 30, MAX_TYPED = 4095 }; /* bytes; a terminal cuts longer lines */

/* Reads another block. Returns the number of bytes, 0 at the end of the input or after Ctrl-C; -1 and a message if
 * memory runs out or the line is too long. */
static ssize_t read_block(Messages *in) {
    char block[1 << 14];
    Buffer *b = &in->bytes;
    b->n -= in->at;
    memmove(b->bytes, b->bytes + in->at, b->n);
    in->at = 0;
    if (b->n > MAX_LINE) return fail("standard input: a line of more than %d bytes", MAX_LINE);
    const ssize_t n = read_some(fileno(stdin), block, sizeof block);
    if (n > 0) buffer_append(b, block, (size_t)n);
    return b->failed ? -1 : n > 0 ? n : 0;
}

/* Finds the next line: *size bytes without the newline. Returns as input_read(). */
static int next_line(Messages *in, char **line, size_t *size) {
    char *end = NULL;
    ssize_t n = 1;
    buffer_append(&in->bytes, "", 0);
    if (in->bytes.failed) return -1;
    for (size_t searched = 0; n > 0 && !interrupted; searched = *size) {
        *line = in->bytes.bytes + in->at;
        *size = in->bytes.n - in->at;
        if ((end = memchr(*line + searched, '\n', *size - searched))) break;
        n = read_block(in);
    }
    if (n < 0) return -1;
    *line = in->bytes.bytes + in->at; /* without a newline at the end of the input */
    *size = end ? (size_t)(end - *line) : in->bytes.n - in->at;
    in->at += *size + (end != NULL);
    return (*size || end) && !interrupted ? 0 : 1;
}

/* Removes the marks of a paste from a line. Returns whether a paste goes on in the next line. */
static bool remove_marks(char *line, size_t *size, bool pasting) {
    static const char marks[2][7] = {"\033[201~", "\033[200~"};
    for (int i = 0; i < 2; i++) {
        const size_t n = strlen(marks[i]);
        char *mark = memmem(line, *size, marks[i], n);
        if (!mark) continue;
        pasting = i;
        *size -= n;
        memmove(mark, mark + n, *size - (size_t)(mark - line));
    }
    return pasting;
}

int input_read(Messages *in, char **message, size_t *size) {
    static const char quotes[] = "\"\"\"";
    enum { N = sizeof quotes - 1 };
    const bool typed = on_terminal(stdin);
    Buffer *m = &in->message;
    bool pasting = false, begins = false, ends = false;
    if (typed) {
        terminal_open();
        fputs("User: ", stderr);
    }
    m->n = 0;
    do {
        char *line;
        size_t n;
        const int status = next_line(in, &line, &n);
        if (status && typed) fputc('\n', stderr); /* after "User: " */
        if (status) return status;
        const bool is_cut = typed && n >= MAX_TYPED;
        if (typed) pasting = remove_marks(line, &n, pasting) && !is_cut;
        if (is_cut) {
            note("ignored: a line that the terminal cut at %d bytes; use \"\"\", /load, a pipe or rlwrap", MAX_TYPED);
            terminal_discard();
            in->at = in->bytes.n;
            m->n = n = 0;
        }
        if (m->n) buffer_append(m, "\n", 1);
        buffer_append(m, line, n);
        if (m->failed) return -1;
        begins = typed && m->n >= N && !memcmp(m->bytes, quotes, N);
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
    free(in->bytes.bytes);
    free(in->message.bytes);
}
