/* chat.c: renders conversations, as mode chat does. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TURNS = 8 };

int chat_tokens(const ChatTemplate *c, const Tokenizer *t, const char *system,
                const Exchange *turns, int n, Tokens *all) {
    ChatTurn given[MAX_TURNS] = {{0}};
    int status = 0;
    for (int i = 0; i < n && !status; i++) {
        given[i].user = (char *)turns[i].user;
        if (i + 1 < n)
            status =
                tokenizer_append(t, turns[i].answer, strlen(turns[i].answer),
                                 NULL, false, &given[i].answer);
    }
    if (!status)
        status = chat_template_render(
            c, t, &(Conversation){.turns = given, .n = n, .system = system},
            all);
    for (int i = 0; i < n; i++)
        free(given[i].answer.ids);
    return status;
}
