/* draft.c: a smaller model that drafts the next tokens of a text.
 *
 * Owns the check that both models have the same vocabulary, and the draft's cache, which keeps the longest prefix that
 * it shares with the text. guess.c decides how many tokens it drafts.
 */
#include "modes/draft.h"
#include "base/error.h"
#include "formats/open.h"
#include "formats/pack.h"
#include <stdlib.h>
#include <string.h>

/* ---- one vocabulary -------------------------------------------------------------------------- */

/* Whether a token has the same text in both; names of control tokens may differ. */
static bool same_piece(const Piece *a, const Piece *b) {
    if (a->kind == PIECE_CONTROL && b->kind == PIECE_CONTROL) return true;
    return a->length == b->length && !memcmp(a->text, b->text, (size_t)a->length);
}

static int check_equal(const Options *o, const char *what, int its, int expected) {
    return its == expected
               ? 0
               : fail("--draft %s: its %s is %d, expected %d, as of %s", o->draft, what, its, expected, o->model);
}

static int check_tokenizers(const Options *o, const Tokenizer *model, const Tokenizer *draft) {
    const Piece *ours = model->pieces.list, *its = draft->pieces.list;
    if (check_equal(o, "number of pieces", draft->pieces.n, model->pieces.n)) return -1;
    for (int i = 0; i < model->pieces.n; i++)
        if (!same_piece(&ours[i], &its[i]))
            return fail("--draft %s: its piece %d is '%.*s', expected '%.*s', as of %s", o->draft, i, its[i].length,
                        its[i].text, ours[i].length, ours[i].text, o->model);
    return check_equal(o, "BOS", draft->bos, model->bos) || check_equal(o, "EOS", draft->eos, model->eos) ? -1 : 0;
}

static int check_vocabulary(const Draft *d, const Options *o, const Model *model, const Tokenizer *tokenizer) {
    Tokenizer its;
    if (check_equal(o, "vocabulary", d->model.config.vocab_size, model->config.vocab_size)) return -1;
    const int found = model_open_tokenizer(&its, &d->model, o->draft, NULL, TOKENIZER_IF_THERE);
    const int status = found > 0 && tokenizer->pieces.n ? check_tokenizers(o, tokenizer, &its) : 0;
    tokenizer_close(&its);
    return found < 0 ? -1 : status;
}

/* ---- draft tokens ---------------------------------------------------------------------------- */

/* Copies the state of the text's sampler into the draft's sampler, which keeps its own memory. */
static void copy_sampler(Sampler *to, const Sampler *from) {
    const Sampler memory = *to;
    *to = *from;
    to->p = memory.p;
    to->candidates = memory.candidates;
}

/* Runs tokens[n] after the cached ones. Returns the next token; -1 on failure. */
static int next_token(Draft *d, const int *tokens, int n) {
    const float *logits = model_forward_text(&d->session, tokens, n, d->ran.n, 1);
    if (!logits || check_logits(logits, (size_t)d->model.config.vocab_size)) return -1;
    for (int i = 0; i < n; i++)
        if (tokens_add(&d->ran, tokens[i])) return -1;
    const int token = sampler_next(&d->sampler, logits);
    sampler_accept(&d->sampler, token);
    tune(&d->tuning, n);
    return token;
}

int draft_guess(Draft *d, const Tokens *text, const Sampler *sampler, int *tokens, int n) {
    const int room = d->session.context - text->n + 1; /* the last draft token does not run */
    int same = 0;
    while (same < d->ran.n && same < text->n - 1 && d->ran.ids[same] == text->ids[same]) same++;
    d->ran.n = same;
    copy_sampler(&d->sampler, sampler);
    for (int i = 0; i < n && i < room; i++) {
        tokens[i] = i ? next_token(d, &tokens[i - 1], 1) : next_token(d, text->ids + same, text->n - same);
        if (tokens[i] < 0) return -1;
    }
    return n < room ? n : room > 0 ? room : 0;
}

/* ---- the draft ------------------------------------------------------------------------------- */

int draft_open(Draft *d, const Options *o, const Model *model, const Tokenizer *tokenizer) {
    if (model_open(&d->model, o->draft) || check_vocabulary(d, o, model, tokenizer)) return -1;
    model_pack(&d->model, o->threads);
    if (session_open(&d->session, &d->model, o->threads, o->batch, o->context, d->model.kv_type)) return -1;
    session_keep_all(&d->session); /* a chat can roll back many positions */
    if (tuning_open(&d->tuning, &d->model, &d->session)) return -1;
    return sampler_open(&d->sampler, &o->sampling, d->model.config.vocab_size);
}

void draft_close(Draft *d) {
    sampler_close(&d->sampler);
    free(d->ran.ids);
    if (d->session.model) session_close(&d->session);
    model_close(&d->model);
}
