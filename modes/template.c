/* template.c: chat templates.
 *
 * Owns how a turn of each family of chat models looks, and how the template in a file (a Jinja
 * program, which is never run) is recognised as one of them: by what it mentions. What a family's
 * templates add beyond the format, such as today's date or a system prompt of their own, is left
 * out. A template's markers become tokens, where the vocabulary has them. What the user or the
 * system prompt says is text, whatever it looks like. Who says what, and when, is chat.c's.
 */
#include "modes/template.h"
#include "base/error.h"
#include "text/merges.h"
#include <stdlib.h>
#include <string.h>

/* In a format these stand for a token or for what is said. */
#define BOS    "\1"
#define EOS    "\2"
#define USER   "\3"
#define SYSTEM "\4"
#define PROMPT "\5" /* the format of the system prompt, if there is one */

#define WHITE_SPACE " \t\n\v\f\r"

enum { MAX_MARKERS = 4 };

struct ChatFamily {
    const char *name;
    const char *mentions[3]; /* a template of this family has all of these */
    const char *never[2];    /* and none of these, which only similar families have */
    const char *markers[MAX_MARKERS];
    const char *next;   /* format in front of every turn but the first; begins with what ends an answer */
    const char *prompt; /* format of the system prompt */
    const char *turn;   /* format of a turn, up to where the answer begins */
    bool trims;         /* white space around what is said goes */
};

static const ChatFamily FAMILIES[] = {
    {.name = "llama-2", /* Touvron et al. 2023b; white space as in llama2.c */
     .mentions = {"[INST]", "<<SYS>>"},
     .markers = {"[INST]", "[/INST]", "<<SYS>>", "<</SYS>>"},
     .next = EOS BOS,
     .prompt = "<<SYS>>\n" SYSTEM "\n<</SYS>>\n\n",
     .turn = "[INST] " PROMPT USER " [/INST]"},
    {.name = "minimind", /* chatml, and an answer begins with an empty thought */
     .mentions = {"<|im_start|>", "<|im_end|>", "open_thinking"},
     .markers = {"<|im_start|>", "<|im_end|>", "<think>", "</think>"},
     .next = "<|im_end|>\n",
     .prompt = "<|im_start|>system\n" SYSTEM "<|im_end|>\n",
     .turn = PROMPT "<|im_start|>user\n" USER "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"},
    {.name = "chatml",
     .mentions = {"<|im_start|>", "<|im_end|>"},
     .never = {"<|im_sep|>"}, /* Phi 4 */
     .markers = {"<|im_start|>", "<|im_end|>"},
     .next = "<|im_end|>\n",
     .prompt = "<|im_start|>system\n" SYSTEM "<|im_end|>\n",
     .turn = PROMPT "<|im_start|>user\n" USER "<|im_end|>\n<|im_start|>assistant\n"},
    {.name = "zephyr",
     .mentions = {"<|user|>", "<|assistant|>", "eos_token"},
     .never = {"<|end|>", "[gMASK]"}, /* Phi 3, GLM 4 */
     .markers = {"<|system|>", "<|user|>", "<|assistant|>"},
     .next = EOS "\n",
     .prompt = "<|system|>\n" SYSTEM EOS "\n",
     .turn = PROMPT "<|user|>\n" USER EOS "\n<|assistant|>\n"},
    {.name = "llama-3",
     .mentions = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
     .markers = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
     .next = "<|eot_id|>",
     .prompt = "<|start_header_id|>system<|end_header_id|>\n\n" SYSTEM "<|eot_id|>",
     .turn = PROMPT "<|start_header_id|>user<|end_header_id|>\n\n" USER
                    "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
     .trims = true},
};

/* ---- opening --------------------------------------------------------------------------- */

static bool mentions(const Tokenizer *t, const char *word) {
    return memmem(t->chat_template, t->chat_template_size, word, strlen(word)) != NULL;
}

static bool is_of_family(const Tokenizer *t, const ChatFamily *f) {
    for (int i = 0; i < 3 && f->mentions[i]; i++)
        if (!mentions(t, f->mentions[i])) return false;
    for (int i = 0; i < 2 && f->never[i]; i++)
        if (mentions(t, f->never[i])) return false;
    return true;
}

/* Whether a piece is this marker: a control, special or user-defined one with its text. */
static bool is_marker(const Piece *p, const char *marker) {
    const bool special = p->kind != PIECE_TEXT && p->kind != PIECE_BYTE;
    return special && (size_t)p->length == strlen(marker) && !memcmp(p->text, marker, strlen(marker));
}

/* The first piece that is this marker; -1: none. */
static int find_marker(const Pieces *p, const char *marker) {
    for (int id = 0; id < p->n; id++)
        if (is_marker(&p->list[id], marker)) return id;
    return -1;
}

/* The family's marker at s; NULL: none. */
static const char *marker_at(const ChatFamily *f, const char *s) {
    for (int i = 0; i < MAX_MARKERS && f->markers[i]; i++)
        if (!strncmp(s, f->markers[i], strlen(f->markers[i]))) return f->markers[i];
    return NULL;
}

static bool is_white(const Piece *p) {
    for (int i = 0; i < p->length; i++)
        if (!strchr(WHITE_SPACE, p->text[i])) return false;
    return true;
}

/* From now on only the template puts the family's markers, BOS, EOS or EOT, and no text matches a
 * special piece or, where merges have ranks, an added (user-defined) one, except pieces of white space
 * alone; an added piece that merges make still comes from merging. In SentencePiece vocabularies,
 * whose pieces merge by scores, user-defined pieces go on matching. */
static void stop_matching(const ChatFamily *f, Tokenizer *t) {
    for (int id = 0; id < t->pieces.n; id++) {
        Piece *p = &t->pieces.list[id];
        bool reserved = p->kind == PIECE_SPECIAL || id == t->bos || id == t->eos || id == t->eot;
        for (int i = 0; i < MAX_MARKERS && f->markers[i]; i++) reserved |= is_marker(p, f->markers[i]);
        if (reserved)
            p->kind = PIECE_CONTROL;
        else if (p->kind == PIECE_USER && t->merges.rules && !is_white(p))
            p->kind = p->also_merged ? PIECE_TEXT : PIECE_CONTROL;
    }
}

bool chat_template_open(ChatTemplate *c, Tokenizer *t) {
    const ChatFamily *f = FAMILIES, *end = f + sizeof FAMILIES / sizeof *FAMILIES;
    while (f < end && t->chat_template && !is_of_family(t, f)) f++;
    const bool recognised = f < end;
    if (!recognised) f = FAMILIES;
    const char *end_marker = marker_at(f, f->next);
    *c = (ChatTemplate){.family = f, .name = f->name, .end = end_marker ? find_marker(&t->pieces, end_marker) : t->eos};
    c->bos = (!t->no_bos && !t->chat_has_bos) || (t->chat_template && mentions(t, "bos_token"));
    stop_matching(f, t);
    return recognised;
}

/* ---- rendering ------------------------------------------------------------------------- */

/* A turn on its way to tokens. */
typedef struct {
    const ChatTemplate *template;
    const Tokenizer *t;
    const char *system, *user;
    FILE *stream; /* writes text[size] */
    char *text;
    size_t size, done; /* bytes of text; how many of them are tokens already */
    bool space;        /* a space may go in front of what is written next: not if it continues an answer */
    bool lost;         /* some of it: there was no memory */
    Tokens *out;
} Renderer;

/* Encodes the text written since the last call; then adds a marker's token, if it is not -1. */
static int encode_written(Renderer *r, int id) {
    if (fflush(r->stream) || r->lost) return fail("out of memory");
    const bool space = r->space && (r->t->space_prefix != SPACE_ONCE || !r->out->n);
    if (tokenizer_append(r->t, r->text + r->done, r->size - r->done, space, r->out)) return -1;
    r->done = r->size;
    r->space = true;
    return id < 0 ? 0 : tokens_add(r->out, id);
}

static void say(Renderer *r, const char *said) {
    const bool trims = r->template->family->trims;
    if (trims) said += strspn(said, WHITE_SPACE);
    size_t n = strlen(said);
    while (trims && n > 0 && strchr(WHITE_SPACE, said[n - 1])) n--;
    r->lost |= fwrite(said, 1, n, r->stream) != n;
}

static int render(Renderer *r, const char *format) {
    int status = 0;
    for (const char *s = format; *s && !status;) {
        const char *marker = marker_at(r->template->family, s);
        const int id = marker ? find_marker(&r->t->pieces, marker) : -1;
        if (*s == *BOS)
            status = r->template->bos ? encode_written(r, r->t->bos) : 0;
        else if (*s == *EOS)
            status = encode_written(r, r->t->eos);
        else if (*s == *USER)
            say(r, r->user);
        else if (*s == *SYSTEM)
            say(r, r->system);
        else if (*s == *PROMPT)
            status = r->system ? render(r, r->template->family->prompt) : 0;
        else if (id >= 0)
            status = encode_written(r, id);
        else
            r->lost |= fputc(*s, r->stream) == EOF;
        s += id >= 0 ? strlen(marker) : 1;
    }
    return status;
}

int chat_template_render(const ChatTemplate *c, const Tokenizer *t, const char *system, const char *user, bool first,
                         Tokens *out) {
    Renderer r = {.template = c, .t = t, .user = user, .space = first, .out = out};
    if (first && system && *system) r.system = system;
    *out = (Tokens){0};
    r.stream = open_memstream(&r.text, &r.size);
    if (!r.stream) return fail("out of memory");
    const bool failed =
        render(&r, first ? BOS : c->family->next) || render(&r, c->family->turn) || encode_written(&r, -1);
    fclose(r.stream);
    free(r.text);
    if (!failed) return 0;
    free(out->ids);
    *out = (Tokens){0};
    return -1;
}
