/* history.c: the messages sent before, also in earlier sessions.
 *
 * Owns the file: one entry per line, with "\n" for a newline and "\\" for a
 * backslash. It is read again before each entry is added, so that several
 * sessions share it, and replaced as a whole.
 * Tests: editor.
 */
#include "text/history.h"
#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KEPT = 1 << 16 /* bytes of an entry in the file */ };

static void drop(History *h) {
    for (int i = 0; i < h->n; i++)
        free(h->entries[i]);
    h->n = 0;
}

/* Adds an entry, owned from now on. */
static void add(History *h, char *entry) {
    if (!entry)
        return;
    if (h->n == MAX_HISTORY) {
        free(h->entries[0]);
        h->n--;
        memmove(h->entries, h->entries + 1, h->n * sizeof *h->entries);
    }
    /* The analyzer forgets that the array owns it. */
    h->entries[h->n] = entry; /* NOLINT(clang-analyzer-unix.Malloc) */
    h->n++;
}

/* ---- the file ----------------------------------------------------------- */

/* The entry of a line of the file, with its printable characters only, because
 * it is shown. */
static char *decode(const char *line, size_t size) {
    char *const entry = malloc(size + 1);
    if (!entry)
        return NULL;
    size_t n_entry = 0, n;
    for (size_t at = 0; at < size; at += n) {
        uint32_t code = utf8_read(line + at, size - at, &n);
        if (code == '\\' && at + 1 < size) {
            at++;
            entry[n_entry++] = line[at] == 'n' ? '\n' : '\\';
        } else if (code == '\t' || utf8_is_printable(code)) {
            memcpy(entry + n_entry, line + at, n);
            n_entry += n;
        }
    }
    entry[n_entry] = '\0';
    return entry;
}

static void encode(FILE *out, const char *entry) {
    for (; *entry; entry++)
        if (*entry == '\n')
            fputs("\\n", out);
        else if (*entry == '\\')
            fputs("\\\\", out);
        else
            putc(*entry, out);
    putc('\n', out);
}

/* Replaces the entries by those of the file, if it exists. Returns -1 and a
 * message on failure. */
static int read_file(History *h) {
    size_t size;
    if (!file_exists(h->path))
        return 0;
    char *text = file_read(h->path, &size);
    if (!text)
        return -1;
    drop(h);
    for (const char *line = text, *end = text + size; line < end;) {
        const char *newline = memchr(line, '\n', end - line);
        const size_t n = (newline ? newline : end) - line;
        if (n && n <= MAX_KEPT)
            add(h, decode(line, n));
        line += n + 1;
    }
    free(text);
    return 0;
}

static int write_file(const History *h) {
    OutputFile file;
    if (output_open(&file, h->path))
        return -1;
    output_private(&file);
    for (int i = 0; i < h->n; i++)
        if (strlen(h->entries[i]) <= MAX_KEPT / 2)
            encode(file.stream, h->entries[i]);
    return output_close(&file, true);
}

void history_open(History *h) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n = -1;
    h->path = NULL;
    if (state && *state == '/')
        n = asprintf(&h->path, "%s/norma/history", state);
    else if (home && *home == '/')
        n = asprintf(&h->path, "%s/.local/state/norma/history", home);
    if (n < 0) {
        h->path = NULL;
        return;
    }
    private_folders(h->path);
    print_failures_as_notes(true);
    if (read_file(h)) {
        free(h->path);
        h->path = NULL;
    }
    print_failures_as_notes(false);
}

/* ---- entries ------------------------------------------------------------ */

void history_add(History *h, const char *text) {
    if (*text == ' ' || !*text || (h->n && !strcmp(h->entries[h->n - 1], text)))
        return;
    add(h, strdup(text));
    if (!h->path || strlen(text) > MAX_KEPT / 2)
        return;
    History file = {.path = h->path};
    print_failures_as_notes(true);
    int status = read_file(&file);
    if (!status) {
        add(&file, strdup(text));
        status = write_file(&file);
    }
    print_failures_as_notes(false);
    drop(&file);
    if (status) { /* one note is enough */
        free(h->path);
        h->path = NULL;
    }
}

int history_find(const History *h, const char *text, int before) {
    int i = before - 1;
    while (i >= 0 && !strstr(h->entries[i], text))
        i--;
    return i;
}

void history_close(History *h) {
    drop(h);
    free(h->path);
}
