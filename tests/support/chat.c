/* chat.c: renders conversations, as mode chat does. */
#include "modes/template.h"
#include "tokenizer.h"

#include "tests/support/chat.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

int chat_tokens(const ChatTemplate *c, const Tokenizer *t, const char *system,
                const Exchange *turns, int n, Tokens *all) {
    Conversation talk = {.system = system};
    for (int i = 0; i < 2 * n - 1; i++) {
        const char *text = i % 2 ? turns[i / 2].answer : turns[i / 2].user;
        if (!conversation_add(&talk, text, strlen(text)))
            abort();
    }
    int status = chat_template_render(c, t, &talk, all);
    conversation_close(&talk);
    return status;
}
