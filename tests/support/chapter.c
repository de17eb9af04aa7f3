/* chapter.c: reads a chapter of docs/: its statements and their numbers. book.c
 * checks the numbers. */
#include "base/file.h"

#include "tests/support/chapter.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char MINUS[] = "\xe2\x88\x92"; /* U+2212 */

static bool begins(const char *text, const char *with) {
    return !strncmp(text, with, strlen(with));
}

/* The length of a minus sign, ASCII or U+2212; 0: none. */
static size_t sign_length(const char *at) {
    return *at == '-' ? 1 : begins(at, MINUS) ? strlen(MINUS) : 0;
}

size_t number_read(Number *n, const char *text) {
    const char *at = text + sign_length(text);
    size_t length = 0;
    int decimals = 0, exponent = 0;
    bool point = false;
    if (!isdigit((unsigned char)*at))
        return 0;
    if (at > text)
        n->text[length++] = '-';
    for (; length < sizeof n->text - 8; at++) {
        bool comma = !point && *at == ',' && isdigit(at[1]) && isdigit(at[2]) &&
                     isdigit(at[3]) && !isdigit(at[4]);
        if (comma)
            continue;
        if (*at == '.' && !point && isdigit((unsigned char)at[1]))
            point = true;
        else if (!isdigit((unsigned char)*at))
            break;
        else
            decimals += point;
        n->text[length++] = *at;
    }
    if (*at == 'e' && isdigit((unsigned char)at[1 + sign_length(at + 1)])) {
        bool down = sign_length(at + 1) > 0;
        char *after;
        exponent = (int)strtol(at + 1 + sign_length(at + 1), &after, 10) *
                   (down ? -1 : 1);
        length += (size_t)snprintf(n->text + length, sizeof n->text - length,
                                   "e%d", exponent);
        at = after;
    }
    n->text[length] = '\0';
    n->value = strtod(n->text, NULL);
    n->half = 0.5 * pow(10, exponent - decimals);
    return (size_t)(at - text);
}

bool number_shows(const Number *n, double value) {
    const char *digits = n->text + (*n->text == '-');
    /* 016 does not show 16 */
    if (digits[0] == '0' && isdigit((unsigned char)digits[1]))
        return false;
    /* 0 does not show 0.27 */
    if (n->half > 0.2 * fabs(value) && n->value != value)
        return false;
    return fabs(value - n->value) <= n->half * (1 + 1e-6) + 4e-16 * fabs(value);
}

/* The end of the code, the address or the file name of a picture that begins at
 * `at`; else `at`. */
static const char *skip_code(const char *at, const char *line) {
    if (at == line && begins(at, "```")) {
        /* numbers in programs' output count */
        bool code = begins(at, "```c\n") || begins(at, "```sh\n");
        const char *end = code ? strstr(at + 3, "\n```") : NULL;
        return end ? end + 4 : at + 3;
    }
    const char *end = *at == '`' && at[1] != '`' ? strchr(at + 1, '`')
                      : begins(at, "](")         ? strchr(at, ')')
                                                 : NULL;
    if (end)
        return end + 1;
    if (begins(at, "arXiv:"))
        return at + strlen("arXiv:") +
               strspn(at + strlen("arXiv:"), "0123456789.");
    return at;
}

/* The statement that contains the character at `at`. */
static int statement_of(const Chapter *c, const char *at) {
    for (int i = 1; i <= c->n_statements; i++)
        if (at >= c->start[i] && at < c->end[i])
            return i;
    return PROSE;
}

static void add_number(Chapter *c, int statement, const Number *n) {
    if (c->n_numbers[statement] == MAX_NUMBERS)
        abort();
    c->numbers[statement][c->n_numbers[statement]++] = *n;
}

static void read_numbers(Chapter *c) {
    const char *line = c->text;
    for (const char *at = c->text; *at;) {
        const char *after = skip_code(at, line);
        if (at == line && begins(at, "**") && isdigit((unsigned char)at[2]))
            after = at + strcspn(at + 2, "*") + 4;
        if (after > at) {
            at = after;
            continue;
        }
        Number n;
        size_t word =
            strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_");
        if (word) {
            at += strspn(
                at,
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
        } else if ((after = at + number_read(&n, at)) > at) {
            add_number(c, statement_of(c, at), &n);
            at = after;
        } else {
            if (*at++ == '\n')
                line = at;
        }
    }
}

/* The next heading "# " or "## "; NULL: none. */
static const char *heading_after(const char *at) {
    while ((at = strchr(at, '\n')) && !begins(at, "\n# ") &&
           !begins(at, "\n## "))
        at++;
    return at ? at + 1 : NULL;
}

static void find_statements(Chapter *c) {
    for (int i = 1; i <= MAX_STATEMENTS; i++) {
        char mark[32];
        snprintf(mark, sizeof mark, "\n**%d.** ", i);
        const char *at = strstr(c->text, mark);
        if (!at)
            break;
        c->start[c->n_statements = i] = at + 1;
    }
    for (int i = 1; i <= c->n_statements; i++) {
        const char *heading = heading_after(c->start[i]);
        c->end[i] = heading ? heading : c->text + strlen(c->text);
        for (int k = 1; k <= c->n_statements; k++)
            if (c->start[k] > c->start[i] && c->start[k] < c->end[i])
                c->end[i] = c->start[k];
    }
}

char *chapter_text(const char *path) {
    static const char *const others[] = {"depth", "published", "exercises",
                                         "appendix"};
    int stem = (int)strcspn(path, ".");
    size_t size = 0;
    char *text = file_read(path, &size);
    for (size_t i = 0; text && i < sizeof others / sizeof *others; i++) {
        char page[128];
        size_t more_size = 0;
        snprintf(page, sizeof page, "%.*s_%s%s", stem, path, others[i],
                 path + stem);
        if (access(page, R_OK))
            continue;
        char *more = file_read(page, &more_size),
             *all = realloc(text, size + more_size + 2);
        if (!more || !all)
            abort();
        size += (size_t)snprintf(all + size, more_size + 2, "\n%s", more);
        text = all;
        free(more);
    }
    return text;
}

int chapter_open(Chapter *c, const char *path) {
    *c = (Chapter){.path = path, .text = chapter_text(path)};
    if (!c->text)
        return -1;
    find_statements(c);
    for (int i = 0; i <= MAX_STATEMENTS; i++)
        if (!(c->numbers[i] = calloc(MAX_NUMBERS, sizeof **c->numbers)))
            abort();
    read_numbers(c);
    return 0;
}

void chapter_close(Chapter *c) {
    for (int i = 0; i <= MAX_STATEMENTS; i++)
        free(c->numbers[i]);
    free(c->text);
}
