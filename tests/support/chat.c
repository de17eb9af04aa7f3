/* chat.c: renders conversations turn by turn, as mode chat does. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

static void append(Tokens *to, const Tokens *from) {
    for (int i = 0; i < from->n; i++)
        if (tokens_add(to, from->ids[i])) abort();
}

int chat_tokens(const ChatTemplate *c, const Tokenizer *t, const char *system, const Exchange *turns, int n,
                Tokens *all) {
    ChatTurn last = {0};
    int status = 0;
    *all = (Tokens){0};
    for (int i = 0; i < n && !status; i++) {
        Tokens tokens, answer = {0};
        int begin;
        status = chat_template_render(c, t, system, i ? &last : NULL, turns[i].user, &tokens, &begin);
        if (status) break;
        all->n = last.begin; /* the last turn is rendered again */
        append(all, &tokens);
        tokens.n -= begin;
        memmove(tokens.ids, tokens.ids + begin, (size_t)tokens.n * sizeof *tokens.ids);
        free(last.user);
        free(last.tokens.ids);
        last = (ChatTurn){
            .user = strdup(turns[i].user), .begin = last.begin + begin, .tokens = tokens, .answer = tokens.n};
        if (i + 1 < n) status = tokenizer_append(t, turns[i].answer, strlen(turns[i].answer), NULL, false, &answer);
        append(&last.tokens, &answer);
        free(answer.ids);
    }
    free(last.user);
    free(last.tokens.ids);
    return status;
}
