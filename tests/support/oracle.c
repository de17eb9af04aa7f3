/* oracle.c: draft tokens of known quality.
 *
 * The tests, and the program that they run, are linked with --wrap for the
 * functions in WRAPPED of the Makefile, as for wrap.c. With NORMA_ORACLE=record
 * in the environment the program drafts no tokens and writes the ids of its
 * text to the file "oracle". With NORMA_ORACLE=PERCENT each pass runs the max
 * number of draft tokens: the ids in that file, PERCENT of them replaced by
 * wrong ones, then token 1 (which is all if there is no file).
 */
#include "modes/guess.h"
#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"
#include "tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void record(const Tokens *text) {
    FILE *out = fopen("oracle", "wb");
    if (!out)
        return;
    fwrite(text->ids, sizeof *text->ids, (size_t)text->n, out);
    fclose(out);
}

/* The recorded ids from index `from` on, then token 1. */
static void replay(int *tokens, int n, int from) {
    FILE *in = fopen("oracle", "rb");
    for (int i = 0; i < n; i++)
        tokens[i] = 1;
    if (!in)
        return;
    if (!fseek(in, from * (long)sizeof *tokens, SEEK_SET))
        (void)!fread(tokens, sizeof *tokens, (size_t)n, in);
    fclose(in);
}

int __real_guesser_guess(Guesser *g, const Tokens *text, int room);
int __wrap_guesser_guess(Guesser *g, const Tokens *text, int room);
int __wrap_guesser_guess(Guesser *g, const Tokens *text, int room) {
    const char *oracle = getenv("NORMA_ORACLE");
    int n = __real_guesser_guess(g, text, room);
    if (!oracle)
        return n;
    bool records = !strcmp(oracle, "record");
    g->n = records || room < 0 ? 0 : room < MAX_LOOKUP ? room : MAX_LOOKUP;
    if (records)
        record(text);
    replay(g->tokens, g->n, text->n);
    for (int i = 0; i < g->n; i++)
        if (hash64(7, 1, (uint64_t)(text->n + i)) % 100 <
            strtoull(oracle, NULL, 10))
            g->tokens[i] = g->tokens[i] > 0 ? g->tokens[i] - 1 : 1;
    return g->n;
}
