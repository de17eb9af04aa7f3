/* tokenizer_json.c: reads the tokenizer of a Hugging Face folder.
 *
 * Owns tokenizer.json with byte-pair encoding, and the files next to it with
 * special tokens, end tokens and the chat template. Options that change the
 * tokens are honoured or refused by name. tokenizer.c encodes.
 * Tests: bpe, growth.
 */
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "formats/folder.h"
#include "formats/json.h"
#include "formats/map.h"
#include "formats/sentencepiece.h"
#include "text/merges.h"
#include "text/pieces.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

const char *const TOKEN_NAMES[] = {"bos_token", "eos_token", "unk_token",
                                   "pad_token", "sep_token", "cls_token",
                                   "mask_token"};

typedef struct {
    Tokenizer *t;
    /* [pieces.mask + 1], owned: hash table of the names of pieces of all kinds;
     * -1 = free slot */
    int32_t *names;
    int64_t next_id;  /* the id of the next token that the vocabulary lacks */
    const char *path; /* the file being read */
    JsonFile json;    /* its contents */
    /* config.json: transformers takes tokenizer.json word for word, whatever
     * the class of the tokenizer is */
    bool word_for_word;
    /* the class is LlamaTokenizer: of config.json, of either file */
    bool llama_class;
    bool of_model;    /* the vocabulary is in a tokenizer.model */
    bool has_decoder; /* tokenizer_config.json has added_tokens_decoder */
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

/* A token's name: the token, or a member of it. */
static const Json *name_of(const Json *token) {
    return json_has_kind(token, JSON_OBJECT) ? json_get(token, "content")
                                             : token;
}

/* The slot of the piece with this name, or the free slot where it would go. */
static int32_t *name_slot(const Loader *l, const char *name, size_t n) {
    const Pieces *p = &l->t->pieces;
    size_t slot = hash_bytes(p->key, name, n) & p->mask;
    for (; l->names[slot] >= 0; slot = (slot + 1) & p->mask) {
        const Piece *piece = &p->list[l->names[slot]];
        if ((size_t)piece->length == n && !memcmp(piece->text, name, n))
            break;
    }
    return &l->names[slot];
}

/* Of two pieces with the same name, the one with the lower id is found. */
static void add_name(Loader *l, int id) {
    const Piece *p = &l->t->pieces.list[id];
    int32_t *slot = name_slot(l, p->text, p->length);
    if (*slot < 0 || id < *slot)
        *slot = id;
}

/* The piece of any kind with this name; `missing` if not found. */
static int find_name(const Loader *l, const Json *name, int missing) {
    name = name_of(name);
    if (!json_has_kind(name, JSON_STRING) || !name->length)
        return missing;
    int id = *name_slot(l, name->text, name->length);
    return id >= 0 ? id : missing;
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
        add_name(l, id);
    }
    l->next_id = vocab->length;
    return 0;
}

/* Makes a piece an added token. Without a piece of the vocabulary it is a new
 * one. */
static void set_added(Loader *l, const Json *added, int id, bool special) {
    const Json *name = name_of(added);
    Piece *p = &l->t->pieces.list[id];
    bool in_vocabulary = p->kind == PIECE_TEXT || p->also_merged,
         normalized = flag(added, "normalized", false);
    *p = (Piece){.text = name->text,
                 .length = name->length,
                 /* the vocabulary's copy of the name */
                 .decoded = in_vocabulary ? (char *)(uintptr_t)p->text : NULL,
                 .n_decoded = name->length,
                 .score = p->score,
                 .kind = special ? PIECE_SPECIAL : PIECE_USER,
                 .also_merged = in_vocabulary,
                 .raw = !normalized,
                 .strips_left = flag(added, "lstrip", false),
                 .strips_right = flag(added, "rstrip", false),
                 .single_word = flag(added, "single_word", false),
                 .after_space =
                     normalized && l->t->space_prefix == SPACE_ALWAYS};
    add_name(l, id);
}

/* Reads an added token: a piece of the vocabulary, or one after its end. */
static int read_added(Loader *l, const Json *added, const Json *given) {
    const Json *name = name_of(added);
    int64_t wide = 0;
    if (!json_has_kind(name, JSON_STRING) || !name->length)
        return refuse(l, "an added token", name, "text");
    if (json_integer(given, &wide) && wide >= l->next_id && wide < INT64_MAX)
        l->next_id = wide + 1;
    if (wide >= l->t->pieces.n)
        return 0; /* ignored: the embedding has no row for it */
    int id = get_id(l, name->text, given);
    if (id < 0)
        return -1;
    const Piece *p = &l->t->pieces.list[id];
    if (p->length && !has_name(p, name))
        return fail("%s: added token '%.40s' has id %d of another piece",
                    l->path, name->text, id);
    set_added(l, added, id, flag(added, "special", false));
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

static int read_file(Loader *l, const char *path, Read *read) {
    Pieces *p = &l->t->pieces;
    l->path = path;
    l->json = (JsonFile){0};
    int status = -(json_open(&l->json, path) || read(l, l->json.values));
    if (l->adds_after)
        note("%s adds tokens after every text; norma does not", path);
    l->adds_after = false;
    /* the pieces' names are in it */
    p->texts[p->n_texts++] = l->json.text;
    l->json.text = NULL;
    json_close(&l->json);
    return status;
}

/* The path of another file of the folder; false if the file does not exist. */
static bool find_sibling(char path[PATH_MAX], const char *sibling,
                         const char *name) {
    int n = snprintf(path, PATH_MAX, "%.*s%s", (int)folder_size(sibling),
                     sibling, name);
    return n < PATH_MAX && file_exists(path);
}

/* Reads another file of the folder, if it exists. */
static int read_sibling(Loader *l, const char *sibling, const char *name,
                        Read *read) {
    char path[PATH_MAX];
    if (!find_sibling(path, sibling, name))
        return 0;
    JsonFile json = l->json;
    const char *file = l->path;
    int status = read_file(l, path, read);
    l->json = json;
    l->path = file;
    return status;
}

/* Reads a chat template that has a file of its own. */
static int read_template(Tokenizer *t, const char *sibling) {
    char path[PATH_MAX];
    File file;
    if (!find_sibling(path, sibling, "chat_template.jinja"))
        return 0;
    if (map_model_file(&file, path))
        return -1;
    int status =
        tokenizer_set_chat_template(t, (const char *)file.data, file.size);
    file_unmap(&file);
    return status;
}

/* ---- the other files of the folder --------------------------------------- */

/* What is done with a special token that a file names by a key. */
typedef int UseName(Loader *l, const char *key, const Json *token);

static bool is_standard(const char *key) {
    for (int i = 0; i < N_TOKEN_NAMES; i++)
        if (!strcmp(key, TOKEN_NAMES[i]))
            return true;
    return false;
}

/* Calls `use` for the special tokens that a file names by keys other than
 * TOKEN_NAMES: keys that end in "_token", and the members of two objects. */
static int read_names(Loader *l, const Json *root, UseName *use) {
    static const char *const objects[] = {"model_specific_special_tokens",
                                          "extra_special_tokens"};
    static const char ending[] = "_token";
    enum { ENDING = sizeof ending - 1 };
    JSON_EACH(key, root, JSON_OBJECT)
        if (key->length > ENDING && !is_standard(key->text) &&
            !memcmp(key->text + key->length - ENDING, ending, ENDING) &&
            use(l, key->text, key + 1))
            return -1;
    for (size_t i = 0; i < COUNT(objects); i++)
        JSON_EACH(key, json_get(root, objects[i]), JSON_OBJECT)
            if (use(l, key->text, key + 1))
                return -1;
    return 0;
}

/* A chat template may use the token by its key. */
static int add_variable(Loader *l, const char *key, const Json *token) {
    Tokenizer *t = l->t;
    NamedToken named = {.name = key, .id = find_name(l, token, -1)};
    if (named.id < 0)
        return 0;
    buffer_append(&t->variables, &named, sizeof named);
    return t->variables.failed ? -1 : 0;
}

/* Of two variables with the same name, the last one counts. */
static int read_variables(Loader *l, const Json *root) {
    return read_names(l, root, add_variable);
}

/* Makes a named token special. If the vocabulary lacks it, it gets the next
 * id, unless the embedding has no row for it. */
static int mark_special(Loader *l, const char *key, const Json *token) {
    (void)key;
    const Json *name = name_of(token);
    int id = find_name(l, token, -1);
    if (!json_has_kind(name, JSON_STRING) || !name->length)
        return 0;
    if (id >= 0) {
        Piece *p = &l->t->pieces.list[id];
        p->also_merged |= p->kind == PIECE_TEXT;
        p->kind = PIECE_SPECIAL;
        p->raw = true;
        return 0;
    }
    if (l->next_id < l->t->pieces.n && !l->t->pieces.list[l->next_id].length)
        set_added(l, token, (int)l->next_id, true);
    l->next_id++;
    return 0;
}

/* Special tokens are pieces that match the raw text, also if only their names
 * are given. */
static int read_special(Loader *l, const Json *root) {
    for (int i = 0; i < N_TOKEN_NAMES; i++)
        mark_special(l, TOKEN_NAMES[i], json_get(root, TOKEN_NAMES[i]));
    return 0;
}

/* The same for special tokens with other keys. */
static int read_keyed(Loader *l, const Json *root) {
    return read_names(l, root, mark_special);
}

/* The same for special tokens without a key. Newer files have
 * extra_special_tokens. */
static int read_extra(Loader *l, const Json *root) {
    const Json *list = json_get(root, "extra_special_tokens");
    if (!json_members(list, JSON_ARRAY) && !json_members(list, JSON_OBJECT))
        list = json_get(root, "additional_special_tokens");
    JSON_EACH(token, list, JSON_ARRAY)
        mark_special(l, NULL, token);
    return 0;
}

/* Reads a chat template: a text, or the one named "default" of a list. */
static int read_named(Tokenizer *t, const Json *value) {
    const Json *text = json_has_kind(value, JSON_STRING) ? value : NULL;
    Buffer *names = &t->template_names;
    names->n = 0;
    JSON_EACH(v, value, JSON_ARRAY) {
        const Json *name = json_get(v, "name");
        if (json_is(name, "default"))
            text = json_get(v, "template");
        buffer_append(names, ", ", names->n ? 2 : 0);
        buffer_append(names, json_shown(name), strlen(json_shown(name)));
    }
    if (!text || !json_has_kind(text, JSON_STRING))
        return names->failed ? -1 : 0;
    names->n = 0;
    return tokenizer_set_chat_template(t, text->text, text->length);
}

/* Reads tokenizer_config.json, or an older file with a part of it;
 * add_bos_token counts with a tokenizer.model only, as in transformers 5. */
static int read_config(Loader *l, const Json *root) {
    Tokenizer *t = l->t;
    const Json *splits = json_get(root, "split_special_tokens");
    if (json_true(splits))
        return refuse(l, "split_special_tokens", splits, "false");
    t->bos = find_name(l, json_get(root, "bos_token"), t->bos);
    t->eos = find_name(l, json_get(root, "eos_token"), t->eos);
    for (int i = 0; i < 4; i++)
        t->named[i] =
            find_name(l, json_get(root, TOKEN_NAMES[3 + i]), t->named[i]);
    t->unk = find_name(l, json_get(root, "unk_token"), t->unk);
    if (!t->pieces.rules) {
        *t->before = t->bos;
        t->n_before = t->bos >= 0 && flag(root, "add_bos_token", t->n_before);
    }
    return read_named(t, json_get(root, "chat_template"));
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
    /* rules that norma lacks, and their value that has no effect */
    static const struct {
        const char *name;
        double off;
    } rules[] = {{"no_repeat_ngram_size", 0},
                 {"suppress_tokens", 0},
                 {"begin_suppress_tokens", 0},
                 {"bad_words_ids", 0},
                 {"sequence_bias", 0},
                 {"min_length", 0},
                 {"min_new_tokens", 0},
                 {"epsilon_cutoff", 0},
                 {"eta_cutoff", 0},
                 {"typical_p", 1},
                 {"num_beams", 1},
                 {"guidance_scale", 1}};
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
    for (size_t i = 0; i < COUNT(rules); i++) {
        const Json *rule = json_get(root, rules[i].name);
        double number = rules[i].off;
        json_real(rule, &number);
        if (number != rules[i].off || json_members(rule, JSON_ARRAY))
            ignored += sprintf(ignored, " %s", rules[i].name);
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

/* Whether a file's tokenizer_class is LlamaTokenizer; `missing` if it names
 * none. */
static bool has_llama_class(const Json *root, bool missing) {
    const Json *class = json_get(root, "tokenizer_class");
    if (json_null(class))
        return missing;
    return json_is(class, "LlamaTokenizer") ||
           json_is(class, "LlamaTokenizerFast");
}

/* Reads of config.json which rule inserts spaces. */
static int read_type(Loader *l, const Json *root) {
    /* Types of models for which transformers 5 takes tokenizer.json word for
     * word: its TOKENIZER_MAPPING_NAMES has TokenizersBackend or
     * MistralCommonBackend, or they stand in
     * MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS. */
    static const char *const types[] = {
        "mistral",   "mistral3",   "mixtral",    "ministral",    "ministral3",
        "phi3",      "phimoe",     "nemotron",   "internlm2",    "internlm3",
        "qwen2",     "ernie4_5",   "minicpm3",   "ernie4_5_moe", "glm",
        "glm4",      "granite",    "olmo2",      "granitemoe",   "olmo3",
        "flex_olmo", "stablelm",   "persimmon",  "hyperclovax",  "arctic",
        "jamba",     "llava",      "llava_next", "pixtral",      "voxtral",
        "aria",      "kimi_linear"};
    const Json *type = json_get(root, "model_type");
    for (size_t i = 0; i < COUNT(types); i++)
        l->word_for_word |= json_is(type, types[i]);
    l->llama_class = has_llama_class(root, false);
    return 0;
}

/* LlamaTokenizer has a rule of its own for the space before a text, whatever
 * tokenizer.json says; other classes of a tokenizer.model have one, too. */
static void read_space_prefix(Loader *l, const Json *root) {
    Tokenizer *t = l->t;
    bool of_class = l->llama_class &&
                    (!l->word_for_word ||
                     json_get(json_get(root, "auto_map"), "AutoTokenizer"));
    if (t->pieces.byte_level)
        return;
    if (of_class && !flag(root, "add_prefix_space", true))
        t->space_prefix = SPACE_NEVER;
    else if (of_class)
        t->space_prefix =
            flag(root, "legacy", false) ? SPACE_IF_NONE : SPACE_ONCE;
    else if (l->of_model && t->space_prefix == SPACE_ALWAYS &&
             !flag(root, "legacy", true))
        t->space_prefix = SPACE_ONCE;
}

/* Reads the added tokens of tokenizer_config.json, whose flags count. */
static int read_decoder(Loader *l, const Json *root) {
    const Json *decoder = json_get(root, "added_tokens_decoder");
    l->llama_class = has_llama_class(root, l->llama_class);
    l->has_decoder = decoder;
    read_space_prefix(l, root);
    JSON_EACH(key, decoder, JSON_OBJECT) {
        Json id = *key;
        id.kind = JSON_NUMBER;
        if (read_added(l, key + 1, &id))
            return -1;
    }
    return read_special(l, root);
}

/* Reads an older file, which counts only without added_tokens_decoder. */
static int read_special_map(Loader *l, const char *path, Read *read) {
    return l->has_decoder
               ? 0
               : read_sibling(l, path, "special_tokens_map.json", read);
}

/* Reads the files next to the vocabulary that add to its pieces. New tokens get
 * their ids in this order. */
static int read_additions(Loader *l, const char *path) {
    return -(read_sibling(l, path, "config.json", read_type) ||
             read_sibling(l, path, "added_tokens.json", read_added_tokens) ||
             read_sibling(l, path, "tokenizer_config.json", read_decoder) ||
             read_special_map(l, path, read_special) ||
             read_sibling(l, path, "tokenizer_config.json", read_keyed) ||
             read_special_map(l, path, read_keyed) ||
             read_sibling(l, path, "tokenizer_config.json", read_extra) ||
             read_special_map(l, path, read_extra));
}

static int read_root(Loader *l, const Json *root) {
    const Json *model = json_get(root, "model");
    if (check_model(l, model) || read_pipeline(l, root) ||
        read_vocabulary(l, json_get(model, "vocab")))
        return -1;
    JSON_EACH(v, json_get(root, "added_tokens"), JSON_ARRAY)
        if (read_added(l, v, json_get(v, "id")))
            return -1;
    return -(read_additions(l, l->path) || read_merges(l, model) ||
             read_each(l, json_get(root, "post_processor"), "processors",
                       read_processor));
}

static int read_pieces(Loader *l, const char *path) {
    Tokenizer *t = l->t;
    l->of_model = has_ending(path, ".model");
    if (!l->of_model)
        return read_file(l, path, read_root);
    if (sentencepiece_read(t, path))
        return -1;
    for (int id = 0; id < t->pieces.n; id++)
        if (t->pieces.list[id].length) {
            add_name(l, id);
            l->next_id = id + 1;
        }
    return -(read_additions(l, path) || pieces_index(&t->pieces));
}

static int read_folder(Loader *l, const char *path, int vocab_size) {
    Tokenizer *t = l->t;
    if (pieces_open(&t->pieces, vocab_size))
        return -1;
    size_t n = t->pieces.mask + 1;
    l->names = allocate(n, sizeof *l->names);
    if (!l->names)
        return -1;
    for (size_t slot = 0; slot < n; slot++)
        l->names[slot] = -1;
    return -(read_pieces(l, path) ||
             read_sibling(l, path, "chat_template.json", read_config) ||
             read_sibling(l, path, "tokenizer_config.json", read_config) ||
             read_special_map(l, path, read_config) ||
             read_special_map(l, path, read_variables) ||
             read_sibling(l, path, "tokenizer_config.json", read_variables) ||
             read_template(t, path) ||
             read_sibling(l, path, "generation_config.json", read_generation) ||
             (!t->ends.n && read_sibling(l, path, "config.json", read_ends)));
}

int tokenizer_open_folder(Tokenizer *t, const char *path, int vocab_size) {
    Loader l = {.t = t};
    *t = NO_TOKENIZER;
    t->space_prefix = SPACE_NEVER;
    t->chat_has_bos = true;
    int status = read_folder(&l, path, vocab_size);
    free(l.names);
    /* the default of transformers' class, or of the library's file */
    if (t->unk < 0 && (l.llama_class || l.of_model))
        t->unk = t->pieces.unk;
    if (status)
        tokenizer_close(t);
    return status;
}
