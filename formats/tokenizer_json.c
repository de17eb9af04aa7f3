/* tokenizer_json.c: reads the tokenizer of a Hugging Face folder.
 *
 * Owns tokenizer.json with byte-pair encoding, and the files next to it with
 * special tokens, end tokens and the chat template. Options that change the
 * tokens are honoured or refused by name. tokenizer.c encodes.
 * Tests: bpe, growth.
 */
#include "base/error.h"
#include "base/file.h"
#include "formats/folder.h"
#include "formats/json.h"
#include "formats/map.h"
#include "formats/sentencepiece.h"
#include "text/merges.h"
#include "text/pieces.h"
#include <limits.h>
#include <string.h>

const char *const TOKEN_NAMES[] = {"bos_token", "eos_token", "unk_token",
                                   "pad_token", "sep_token", "cls_token",
                                   "mask_token"};

typedef struct {
    Tokenizer *t;
    const char *path; /* of the file being read */
    JsonFile json;    /* its contents */
    bool adds_after;  /* adds tokens after every text */
    /* the normalizer and the pre-tokenizer, or its steps, are not supported
     * together */
    bool mixed;
} Loader;

/* Reads a value of the file, or the whole file. */
typedef int Read(Loader *l, const Json *value);

static int refuse(const Loader *l, const char *what, const Json *value,
                  const char *expected) {
    return fail("%s: %s is %.80s, expected %s", l->path, what,
                json_shown(value), expected);
}

/* An option that is true or false; `missing` if it is neither. */
static bool flag(const Json *object, const char *key, bool missing) {
    const Json *value = json_get(object, key);
    return json_has_kind(value, JSON_BOOL) ? json_true(value) : missing;
}

/* ---- the vocabulary ----------------------------------------------------- */

/* The id of a piece of the model; -1 and a message if it is not one. */
static int get_id(const Loader *l, const char *what, const Json *value) {
    int64_t id = -1;
    int n = l->t->pieces.n;
    if (!json_integer(value, &id) || id < 0 || id >= n)
        return fail("%s: %s has id %.20s, expected one of the model's %d",
                    l->path, what, json_shown(value), n);
    return (int)id;
}

static bool has_name(const Piece *p, const Json *name) {
    return (size_t)p->length == name->length &&
           !memcmp(p->text, name->text, name->length);
}

static int read_vocabulary(Loader *l, const Json *vocab) {
    if (!json_has_kind(vocab, JSON_OBJECT))
        return refuse(l, "model.vocab", vocab, "an object");
    JSON_EACH(name, vocab, JSON_OBJECT) {
        int id = get_id(l, "a piece of model.vocab", name + 1);
        if (id < 0)
            return -1;
        Piece *p = &l->t->pieces.list[id];
        if (p->length)
            return fail("%s: model.vocab has id %d twice, also for '%.40s'",
                        l->path, id, name->text);
        *p = (Piece){
            .text = name->text, .length = name->length, .kind = PIECE_TEXT};
    }
    return 0;
}

/* A token's name: the token, or a member of it. */
static const Json *name_of(const Json *token) {
    return json_has_kind(token, JSON_OBJECT) ? json_get(token, "content")
                                             : token;
}

/* The piece of any kind with this name; `missing` if not found. */
static int find_name(const Loader *l, const Json *name, int missing) {
    const Pieces *p = &l->t->pieces;
    name = name_of(name);
    if (!json_has_kind(name, JSON_STRING) || !name->length)
        return missing;
    for (int id = 0; id < p->n; id++)
        if (has_name(&p->list[id], name))
            return id;
    return missing;
}

/* Reads an added token: a piece of the vocabulary, or one after its end. */
static int read_added(Loader *l, const Json *added, const Json *given) {
    const Json *name = name_of(added);
    int64_t wide = 0;
    if (!json_has_kind(name, JSON_STRING) || !name->length)
        return refuse(l, "an added token", name, "text");
    if (json_integer(given, &wide) && wide >= l->t->pieces.n)
        return 0; /* ignored: the embedding has no row for it */
    int id = get_id(l, name->text, given);
    if (id < 0)
        return -1;
    Piece *p = &l->t->pieces.list[id];
    bool in_vocabulary = p->kind == PIECE_TEXT || p->also_merged,
         normalized = flag(added, "normalized", false);
    if (p->length && !has_name(p, name))
        return fail("%s: added token '%.40s' has id %d of another piece",
                    l->path, name->text, id);
    *p = (Piece){
        .text = name->text,
        .length = name->length,
        /* the vocabulary's copy of the name */
        .decoded = in_vocabulary ? (char *)(uintptr_t)p->text : NULL,
        .n_decoded = name->length,
        .kind = flag(added, "special", false) ? PIECE_SPECIAL : PIECE_USER,
        .also_merged = in_vocabulary,
        .raw = !normalized,
        .strips_left = flag(added, "lstrip", false),
        .strips_right = flag(added, "rstrip", false),
        .single_word = flag(added, "single_word", false),
        .after_space = normalized && l->t->space_prefix == SPACE_ALWAYS};
    return 0;
}

/* ---- the model: merges -------------------------------------------------- */

/* Reads a merge: "a b" in old files, ["a", "b"] in newer ones. */
static int read_merge(Loader *l, const Json *merge) {
    Pieces *p = &l->t->pieces;
    const Json *left = merge + 1, *right = merge + 2;
    if (merge->kind == JSON_STRING)
        return merges_add(p, l->path, merge->text, merge->length);
    if (merge->kind != JSON_ARRAY || merge->length != 2 ||
        left->kind != JSON_STRING || right->kind != JSON_STRING)
        return refuse(l, "a merge", merge, "two pieces");
    return merges_add_pair(p, l->path, left->text, left->length, right->text,
                           right->length);
}

static int check_model(const Loader *l, const Json *model) {
    static const char *const unused[] = {"continuing_subword_prefix",
                                         "end_of_word_suffix", "dropout"};
    const Json *type = json_get(model, "type");
    if (type ? !json_is(type, "BPE") : !json_get(model, "merges"))
        return refuse(l, "model.type", type, "BPE");
    for (int i = 0; i < 3; i++) {
        const Json *value = json_get(model, unused[i]);
        double number = 1;
        json_real(value, &number);
        if (!json_null(value) && !json_is(value, "") && number != 0)
            return refuse(l, unused[i], value, "none");
    }
    return 0;
}

static int read_merges(Loader *l, const Json *model) {
    Pieces *p = &l->t->pieces;
    const Json *merges = json_get(model, "merges");
    if (!json_has_kind(merges, JSON_ARRAY))
        return refuse(l, "model.merges", merges, "a list");
    p->unk = find_name(l, json_get(model, "unk_token"), -1);
    p->fuses_unknown = flag(model, "fuse_unk", false);
    p->no_bytes = !flag(model, "byte_fallback", false);
    l->t->pretokenizer.whole_words = flag(model, "ignore_merges", false);
    if (merges_begin(p, merges->length))
        return -1;
    JSON_EACH(merge, merges, JSON_ARRAY)
        if (read_merge(l, merge))
            return -1;
    return merges_end(p);
}

/* ---- the normalizer and the pre-tokenizer ------------------------------- */

static int read_normalizer(Loader *l, const Json *n) {
    const Json *type = json_get(n, "type");
    Tokenizer *t = l->t;
    if (json_is(type, "NFC"))
        t->normalizer.composes = true;
    else if (json_is(type, "Prepend") &&
             json_is(json_get(n, "prepend"), SPACE_MARK))
        t->space_prefix = SPACE_ALWAYS;
    else if (json_is(type, "Replace") &&
             json_is(json_get(json_get(n, "pattern"), "String"), " ") &&
             json_is(json_get(n, "content"), SPACE_MARK))
        t->normalizer.replaces_mark = true;
    else if (!json_null(n))
        return refuse(l, "a normalizer", type,
                      "NFC, or Prepend and Replace of spaces by U+2581");
    return 0;
}

static int add_step(Loader *l, const char *pattern) {
    const char **steps = l->t->pretokenizer.steps;
    int n = 0;
    while (steps[n])
        n++;
    if (n == MAX_STEPS)
        return fail("%s: more than %d pre-tokenizers", l->path, MAX_STEPS);
    steps[n] = pattern;
    return 0;
}

static int read_byte_level(Loader *l, const Json *p) {
    Tokenizer *t = l->t;
    bool prefix = flag(p, "add_prefix_space", false);
    l->mixed |= prefix && *t->pretokenizer.steps;
    t->pieces.byte_level = true;
    t->space_prefix = prefix ? SPACE_IF_NONE : SPACE_NEVER;
    return flag(p, "use_regex", true) ? add_step(l, PATTERN_GPT2) : 0;
}

static bool is_known(const char *pattern) {
    for (const Pretokenizer *p = PRETOKENIZERS; p->names; p++)
        for (const char *const *step = p->steps; *step; step++)
            if (!strcmp(*step, pattern))
                return true;
    return false;
}

/* Reads a Split. Text between matches is a word, too. With "Removed" and invert
 * it is dropped; the pattern must match all text. */
static int read_split(Loader *l, const Json *p) {
    const Json *pattern = json_get(p, "pattern"),
               *behavior = json_get(p, "behavior");
    const Json *regex = json_get(pattern, "Regex"),
               *text = json_get(pattern, "String");
    /* Gemma: no spaces are left */
    if (json_is(text, " ") && l->t->normalizer.replaces_mark)
        return 0;
    if (!regex || !is_known(regex->text))
        return refuse(l, "the pattern of a pre-tokenizer Split",
                      regex ? regex : text, "one of a supported model");
    if (!json_is(behavior, "Isolated") &&
        !(json_is(behavior, "Removed") && flag(p, "invert", false) &&
          strstr(regex->text, "[^\\s\\p{L}\\p{N}]+")))
        return refuse(l, "the behavior of a pre-tokenizer Split", behavior,
                      "Isolated");
    return add_step(l, regex->text);
}

static int read_metaspace(Loader *l, const Json *p) {
    const Json *scheme = json_get(p, "prepend_scheme"),
               *mark = json_get(p, "replacement");
    /* the older option */
    bool always =
        scheme ? json_is(scheme, "always") : flag(p, "add_prefix_space", true);
    bool first = json_is(scheme, "first");
    if (!json_is(mark, SPACE_MARK))
        return refuse(l, "Metaspace's replacement", mark, "U+2581");
    if (scheme && !always && !first && !json_is(scheme, "never"))
        return refuse(l, "Metaspace's prepend_scheme", scheme,
                      "always, first or never");
    l->t->normalizer.replaces_mark = true;
    l->t->space_prefix = always  ? SPACE_IF_NONE
                         : first ? SPACE_ONCE
                                 : SPACE_NEVER;
    return flag(p, "split", true) ? add_step(l, PATTERN_SPACED) : 0;
}

static int read_pretokenizer(Loader *l, const Json *p) {
    const Json *type = json_get(p, "type");
    if (json_null(p))
        return 0;
    l->mixed |= l->t->pieces.byte_level;
    if (json_is(type, "ByteLevel"))
        return read_byte_level(l, p);
    if (json_is(type, "Split"))
        return read_split(l, p);
    if (json_is(type, "Digits"))
        return add_step(l, flag(p, "individual_digits", false)
                               ? PATTERN_DIGIT
                               : PATTERN_DIGITS);
    if (json_is(type, "Metaspace") && !*l->t->pretokenizer.steps)
        return read_metaspace(l, p);
    return refuse(l, "a pre-tokenizer", type,
                  "ByteLevel, Split, Digits, or Metaspace as the first");
}

/* Reads one item, or a sequence of items. */
static int read_each(Loader *l, const Json *value, const char *members,
                     Read *read) {
    const Json *list = json_get(value, members);
    if (!json_is(json_get(value, "type"), "Sequence"))
        return read(l, value);
    if (!json_has_kind(list, JSON_ARRAY))
        return refuse(l, members, list, "a list");
    JSON_EACH(member, list, JSON_ARRAY)
        if (read(l, member))
            return -1;
    return 0;
}

/* Reads the normalizer and the pre-tokenizer. Either may insert a space before
 * a text, but not both. */
static int read_pipeline(Loader *l, const Json *root) {
    Tokenizer *t = l->t;
    if (read_each(l, json_get(root, "normalizer"), "normalizers",
                  read_normalizer))
        return -1;
    bool prepends = t->space_prefix == SPACE_ALWAYS;
    if (read_each(l, json_get(root, "pre_tokenizer"), "pretokenizers",
                  read_pretokenizer))
        return -1;
    l->mixed |= prepends && (!t->normalizer.replaces_mark ||
                             t->space_prefix != SPACE_ALWAYS);
    l->mixed |= t->pieces.byte_level && t->normalizer.replaces_mark;
    return l->mixed
               ? fail(
                     "%s: this normalizer and pre-tokenizer are not supported together",
                     l->path)
               : 0;
}

/* Reads which tokens are added before a text. */
static int read_processor(Loader *l, const Json *processor) {
    const Json *type = json_get(processor, "type");
    Tokenizer *t = l->t;
    /* the template's item for the text itself has been read */
    bool after = false;
    /* it changes offsets, not tokens */
    if (json_null(processor) || json_is(type, "ByteLevel"))
        return 0;
    if (!json_is(type, "TemplateProcessing"))
        return refuse(l, "a post-processor", type,
                      "ByteLevel or TemplateProcessing");
    JSON_EACH(item, json_get(processor, "single"), JSON_ARRAY) {
        const Json *token = json_get(item, "SpecialToken"),
                   *name = json_get(token, "id");
        after |= !token;
        l->adds_after |= token && after;
        if (after)
            continue;
        int id = find_name(l, name, -1);
        if (id < 0 || t->n_before == MAX_BEFORE)
            return refuse(l, "a token of TemplateProcessing", name,
                          "a piece, and at most 4 before a text");
        t->before[t->n_before++] = id;
        t->bos = *t->before;
    }
    return 0;
}

/* ---- files --------------------------------------------------------------- */

static int read_file(Tokenizer *t, const char *path, Read *read) {
    Loader l = {.t = t, .path = path};
    int status = -(json_open(&l.json, path) || read(&l, l.json.values));
    if (l.adds_after)
        note("%s adds tokens after every text; norma does not", path);
    /* the pieces' names are in it */
    t->pieces.texts[t->pieces.n_texts++] = l.json.text;
    l.json.text = NULL;
    json_close(&l.json);
    return status;
}

/* Reads another file of the folder, if it exists, with `read`; a chat template
 * if `read` is NULL. */
static int read_sibling(Tokenizer *t, const char *sibling, const char *name,
                        Read *read) {
    char path[PATH_MAX];
    if (snprintf(path, PATH_MAX, "%.*s%s", (int)folder_size(sibling), sibling,
                 name) >= PATH_MAX ||
        !file_exists(path))
        return 0;
    if (read)
        return read_file(t, path, read);
    File file;
    if (map_model_file(&file, path))
        return -1;
    int status =
        tokenizer_set_chat_template(t, (const char *)file.data, file.size);
    file_unmap(&file);
    return status;
}

/* ---- the other files of the folder --------------------------------------- */

/* Reads tokenizer_config.json, or an older file with a part of it;
 * add_bos_token counts with a tokenizer.model only, as in transformers 5.
 * The chat template is a text, or a list of named texts with one named
 * "default". */
static int read_config(Loader *l, const Json *root) {
    Tokenizer *t = l->t;
    const Json *text = json_get(root, "chat_template");
    t->bos = find_name(l, json_get(root, "bos_token"), t->bos);
    t->eos = find_name(l, json_get(root, "eos_token"), t->eos);
    for (int i = 0; i < 4; i++)
        t->named[i] =
            find_name(l, json_get(root, TOKEN_NAMES[3 + i]), t->named[i]);
    if (!t->pieces.rules) {
        *t->before = t->bos;
        t->n_before = t->bos >= 0 && flag(root, "add_bos_token", t->n_before);
    }
    JSON_EACH(v, text, JSON_ARRAY)
        if (json_is(json_get(v, "name"), "default"))
            text = json_get(v, "template");
    return json_has_kind(text, JSON_STRING)
               ? tokenizer_set_chat_template(t, text->text, text->length)
               : 0;
}

/* Reads an id that ends a text. Published files have ids that no token has,
 * such as -1: no text ends there. */
static int read_end(Loader *l, const Json *id) {
    Tokens *ends = &l->t->ends;
    int64_t token = -1;
    if (json_null(id))
        return 0;
    if (!json_integer(id, &token))
        return refuse(l, "eos_token_id", id, "a token's id");
    if (token >= 0 && token < l->t->pieces.n)
        return tokens_add(ends, (int)token);
    note(
        "%s: eos_token_id is %.20s, and the vocabulary has %d pieces: it ends no text",
        l->path, json_shown(id), l->t->pieces.n);
    return 0;
}

/* Reads the ids that end a text: one, or a list. */
static int read_ends(Loader *l, const Json *root) {
    Tokenizer *t = l->t;
    const Json *value = json_get(root, "eos_token_id");
    if (!json_has_kind(value, JSON_ARRAY) && read_end(l, value))
        return -1;
    JSON_EACH(id, value, JSON_ARRAY)
        if (read_end(l, id))
            return -1;
    if (t->eos < 0 && t->ends.n)
        t->eos = t->ends.ids[0];
    return 0;
}

/* Reads generation_config.json. */
static int read_generation(Loader *l, const Json *root) {
    /* rules that norma lacks */
    static const char *const rules[] = {"no_repeat_ngram_size",
                                        "suppress_tokens",
                                        "begin_suppress_tokens",
                                        "bad_words_ids",
                                        "sequence_bias",
                                        "min_length",
                                        "min_new_tokens",
                                        "epsilon_cutoff",
                                        "eta_cutoff",
                                        "typical_p",
                                        "num_beams",
                                        "guidance_scale"};
    char *ignored = l->t->ignored;
    Advice *advice = l->t->advice;
    for (int i = 0; i < N_ADVICE; i++)
        advice[i].given =
            json_real(json_get(root, ADVICE_NAMES[i]), &advice[i].value);
    /* covers the prompt and the whole text */
    advice[ADVICE_REPEAT_LAST] =
        (Advice){.given = advice[ADVICE_REPEAT_PENALTY].given};
    if (!flag(root, "do_sample", false))
        advice[ADVICE_TEMPERATURE] = (Advice){true, 0};
    for (int i = 0; i < 12; i++) {
        const Json *rule = json_get(root, rules[i]);
        double number = i > 8; /* of these 1 has no effect */
        json_real(rule, &number);
        if (number != (i > 8) || json_members(rule, JSON_ARRAY))
            ignored += sprintf(ignored, " %s", rules[i]);
    }
    return read_ends(l, root);
}

/* Reads the old file of added tokens. */
static int read_added_tokens(Loader *l, const Json *root) {
    JSON_EACH(name, root, JSON_OBJECT)
        if (read_added(l, name, name + 1))
            return -1;
    return 0;
}

static void mark_special(Loader *l, const Json *name) {
    int id = find_name(l, name, -1);
    if (id < 0)
        return;
    Piece *p = &l->t->pieces.list[id];
    p->also_merged |= p->kind == PIECE_TEXT;
    p->kind = PIECE_SPECIAL;
    p->raw = true;
}

/* Special tokens are pieces that match the raw text, also if only their names
 * are given. */
static int read_special(Loader *l, const Json *root) {
    for (int i = 0; i < N_TOKEN_NAMES; i++)
        mark_special(l, json_get(root, TOKEN_NAMES[i]));
    JSON_EACH(name, json_get(root, "additional_special_tokens"), JSON_ARRAY)
        mark_special(l, name);
    return 0;
}

/* Reads the added tokens of tokenizer_config.json, whose flags count, and what
 * its class says of the space before a text, whatever tokenizer.json says. */
static int read_decoder(Loader *l, const Json *root) {
    const Json *class = json_get(root, "tokenizer_class");
    if (!l->t->pieces.byte_level && (json_is(class, "LlamaTokenizer") ||
                                     json_is(class, "LlamaTokenizerFast")))
        l->t->space_prefix = !flag(root, "add_prefix_space", true) ? SPACE_NEVER
                             : flag(root, "legacy", false) ? SPACE_IF_NONE
                                                           : SPACE_ONCE;
    JSON_EACH(key, json_get(root, "added_tokens_decoder"), JSON_OBJECT) {
        Json id = *key;
        id.kind = JSON_NUMBER;
        if (read_added(l, key + 1, &id))
            return -1;
    }
    read_special(l, root);
    return 0;
}

/* Reads the files next to the vocabulary that add to its pieces. */
static int read_additions(Tokenizer *t, const char *path) {
    return -(read_sibling(t, path, "added_tokens.json", read_added_tokens) ||
             read_sibling(t, path, "tokenizer_config.json", read_decoder) ||
             read_sibling(t, path, "special_tokens_map.json", read_special));
}

static int read_root(Loader *l, const Json *root) {
    const Json *model = json_get(root, "model");
    if (check_model(l, model) || read_pipeline(l, root) ||
        read_vocabulary(l, json_get(model, "vocab")))
        return -1;
    JSON_EACH(v, json_get(root, "added_tokens"), JSON_ARRAY)
        if (read_added(l, v, json_get(v, "id")))
            return -1;
    return -(read_additions(l->t, l->path) || read_merges(l, model) ||
             read_each(l, json_get(root, "post_processor"), "processors",
                       read_processor));
}

static int read_pieces(Tokenizer *t, const char *path) {
    if (!has_ending(path, ".model"))
        return read_file(t, path, read_root);
    return -(sentencepiece_read(t, path) || read_additions(t, path) ||
             pieces_index(&t->pieces));
}

int tokenizer_open_folder(Tokenizer *t, const char *path, int vocab_size) {
    *t = NO_TOKENIZER;
    t->space_prefix = SPACE_NEVER;
    t->chat_has_bos = true;
    if (!pieces_open(&t->pieces, vocab_size) && !read_pieces(t, path) &&
        !read_sibling(t, path, "chat_template.json", read_config) &&
        !read_sibling(t, path, "tokenizer_config.json", read_config) &&
        !read_sibling(t, path, "special_tokens_map.json", read_config) &&
        !read_sibling(t, path, "chat_template.jinja", NULL) &&
        !read_sibling(t, path, "generation_config.json", read_generation) &&
        (t->ends.n || !read_sibling(t, path, "config.json", read_ends)))
        return 0;
    tokenizer_close(t);
    return -1;
}
