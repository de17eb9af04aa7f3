/* gguf_tokenizer.c: reads the tokenizer in a GGUF file.
 *
 * Owns the metadata keys under tokenizer: pieces, scores or merges,
 * pre-tokenizer, BOS, EOS and the other tokens that end a text.
 * Tests: gguf, bpe, pieces. */
#include "base/memory.h"
#include "formats/gguf.h"
#include "formats/stored.h"
#include "text/merges.h"
#include "text/pieces.h"
#include <string.h>

typedef struct {
    Tokenizer *t;
    const Gguf *g;
    Origin origin;
    int n; /* size of the model's vocabulary */
} Loader;

/* Finds an array with one element for each piece; NULL and a message if the key
 * is missing or has another type or length. */
static const GgufValue *piece_array(Loader *l, const char *key, GgufType type) {
    const GgufValue *v = gguf_find_value(l->g, key);
    if (v && v->is_array && v->type == type && v->count == (uint64_t)l->n)
        return v;
    if (!l->origin.status)
        l->origin.status =
            fail("%s: %s is missing or not an array of %d values", l->g->path,
                 key, l->n);
    return NULL;
}

static int fill_pieces(Loader *l) {
    Pieces *pieces = &l->t->pieces;
    const GgufValue *names =
        piece_array(l, "tokenizer.ggml.tokens", GGUF_STRING);
    const GgufValue *scores =
        pieces->byte_level ? NULL
                           : piece_array(l, "tokenizer.ggml.scores", GGUF_F32);
    static const char key[] = "tokenizer.ggml.token_type";
    const GgufValue *types =
        gguf_find_value(l->g, key) ? piece_array(l, key, GGUF_I32) : NULL;
    if (l->origin.status || pieces_open(pieces, l->n))
        return -1;
    const uint8_t *at = names->at;
    char *to = pieces->texts[pieces->n_texts++] = allocate(names->bytes, 1);
    if (!to)
        return -1;
    for (int id = 0; id < l->n; id++) {
        if (scores)
            pieces->list[id].score = (float)gguf_element(scores, id).real;
        if (pieces_set(pieces, l->g->path, id, gguf_next_string(names, &at),
                       types ? gguf_element(types, id).integer
                             : PIECE_TYPE_NORMAL,
                       &to))
            return -1;
    }
    return 0;
}

static int fill_merges(Pieces *p, const Gguf *g) {
    const GgufValue *merges = gguf_find_value(g, "tokenizer.ggml.merges");
    if (!merges || !merges->is_array || merges->type != GGUF_STRING)
        return fail(
            "%s: tokenizer.ggml.merges is missing or not an array of strings",
            g->path);
    if (merges_begin(p, merges->count))
        return -1;
    const uint8_t *at = merges->at;
    for (uint64_t i = 0; i < merges->count; i++) {
        String pair = gguf_next_string(merges, &at);
        if (merges_add(p, g->path, pair.text, pair.n))
            return -1;
    }
    return merges_end(p);
}

/* Reads an integer, or a bool as an integer. */
static int64_t get_integer(Loader *l, const char *key, int64_t min,
                           int64_t missing) {
    const StoredValue v = gguf_get(l->g, key);
    return is_given(v) ? value_integer(&l->origin, key, v, min, INT64_MAX)
                       : missing;
}

/* Reads a token id. `missing`: the result if the key is missing. Published
 * files have ids outside the vocabulary; they count as absent. */
static int get_token(Loader *l, const char *key, int missing) {
    int64_t id = get_integer(l, key, -1, missing);
    if (id < l->n)
        return (int)id;
    note("%s: %s is %lld, and the vocabulary has %d pieces: none is used",
         l->g->path, key, (long long)id, l->n);
    return -1;
}

const char *const NAMED_TOKEN_KEYS[N_NAMED_TOKENS] = {
    "tokenizer.ggml.padding_token_id", "tokenizer.ggml.seperator_token_id",
    "tokenizer.ggml.cls_token_id", "tokenizer.ggml.mask_token_id"};

#define NAME(text)                                                             \
    { text, sizeof(text) - 1 }

/* Tokens that end a text because of their names, as in llama.cpp. */
static const String END_NAMES[] = {
    NAME("<|eot_id|>"),
    NAME("<|eom_id|>"),
    NAME("<|im_end|>"),
    NAME("<|end|>"),
    NAME("<|return|>"),
    NAME("<|call|>"),
    NAME("<|calls|>"),
    NAME("<|flush|>"),
    NAME("<end_of_turn>"),
    NAME("<|endoftext|>"),
    NAME("<|end_of_text|>"),
    NAME("</s>"),
    NAME("<eos>"),
    NAME("<EOT>"),
    NAME("_<EOT>"),
    NAME("[EOT]"),
    NAME("[EOS]"),
    NAME("<end_of_utterance>"),
    NAME("<turn|>"),
    NAME("<|tool_response>"),
    NAME("<｜end▁of▁sentence｜>"),
    NAME("[e~["),
};

enum { MAX_NAMES = 5 };

/* Tokens that end a text because a key has their id; without the key because
 * of the first of these names that the vocabulary has. */
static const struct KeyedEnd {
    const char *key;
    String names[MAX_NAMES];
} KEYED_ENDS[] = {
    {.key = "tokenizer.ggml.eom_token_id"}, /* its name is in END_NAMES */
    {"tokenizer.ggml.fim_pad_token_id",
     {NAME("<|fim_pad|>"), NAME("<fim-pad>"), NAME("<fim_pad>"), NAME("<PAD>"),
      NAME("[PAD]")}},
    {"tokenizer.ggml.fim_rep_token_id",
     {NAME("<|fim_repo|>"), NAME("<|repo_name|>"), NAME("<fim-repo>"),
      NAME("<REPO>"), NAME("<reponame>")}},
    {"tokenizer.ggml.fim_sep_token_id", {NAME("<|file_sep|>")}},
};

/* Finds tokens by their names in the file: ids[i] gets the last token with the
 * name names[i], -1 if there is none. */
static void find_named(const Loader *l, const String *names, int n, int *ids) {
    const GgufValue *list = gguf_find_value(l->g, "tokenizer.ggml.tokens");
    const uint8_t *at = list->at;
    bool begins[256] = {false}; /* a name, by its first byte */
    for (int i = 0; i < n; i++) {
        ids[i] = -1;
        if (names[i].n)
            begins[(uint8_t)*names[i].text] = true;
    }
    for (int id = 0; id < l->n; id++) {
        String name = gguf_next_string(list, &at);
        if (!name.n || !begins[(uint8_t)*name.text])
            continue;
        for (int i = 0; i < n; i++)
            if (name.n == names[i].n &&
                !memcmp(name.text, names[i].text, name.n))
                ids[i] = id;
    }
}

/* The token with this name of END_NAMES; -1 if there is none. */
static int *named_end(int ids[COUNT(END_NAMES)], const char *name) {
    size_t i = 0;
    while (!string_is(END_NAMES[i], name))
        i++;
    return &ids[i];
}

/* Removes the names that end no text in some vocabularies: in OpenAI's Harmony
 * and in Solar <|end|> ends a message that others may follow; Gemma 4 and PLaMo
 * have </s> as text. */
static void remove_other_uses(const Loader *l, int ids[COUNT(END_NAMES)],
                              int plamo_end) {
    bool calls =
        *named_end(ids, "<|call|>") >= 0 || *named_end(ids, "<|calls|>") >= 0;
    bool messages =
        *named_end(ids, "<|return|>") >= 0 || *named_end(ids, "<|flush|>") >= 0;
    if (calls && messages)
        *named_end(ids, "<|end|>") = -1;
    if (*named_end(ids, "<|tool_response>") >= 0 ||
        (plamo_end >= 0 && plamo_end == l->t->eos))
        *named_end(ids, "</s>") = -1;
}

/* Text with such a name matches as a special piece, too, as in llama.cpp. */
static int add_named_end(Tokenizer *t, int id) {
    Piece *p = &t->pieces.list[id];
    if (p->kind == PIECE_TEXT) {
        p->kind = PIECE_SPECIAL;
        p->also_merged = true;
        p->raw = true;
    }
    return tokens_add(&t->ends, id);
}

/* Adds the end tokens that only norma's key has. */
static int fill_other_ends(Loader *l) {
    const GgufValue *list = gguf_find_value(l->g, OTHER_ENDS_KEY);
    if (!list)
        return 0;
    if (!list->is_array || list->type != GGUF_I32 ||
        list->count > (uint64_t)l->n)
        return fail("%s: %s is not an array of at most %d ids", l->g->path,
                    OTHER_ENDS_KEY, l->n);
    for (int i = 0; i < (int)list->count; i++) {
        int64_t id = gguf_element(list, i).integer;
        if (id < 0 || id >= l->n)
            return fail("%s: %s has id %lld, expected ids below %d", l->g->path,
                        OTHER_ENDS_KEY, (long long)id, l->n);
        if (tokens_add(&l->t->ends, (int)id))
            return -1;
    }
    return 0;
}

/* Adds the end tokens besides EOS and EOT. */
static int fill_ends(Loader *l) {
    Tokenizer *t = l->t;
    if (fill_other_ends(l))
        return -1;
    /* all names at once: a large vocabulary is read only once for them */
    enum {
        PLAMO = COUNT(END_NAMES),
        KEYED,
        N_NAMES = KEYED + COUNT(KEYED_ENDS) * MAX_NAMES
    };
    String names[N_NAMES];
    int ids[N_NAMES], *keyed = ids + KEYED;
    memcpy(names, END_NAMES, sizeof END_NAMES);
    names[PLAMO] = (String)NAME("<|plamo:eos|>");
    for (size_t i = 0; i < COUNT(KEYED_ENDS); i++)
        memcpy(&names[KEYED + i * MAX_NAMES], KEYED_ENDS[i].names,
               sizeof KEYED_ENDS[i].names);
    find_named(l, names, N_NAMES, ids);
    remove_other_uses(l, ids, ids[PLAMO]);
    for (size_t i = 0; i < COUNT(END_NAMES); i++)
        if (ids[i] >= 0 && add_named_end(t, ids[i]))
            return -1;
    EACH(const struct KeyedEnd, end, KEYED_ENDS, COUNT(KEYED_ENDS)) {
        int id = get_token(l, end->key, -1);
        if (id >= 0 && tokens_add(&t->ends, id))
            return -1;
        const int *of_key = keyed + (end - KEYED_ENDS) * MAX_NAMES;
        if (gguf_find_value(l->g, end->key))
            continue;
        for (int i = 0; i < MAX_NAMES; i++)
            if (of_key[i] >= 0) {
                if (add_named_end(t, of_key[i]))
                    return -1;
                break;
            }
    }
    return 0;
}

static String get_string(Loader *l, const char *key) {
    return value_string(&l->origin, key, gguf_get(l->g, key));
}

const char *const ADVICE_KEYS[N_ADVICE] = {
    [ADVICE_TEMPERATURE] = "general.sampling.temp",
    [ADVICE_TOP_P] = "general.sampling.top_p",
    [ADVICE_TOP_K] = "general.sampling.top_k",
    [ADVICE_MIN_P] = "general.sampling.min_p",
    [ADVICE_REPEAT_PENALTY] = "general.sampling.penalty_repeat",
    [ADVICE_REPEAT_LAST] = "general.sampling.penalty_last_n"};

/* Reads the recommended sampling and the chat template. */
static int fill_advice(Loader *l) {
    Advice *advice = l->t->advice;
    static const char template_key[] = "tokenizer.chat_template";
    for (int i = 0; i < N_ADVICE; i++) {
        StoredValue v = gguf_get(l->g, ADVICE_KEYS[i]);
        /* negative: off, or all tokens */
        advice[i] = (Advice){v.kind == VALUE_INTEGER || v.kind == VALUE_REAL,
                             v.real < 0 ? 0 : v.real};
    }
    /* a window of no tokens: no penalty (here 0 is the whole text) */
    if (gguf_get(l->g, ADVICE_KEYS[ADVICE_REPEAT_LAST]).real == 0 &&
        advice[ADVICE_REPEAT_LAST].given)
        advice[ADVICE_REPEAT_PENALTY].given = advice[ADVICE_REPEAT_LAST].given =
            false;
    String template = get_string(l, template_key);
    if (l->origin.status || !gguf_find_value(l->g, template_key))
        return l->origin.status;
    return tokenizer_set_chat_template(l->t, template.text, template.n);
}

/* If add_bos_token is missing, SentencePiece vocabularies and Llama 3's and
 * Mistral's byte-level ones add BOS before a text. */
static int fill(Loader *l, const Pretokenizer *p) {
    /* norma's own key: GGUF has no standard one */
    static const char key[] = "norma.tokenizer.normalizer";
    String normalizer = get_string(l, key);
    bool scores = !p->names;
    Tokenizer *t = l->t;
    t->pieces.byte_level = !scores;
    t->normalizer = (Normalizer){.composes = normalizer.n,
                                 .replaces_invalid = scores,
                                 .replaces_mark = scores};
    t->pretokenizer = *p;
    if (normalizer.n && !string_is(normalizer, "nfc"))
        refuse_stored(&l->origin, key, gguf_get(l->g, key), "nfc");
    if (l->origin.status || fill_pieces(l))
        return -1;
    t->bos = get_token(l, "tokenizer.ggml.bos_token_id", scores ? 1 : -1);
    t->eos = get_token(l, "tokenizer.ggml.eos_token_id", scores ? 2 : -1);
    t->eot = get_token(l, "tokenizer.ggml.eot_token_id", -1);
    for (int i = 0; i < N_NAMED_TOKENS; i++)
        t->named[i] = get_token(l, NAMED_TOKEN_KEYS[i], -1);
    t->pieces.unk =
        get_token(l, "tokenizer.ggml.unknown_token_id", scores ? 0 : -1);
    t->unk = t->pieces.unk;
    if (fill_ends(l) ||
        (scores ? pieces_index(&t->pieces) : fill_merges(&t->pieces, l->g)))
        return -1;
    *t->before = t->bos;
    t->n_before = get_integer(l, "tokenizer.ggml.add_bos_token", INT64_MIN,
                              p->adds_bos) &&
                  t->bos >= 0;
    t->space_prefix =
        scores && get_integer(l, "tokenizer.ggml.add_space_prefix", INT64_MIN,
                              true)
            ? SPACE_ALWAYS
            : SPACE_NEVER;
    return fill_advice(l) ? -1 : 1;
}

static bool has_name(const Pretokenizer *p, String name) {
    for (const char *const *known = p->names; *known; known++)
        if (string_is(name, *known))
            return true;
    return false;
}

static int read_tokenizer(Loader *l, bool needed) {
    static const char pre_key[] = "tokenizer.ggml.pre";
    const Pretokenizer *p = PRETOKENIZERS;
    String model = get_string(l, "tokenizer.ggml.model");
    String pre = get_string(l, pre_key);
    if (l->origin.status)
        return -1;
    bool byte_level = string_is(model, "gpt2");
    if (byte_level && (!pre.n || string_is(pre, "default"))) {
        note("%s does not name its pre-tokenizer (%s): GPT-2's is used",
             l->g->path, pre_key);
        pre = (String){"gpt-2", 5};
    }
    while (p->names && !(byte_level && has_name(p, pre)))
        p++;
    if (p->names || string_is(model, "llama"))
        return fill(l, p);
    if (!needed)
        return 0;
    const char *what = byte_level ? pre_key : "tokenizer of kind";
    return fail("%s: %s '%.*s' is not supported; use --tokens", l->g->path,
                what, SHOWN(byte_level ? pre : model));
}

int gguf_read_tokenizer(Tokenizer *t, File *file, const char *path,
                        int vocab_size, bool needed) {
    Gguf g = {0};
    *t = NO_TOKENIZER;
    Loader l = {.t = t, .g = &g, .origin = {.path = path}, .n = vocab_size};
    int found = gguf_open(&g, path, file) ? -1 : read_tokenizer(&l, needed);
    gguf_close(&g);
    if (found < 0)
        tokenizer_close(t);
    return found;
}
