/* commands.c: the commands of a chat.
 *
 * Owns their names, arguments, help and completion. chat.c executes them.
 * Tests: chat.
 */
#include "modes/commands.h"
#include "base/distance.h"
#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "modes/options.h"
#include "text/stream.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { NO_ARGUMENT, A_FILE, AN_OPTION } Argument;

typedef struct {
    const char *name;
    Command command;
    Argument argument;
    const char *help; /* NULL: another name of the command before */
} Row;

static const Row ROWS[] = {
    {"/help", COMMAND_HELP, NO_ARGUMENT, "shows this text"},
    {"/?", COMMAND_HELP, NO_ARGUMENT, NULL},
    {"/bye", COMMAND_BYE, NO_ARGUMENT, "leaves, as does Ctrl-D"},
    {"/exit", COMMAND_BYE, NO_ARGUMENT, NULL},
    {"/quit", COMMAND_BYE, NO_ARGUMENT, NULL},
    {"/clear", COMMAND_CLEAR, NO_ARGUMENT, "starts a new conversation"},
    {"/undo", COMMAND_UNDO, NO_ARGUMENT, "removes the last message and answer"},
    {"/regen", COMMAND_REGEN, NO_ARGUMENT, "answers again"},
    {"/show", COMMAND_SHOW, NO_ARGUMENT, "shows the conversation"},
    {"/set", COMMAND_SET, AN_OPTION,
     "NAME VALUE: changes an option; alone, shows all"},
    {"/save", COMMAND_SAVE, A_FILE, "FILE: keeps the conversation as JSON"},
    {"/save!", COMMAND_SAVE_OVER, A_FILE,
     "FILE: replaces a file that is no conversation"},
    {"/load", COMMAND_LOAD, A_FILE, "FILE: goes on with a conversation"},
};

static const char KEYS[] = /* and what they do */
    "Ctrl-C stops an answer. Alt-Enter or Ctrl-J adds a line, as does Enter between two \"\"\". "
    "Tab completes commands, Ctrl-R searches the messages sent before, Ctrl-Y brings back what Ctrl-K, U, W removed, "
    "Ctrl-_ undoes.";

/* ---- help --------------------------------------------------------------- */

void commands_help(void) {
    const int columns = terminal_size().columns;
    EACH(const Row, row, ROWS, COUNT(ROWS))
        if (row->help)
            write_words(stderr, row->help, fprintf(stderr, "%-7s", row->name),
                        columns);
    write_words(stderr, KEYS, 0, columns);
}

/* ---- reading ------------------------------------------------------------ */

static void report_unknown(const char *name) {
    const Row *nearest = ROWS;
    EACH(const Row, row, ROWS, COUNT(ROWS))
        if (edit_distance(name, row->name) < edit_distance(name, nearest->name))
            nearest = row;
    if (strlen(name) < 24 && edit_distance(name, nearest->name) <= NEAR)
        note("unknown command %s; did you mean %s? /help lists the commands",
             name, nearest->name);
    else
        note(
            "unknown command %.40s; /help lists the commands, // sends a line that begins with /",
            name);
}

/* A path with the home folder for a "~" at its begin. NULL and a message if out
 * of memory. */
static char *expand(const char *path) {
    const char *home = getenv("HOME");
    const bool is_home = *path == '~' && (!path[1] || path[1] == '/') && home;
    char *whole;
    if (asprintf(&whole, "%s%s", is_home ? home : "", path + is_home) >= 0)
        return whole;
    fail("out of memory: a path");
    return NULL;
}

static const Row *find_row(const char *name, size_t n) {
    EACH(const Row, row, ROWS, COUNT(ROWS))
        if (strlen(row->name) == n && !strncmp(row->name, name, n))
            return row;
    return NULL;
}

Command command_read(const char *line, char **argument) {
    const size_t n = strcspn(line, " ");
    const char *rest = line + n + strspn(line + n, " ");
    const Row *row = find_row(line, n);
    *argument = NULL;
    if (!row) {
        char name[48];
        snprintf(name, sizeof name, "%.*s", (int)n, line);
        report_unknown(name);
        return COMMAND_NONE;
    }
    if (row->argument == NO_ARGUMENT && *rest) {
        note("%s takes no argument: '%.40s'", row->name, rest);
        return COMMAND_NONE;
    }
    if (row->argument == A_FILE && !*rest) {
        note("%s lacks the name of a file: %s FILE", row->name, row->name);
        return COMMAND_NONE;
    }
    if (!*rest)
        return row->command;
    *argument = row->argument == A_FILE ? expand(rest) : strdup(rest);
    return *argument ? row->command : COMMAND_NONE;
}

/* ---- completion --------------------------------------------------------- */

static void complete_name(const char *begin, size_t n, Buffer *candidates) {
    EACH(const Row, row, ROWS, COUNT(ROWS)) {
        if (strncmp(row->name, begin, n))
            continue;
        buffer_append(candidates, row->name, strlen(row->name));
        if (row->argument != NO_ARGUMENT)
            buffer_append(candidates, " ", 1);
        buffer_append(candidates, "", 1);
    }
}

/* Completes the last name of a path; returns its length. */
static size_t complete_path(const char *path, Buffer *candidates) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *folder = expand(path);
    if (!folder)
        return 0;
    char *end = strrchr(folder, '/');
    end = end ? end + 1 : folder;
    *end = '\0';
    list_names(folder, name, candidates);
    free(folder);
    return strlen(name);
}

size_t commands_complete(const char *text, size_t n, Buffer *candidates) {
    const size_t n_name = strcspn(text, " ");
    if (n_name >= n) {
        complete_name(text, n, candidates);
        return 0;
    }
    const Row *row = find_row(text, n_name);
    char *argument = row ? strndup(text + n_name + 1, n - n_name - 1) : NULL;
    size_t n_last = 0; /* bytes that a candidate replaces */
    if (argument && row->argument == A_FILE)
        n_last = complete_path(argument, candidates);
    else if (argument && row->argument == AN_OPTION)
        n_last = options_complete(argument, candidates);
    free(argument);
    return n - n_last;
}
