/* draft.c: a smaller model that guesses what the model says next.
 *
 * Owns the check that both have one vocabulary, the draft's past, which follows the text by its positions, and what a
 * guess takes. Whether it is worth it is guess.c's business.
 */
#include "modes/draft.h"
#include "base/error.h"
#include "base/process.h"
#include "formats/open.h"
#include "formats/pack.h"
#include <string.h>

/* ---- one vocabulary -------------------------------------------------------------------------- */

/* Whether a token is the same text in both; what is never text may have other names. */
static bool same_piece(const Piece *a, const Piece *b) {
    if (a->kind == PIECE_CONTROL && b->kind == PIECE_CONTROL) return true;
    return a->length == b->length && !memcmp(a->text, b->text, (size_t)a->length);
}

static int check_tokenizers(const Options *o, const Tokenizer *model, const Tokenizer *draft) {
    const Piece *ours = model->pieces.list, *its = draft->pieces.list;
    if (draft->pieces.n != model->pieces.n)
        return fail("--draft %s: its tokenizer has %d pieces, expected %d, as %s has", o->draft, draft->pieces.n,
                    model->pieces.n, o->model);
    for (int i = 0; i < model->pieces.n; i++)
        if (!same_piece(&ours[i], &its[i]))
            return fail("--draft %s: its piece %d is '%.*s', expected '%.*s', as in %s", o->draft, i, its[i].length,
                        its[i].text, ours[i].length, ours[i].text, o->model);
    if (draft->bos != model->bos || draft->eos != model->eos)
        return fail("--draft %s: its BOS and EOS are %d and %d, expected %d and %d, as in %s", o->draft, draft->bos,
                    draft->eos, model->bos, model->eos, o->model);
    return 0;
}

static int check_vocabulary(const Draft *d, const Options *o, const Model *model, const Tokenizer *tokenizer) {
    const int size = d->model.config.vocab_size, expected = model->config.vocab_size;
    Tokenizer own; /* in this place while it is open */
    if (size != expected)
        return fail("--draft %s: its vocabulary has %d tokens, expected %d, as %s has", o->draft, size, expected,
                    o->model);
    const int found = model_open_tokenizer(&own, &d->model, o->draft, NULL, TOKENIZER_IF_THERE);
    const int status = found > 0 && tokenizer->pieces.n ? check_tokenizers(o, tokenizer, &own) : 0;
    tokenizer_close(&own);
    return found < 0 ? -1 : status;
}

/* ---- guesses --------------------------------------------------------------------------------- */

/* The sampler goes on from where the model's is, with its own memory. */
static void follow_sampler(Sampler *s, const Sampler *original) {
    const Sampler own = *s;
    *s = *original;
    s->p = own.p;
    s->candidates = own.candidates;
}

/* Runs tokens[n] from position pos on, and takes down what that takes. The token that follows; -1: it failed. */
static int next_token(Draft *d, const int *tokens, int n, int pos) {
    Source *s = &d->source;
    const double start = now();
    const float *logits = model_forward_text(&d->session, tokens, n, pos, 1);
    if (!logits || check_logits(logits, (size_t)d->model.config.vocab_size)) return -1;
    const int token = sampler_next(&d->sampler, logits);
    sampler_accept(&d->sampler, token);
    const double seconds = now() - start;
    if (pos > 0 && n == 1) time_move(&s->each, seconds); /* the first pass makes memory ready */
    if (pos > 0 && n > 1) time_move(&s->missed, (seconds - s->each.median) / (n - 1));
    tune(&d->tuning, n);
    return token;
}

static int guess(Source *s, const Tokens *said, int *guesses, int n) {
    Draft *d = (Draft *)s;
    const int room = d->session.context - said->n + 1; /* the last guess does not run */
    if (n > room) n = room;
    follow_sampler(&d->sampler, d->original);
    for (int i = 0; i < n; i++) {
        const int *tokens = i ? &guesses[i - 1] : said->ids + s->n_ran;
        guesses[i] = next_token(d, tokens, i ? 1 : said->n - s->n_ran, s->n_ran);
        if (guesses[i] < 0) return -1;
        s->n_ran = said->n + i;
    }
    return n > 0 ? n : 0;
}

/* ---- the draft ------------------------------------------------------------------------------- */

int draft_open(Draft *d, const Options *o, const Model *model, const Tokenizer *tokenizer, const Sampler *original) {
    *d = (Draft){.source.guess = guess, .original = original};
    if (model_open(&d->model, o->draft) || check_vocabulary(d, o, model, tokenizer)) return -1;
    model_pack(&d->model, o->threads, 0);
    if (session_open(&d->session, &d->model, o->threads, o->batch, o->context, d->model.kv_type)) return -1;
    session_keep_all(&d->session); /* a text that is cut may go back far */
    if (tuning_open(&d->tuning, &d->model, &d->session)) return -1;
    return sampler_open(&d->sampler, &o->sampling, d->model.config.vocab_size);
}

void draft_close(Draft *d) {
    sampler_close(&d->sampler);
    tuning_close(&d->tuning);
    if (d->session.model) session_close(&d->session);
    model_close(&d->model);
}
