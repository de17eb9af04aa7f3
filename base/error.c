/* error.c: messages to the user.
 * Tests: base, cli. */
#include "base/error.h"
#include "base/platform.h"
#include "base/utf8.h"
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void make_printable(char *text) {
    char *to = text;
    size_t n;
    for (const char *c = text, *end = text + strlen(text); c < end; c += n) {
        bool printable = utf8_is_printable(utf8_read(c, end - c, &n));
        memmove(to, printable ? c : "?", printable ? n : 1);
        to += printable ? n : 1;
    }
    *to = '\0';
}

enum { LINE = 1024 };
static bool failures_are_notes, holds;
static char held[LINE] = "failed";

void hold_messages(bool hold) {
    holds = hold;
}
void print_held_message(int rank) {
    if (holds)
        fprintf(stderr, "%s: rank %d: %s\n", program_name(), rank, held);
}

void print_failures_as_notes(bool as_notes) {
    failures_are_notes = as_notes;
}

bool has_escapes(void) {
    const char *term = getenv("TERM");
    return term && strcmp(term, "dumb");
}

bool shows_utf8(void) {
    static const char *const NAMES[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *locale = getenv(NAMES[i]);
        if (locale && *locale)
            return strcasestr(locale, "UTF-8") || strcasestr(locale, "utf8");
    }
    return false;
}

bool may_style(void) {
    const char *no_color = getenv("NO_COLOR");
    return has_escapes() && !(no_color && *no_color);
}

static volatile sig_atomic_t status_is_shown;

void show_status(const char *format, ...) {
    static const char erase[] = "\r\033[K", cut[] = "\033[?7l",
                      wrap[] = "\033[?7h";
    char line[LINE];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    make_printable(line);
    if (!has_escapes())
        return;
    status_is_shown = 1;
    fprintf(stderr, "%s%s%s%s%s%s", erase, cut, may_style() ? STYLE_DIM : "",
            line, may_style() ? NOT_DIM : "", wrap);
}

void hide_status(void) {
    static const char erase[] = "\r\033[K";
    if (!status_is_shown)
        return;
    status_is_shown = 0;
    if (write(STDERR_FILENO, erase, sizeof erase - 1) < 0)
        return; /* nothing can report it */
}

void print_message(const char *kind, const char *format, ...) {
    char line[LINE];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    make_printable(line);
    if (failures_are_notes)
        kind = "note";
    const bool is_dim = kind && may_style() && isatty(STDERR_FILENO) == 1;
    const char *begin = is_dim ? STYLE_DIM : "", *end = is_dim ? NOT_DIM : "";
    if (!holds) {
        hide_status();
        fprintf(stderr, "%s%s: %s%s\n", begin, kind ? kind : program_name(),
                line, end);
    } else if (!kind) {
        strcpy(held, line);
    }
}
