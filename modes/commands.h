/* commands.h: the commands of a chat. */
#pragma once

#include "base/memory.h"

typedef enum {
    COMMAND_NONE, /* a message has been printed */
    COMMAND_BYE,
    COMMAND_CLEAR,
    COMMAND_HELP,
    COMMAND_LOAD,
    COMMAND_REGEN,
    COMMAND_SAVE,
    COMMAND_SAVE_OVER,
    COMMAND_SET,
    COMMAND_SHOW,
    COMMAND_UNDO
} Command;

/* The command of a line that begins with "/". *argument: its argument, with the
 * home folder for "~"; the caller frees it. Says what is missing or what is
 * nearest to an unknown command. */
Command command_read(const char *line, char **argument);

/* Prints the commands and keys on stderr, in lines of the terminal's width. */
void commands_help(void);

/* Completes a command, its option or its path (Completer of text/editor.h). */
size_t commands_complete(const char *text, size_t n, Buffer *candidates);
