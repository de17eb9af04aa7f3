/* test_mutants.c: the program on files that are almost right.
 *
 * The mutations use the structure of each format: fields at boundary values;
 * entries removed, duplicated and moved; JSON values replaced, nested, and of
 * other types. Mutant I is always the same. NORMA_MUTANTS=N runs N mutants,
 * NORMA_MUTANTS=I-J the mutants I to J, J excluded. A mutant that fails is kept
 * as a file. test_damage.c damages files without their structure and checks the
 * results more closely.
 */
#include "formats/gguf_file.h"

#include "tests/support/binary.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/hashmodel.h"
#include "tests/support/samples.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int norma_main(int argc, char **argv);

static uint64_t state;

static size_t any(size_t n) {
    return n ? (size_t)(hash64(77, 1, state++) % n) : 0;
}

/* ---- a file in memory --------------------------------------------------- */

enum { MAX_BYTES = 1 << 20, MAX_FIELDS = 1 << 15 };

typedef struct {
    uint8_t bytes[MAX_BYTES];
    size_t n;
} Image;

static Image good, image;

static int load(Image *to, const char *name) {
    FILE *in = fopen(inside(name), "rb");
    if (!in)
        return -1;
    to->n = fread(to->bytes, 1, MAX_BYTES / 2, in);
    fclose(in);
    return to->n ? 0 : -1;
}

static void save(const Image *from, const char *path) {
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(from->bytes, 1, from->n, f) != from->n || fclose(f))
        abort();
}

/* Replaces the bytes from `from` to `to` by n bytes; does nothing if they do
 * not fit. */
static void replace(size_t from, size_t to, const void *bytes, size_t n) {
    static uint8_t copy[MAX_BYTES]; /* bytes may be part of the image */
    if (from > to || to > image.n || n > MAX_BYTES ||
        image.n - (to - from) + n > MAX_BYTES)
        return;
    memcpy(copy, bytes, n);
    memmove(image.bytes + from + n, image.bytes + to, image.n - to);
    memcpy(image.bytes + from, copy, n);
    image.n += n - (to - from);
}

/* A part of a file: a number or an entry (a key and its value, a tensor's row,
 * a value of JSON). */
typedef struct {
    size_t from, to;
    bool is_entry;
} Field;

static Field fields[MAX_FIELDS];
static size_t n_fields;

static void add_field(size_t from, size_t to, bool is_entry) {
    if (n_fields < MAX_FIELDS && from <= to && to <= image.n)
        fields[n_fields++] = (Field){from, to, is_entry};
}

/* A random entry or a random number; NULL: none. */
static const Field *any_field(bool is_entry) {
    for (int i = 0; i < 1000 && n_fields; i++) {
        const Field *f = &fields[any(n_fields)];
        if (f->is_entry == is_entry)
            return f;
    }
    return NULL;
}

/* ---- numbers ------------------------------------------------------------ */

static uint64_t number_at(const Field *f) {
    uint64_t value = 0;
    memcpy(&value, image.bytes + f->from,
           f->to - f->from < 8 ? f->to - f->from : 8);
    return value;
}

static uint64_t boundary(uint64_t old) {
    static const uint64_t values[] = {0,
                                      1,
                                      UINT64_MAX,
                                      1ull << 31,
                                      (1ull << 31) - 1,
                                      1ull << 32,
                                      (1ull << 32) - 1,
                                      1ull << 63,
                                      (1ull << 63) - 1,
                                      1ull << 62,
                                      0x7fc00000, /* NaN */
                                      0x7f800000, /* infinity */
                                      0xff800000,
                                      0x7f7fffff};
    size_t n = sizeof values / sizeof *values, choice = any(n + 10);
    if (choice < n)
        return values[choice];
    switch (choice - n) {
    case 0: return old + 1;
    case 1: return old - 1;
    case 2: return 2 * old;
    case 3: return old / 2;
    case 4: return -old;
    case 5: return image.n;
    case 6: return old + 4;
    case 7: return any(16);
    case 8: return old ^ (1ull << any(64));
    default: return hash64(77, 2, state++);
    }
}

static void mutate_number(const Field *f) {
    if (!f || f->to - f->from > 8)
        return;
    uint64_t value = boundary(number_at(f));
    memcpy(image.bytes + f->from, &value, f->to - f->from);
}

/* ---- bytes -------------------------------------------------------------- */

static void mutate_bytes(void) {
    static const char *const words[] = {"<|im_start|>",
                                        "<|im_end|>",
                                        "[INST]",
                                        "{{",
                                        "}}",
                                        "{% for %}",
                                        "eos_token",
                                        "<|start_header_id|>",
                                        "<|user|>",
                                        "<<SYS>>",
                                        "\xe2\x96\x81",
                                        "\xff",
                                        "\xed\xa0\x80",
                                        "\n",
                                        "\x1b[2J",
                                        "bos_token",
                                        "\xf0\x9f\x98\x80",
                                        " "};
    size_t at = any(image.n + 1),
           to = at + any(image.n - at + 1) / (1 + any(20));
    const char *word = words[any(sizeof words / sizeof *words)];
    switch (any(6)) {
    case 0: replace(at, to, "", 0); break;
    case 1: replace(to, to, image.bytes + at, to - at); break;
    case 2: image.n = at; break;
    case 3:
        if (at < image.n)
            image.bytes[at] ^= (uint8_t)(1 << any(8));
        break;
    case 4: replace(at, at + any(2) * (to - at), word, strlen(word)); break;
    default: replace(at, at, "\0\0\0\0\0\0\0\0\0", any(9)); break;
    }
}

/* Removes, duplicates or moves an entry; mostly adapts the 64-bit count at
 * count_at (0: none). */
static void mutate_entry(const Field *entry, size_t count_at) {
    if (!entry)
        return;
    const Field f = *entry, *other = any_field(true);
    uint64_t count = 0;
    int change = 0;
    switch (any(3)) {
    case 0:
        replace(f.from, f.to, "", 0);
        change = -1;
        break;
    case 1:
        replace(f.to, f.to, image.bytes + f.from, f.to - f.from);
        change = 1;
        break;
    default: /* in place of another entry */
        if (other->from < f.to && f.from < other->to)
            return;
        replace(other->from, other->to, image.bytes + f.from, f.to - f.from);
    }
    if (!count_at || any(4) == 0)
        return;
    memcpy(&count, image.bytes + count_at, 8);
    count += (uint64_t)(int64_t)change;
    memcpy(image.bytes + count_at, &count, 8);
}

/* ---- GGUF --------------------------------------------------------------- */

static uint64_t take(size_t *at, size_t bytes) {
    uint64_t value = 0;
    if (*at + bytes > image.n) {
        *at = image.n;
        return 0;
    }
    memcpy(&value, image.bytes + *at, bytes);
    add_field(*at, *at + bytes, false);
    *at += bytes;
    return value;
}

static void take_string(size_t *at) {
    uint64_t n = take(at, 8);
    if (n > image.n - *at)
        *at = image.n;
    else
        *at += n;
}

static void find_value(size_t *at) {
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    uint64_t type = take(at, 4), count = 1;
    if (type == 9) {
        type = take(at, 4);
        count = take(at, 8);
    }
    for (uint64_t i = 0; i < count && *at < image.n && type < 13; i++) {
        if (type == 8)
            take_string(at);
        else
            take(at, bytes[type]);
    }
}

static size_t n_header; /* number of fields before the first entry */

static void find_gguf(void) {
    size_t at = 4;
    take(&at, 4);
    uint64_t n_tensors = take(&at, 8), n_keys = take(&at, 8);
    n_header = n_fields;
    for (uint64_t i = 0; i < n_keys && at < image.n; i++) {
        size_t from = at;
        take_string(&at);
        find_value(&at);
        add_field(from, at, true);
    }
    for (uint64_t i = 0; i < n_tensors && at < image.n; i++) {
        size_t from = at;
        take_string(&at);
        uint64_t n_dims = take(&at, 4);
        for (uint64_t d = 0; d < n_dims && d < 8; d++)
            take(&at, 8);
        take(&at, 4);
        take(&at, 8);
        add_field(from, at, true);
    }
}

/* of the current file; "": the file exists for one family only */
static const char *family;

/* Renames an entry. Before names that begin with a dot the architecture is
 * added. */
static void rename_key(const Field *entry) {
    static const char *const names[] = {".rope.scaling.type",
                                        ".rope.scaling.factor",
                                        ".rope.freq_base",
                                        ".rope.scaling.original_context_length",
                                        ".attention.key_length",
                                        ".attention.value_length",
                                        ".attention.sliding_window",
                                        ".expert_count",
                                        ".expert_used_count",
                                        ".vocab_size",
                                        ".leading_dense_block_count",
                                        ".attention.causal",
                                        ".logit_scale",
                                        ".attention.sliding_window_pattern",
                                        ".attention.scale",
                                        ".attention.layer_norm_epsilon",
                                        ".attn_logit_softcapping",
                                        ".final_logit_softcapping",
                                        ".embedding_scale",
                                        ".residual_scale",
                                        ".rope.dimension_count",
                                        ".rope.freq_base_swa",
                                        ".rope.scaling.attn_factor",
                                        ".use_parallel_residual",
                                        "qwen3moe.expert_feed_forward_length",
                                        "qwen3moe.decoder_sparse_step",
                                        "qwen3moe.attention.value_length",
                                        "qwen3moe.expert_shared_count",
                                        "general.alignment",
                                        "general.file_type",
                                        "split.count",
                                        "unknown",
                                        "tokenizer.ggml.pre",
                                        "tokenizer.ggml.merges",
                                        "tokenizer.ggml.add_bos_token",
                                        "tokenizer.ggml.add_space_prefix",
                                        "tokenizer.ggml.unknown_token_id",
                                        "tokenizer.ggml.eos_token_id",
                                        "tokenizer.ggml.eot_token_id",
                                        "tokenizer.ggml.bos_token_id",
                                        "tokenizer.ggml.precompiled_charsmap",
                                        "rope_freqs.weight",
                                        "rope_factors_long.weight",
                                        "output.weight",
                                        "output_norm.bias",
                                        "blk.0.attn_q.bias",
                                        "blk.1.attn_norm.bias",
                                        "blk.1.attn_q_norm.weight",
                                        "blk.0.post_attention_norm.weight",
                                        "blk.1.attn_qkv.weight",
                                        "blk.0.ffn_gate_inp.weight",
                                        "blk.2.attn_q.weight"};
    const char *chosen = names[any(sizeof names / sizeof *names)];
    char name[64];
    snprintf(name, sizeof name, "%s%s",
             chosen[0] != '.' ? ""
             : *family        ? family
                              : "llama",
             chosen);
    uint64_t old = 0, n = strlen(name);
    memcpy(&old, image.bytes + entry->from, 8);
    if (old > entry->to - entry->from)
        return;
    replace(entry->from + 8, entry->from + 8 + (size_t)old, name, (size_t)n);
    memcpy(image.bytes + entry->from, &n, 8);
}

/* Mutates a number of a random entry. (Most numbers of the file are in three
 * long arrays, so a random number would miss the others.) */
static void mutate_gguf(void) {
    n_fields = 0;
    find_gguf();
    const Field *entry = any_field(true);
    if (!entry || any(16) == 0) {
        mutate_bytes();
    } else if (any(12) == 0) {
        mutate_number(&fields[any(n_header)]);
    } else if (any(6) == 0) {
        rename_key(entry);
    } else if (any(4) == 0) {
        /* approximate: sometimes the other count is adapted */
        bool is_key = entry < &fields[n_fields / 2];
        mutate_entry(entry, is_key ? 16 : 8);
    } else {
        const Field *first = entry;
        while (first > fields && first[-1].from >= entry->from &&
               !first[-1].is_entry)
            first--;
        size_t n = (size_t)(entry - first);
        if (n > 2)
            mutate_number(
                &first[any(8) ? 1 + any(any(3) && n > 6 ? 5 : n - 1) : 0]);
    }
}

/* ---- llama2.c ----------------------------------------------------------- */

static void mutate_ints(void) {
    n_fields = 0;
    for (size_t at = 0; at < 44 && at < image.n; at += 4)
        add_field(at, at + 4, false);
    if (any(5) == 0)
        mutate_bytes();
    else
        mutate_number(any_field(false));
}

static void mutate_tokenizer_bin(void) {
    size_t at = 0;
    n_fields = 0;
    take(&at, 4);
    while (at < image.n) {
        size_t from = at;
        take(&at, 4);
        at += take(&at, 4);
        if (at <= image.n)
            add_field(from, at, true);
    }
    if (any(5) == 0)
        mutate_bytes();
    else if (any(3) == 0)
        mutate_entry(any_field(true), 0);
    else
        mutate_number(any(8) ? any_field(false) : fields);
}

/* ---- JSON * -------------------------------------------------------------- */

static size_t skip_white(size_t at) {
    while (at < image.n && strchr(" \t\r\n", image.bytes[at]) &&
           image.bytes[at])
        at++;
    return at;
}

static size_t find_string(size_t at) {
    for (at++; at < image.n && image.bytes[at] != '"'; at++)
        at += image.bytes[at] == '\\';
    return at < image.n ? at + 1 : image.n;
}

/* Adds the value at `at`, whose key may begin at `from`, and its members;
 * returns its end. */
static size_t find_json(size_t from, size_t at, size_t end, int depth) {
    char open = (char)image.bytes[at];
    size_t begin = at;
    if (depth > 20 || at >= end)
        return end;
    if (open == '"') {
        at = find_string(at);
    } else if (open == '{' || open == '[') {
        at = skip_white(at + 1);
        while (at < end && image.bytes[at] != '}' && image.bytes[at] != ']') {
            size_t item = at;
            if (open == '{') {
                at = skip_white(find_string(at));
                if (at >= end || image.bytes[at] != ':')
                    return end;
                at = skip_white(at + 1);
            }
            at = skip_white(find_json(item, at, end, depth + 1));
            if (at == item || (at < end && image.bytes[at] == ','))
                /* skips a zero byte, which is not a value */
                at = skip_white(at + 1);
        }
        at++;
    } else {
        while (at < end && !strchr(",]}", image.bytes[at]))
            at++;
    }
    if (at > end)
        at = end;
    add_field(begin, at, false);
    if (from < begin)
        add_field(from, at, true);
    return at;
}

static const char *nested(void) {
    static char text[4096];
    size_t depth = 1 + any(2000);
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    text[2 * depth] = '\0';
    return text;
}

static const char *any_json(void) {
    static const char *const values[] = {
        "null",
        "true",
        "false",
        "0",
        "-1",
        "1",
        "2",
        "2147483647",
        "2147483648",
        "4294967296",
        "9223372036854775807",
        "9223372036854775808",
        "1e308",
        "1e400",
        "-0.0",
        "1e-400",
        "0.5",
        "1e",
        "-",
        "01",
        "\"\"",
        "\"\\u0000\"",
        "\"\\ud800\"",
        "\"\\ud83d\\ude00\"",
        "\"x\"",
        "\"\xff\"",
        "\"a b\"",
        "[]",
        "{}",
        "[[]]",
        "[null]",
        "[0]",
        "{\"a\":1}",
        "{\"type\":\"Sequence\"}",
        "[\"x\",\"y\"]",
        "{\"type\":null}",
        "",
        "99999999999999999999999999999999999999999999999999",
        "\"../../x\"",
        "\"/dev/zero\"",
        "\"\\",
        "1.7976931348623157e308",
        "3e38"};
    size_t n = sizeof values / sizeof *values, choice = any(n + 1);
    return choice < n ? values[choice] : nested();
}

static void mutate_json_value(const Field *f) {
    static char number[64];
    const Field *other = any_field(false);
    double old;
    switch (any(6)) {
    case 0: /* a copy of another value */
        replace(f->from, f->to, image.bytes + other->from,
                other->to - other->from);
        break;
    case 1:
        replace(f->to, f->to, "]", 1);
        replace(f->from, f->from, "[", 1);
        break;
    case 2:
        old = strtod((const char *)image.bytes + f->from, NULL);
        snprintf(number, sizeof number, "%.17g",
                 any(2) ? old + (double)any(5) - 2
                        : ldexp(old, (int)any(9) - 4));
        replace(f->from, f->to, number, strlen(number));
        break;
    default: {
        const char *value = any_json();
        replace(f->from, f->to, value, strlen(value));
    }
    }
}

/* Mutates a member with its comma, or replaces its key by another member's. */
static void mutate_member(const Field *f) {
    const Field *other = any_field(true);
    size_t comma =
        f->to < image.n && image.bytes[f->to] == ',' ? f->to + 1 : f->to;
    switch (any(4)) {
    case 0: replace(f->from, comma, "", 0); break;
    case 1:
        replace(f->from, f->from, ",", 1);
        replace(f->from, f->from, image.bytes + f->from + 1, f->to - f->from);
        break;
    case 2:
        replace(f->from, f->to, image.bytes + other->from,
                other->to - other->from);
        break;
    default:
        replace(f->from, find_string(f->from), image.bytes + other->from,
                find_string(other->from) - other->from);
    }
}

/* Inserts an option before the existing ones. */
static void add_option(size_t begin) {
    static const char *const names[] = {"rope_scaling",
                                        "sliding_window",
                                        "use_sliding_window",
                                        "layer_types",
                                        "head_dim",
                                        "attention_bias",
                                        "mlp_bias",
                                        "mlp_only_layers",
                                        "decoder_sparse_step",
                                        "num_experts",
                                        "num_local_experts",
                                        "num_experts_per_tok",
                                        "moe_intermediate_size",
                                        "norm_topk_prob",
                                        "partial_rotary_factor",
                                        "rope_parameters",
                                        "quantization_config",
                                        "torch_dtype",
                                        "architectures",
                                        "n_shared_experts",
                                        "bos_token_id",
                                        "eos_token_id",
                                        "max_window_layers",
                                        "chat_template",
                                        "add_bos_token",
                                        "bos_token",
                                        "eos_token",
                                        "added_tokens_decoder",
                                        "metadata",
                                        "weight_map",
                                        "normalizer",
                                        "pre_tokenizer",
                                        "post_processor",
                                        "decoder",
                                        "truncation",
                                        "byte_fallback",
                                        "fuse_unk",
                                        "ignore_merges",
                                        "dropout",
                                        "__metadata__",
                                        "model_type",
                                        "tie_word_embeddings",
                                        "max_position_embeddings",
                                        "original_max_position_embeddings",
                                        "hidden_activation",
                                        "query_pre_attn_scalar",
                                        "attn_logit_softcapping",
                                        "final_logit_softcapping",
                                        "use_bidirectional_attention",
                                        "sliding_window_pattern",
                                        "rope_local_base_freq",
                                        "no_rope_layers",
                                        "no_rope_layer_interval",
                                        "embedding_multiplier",
                                        "residual_multiplier",
                                        "attention_multiplier",
                                        "logits_scaling",
                                        "layer_norm_eps",
                                        "use_qkv_bias",
                                        "use_parallel_residual",
                                        "clip_qkv"};
    static const char *const values[] = {
        "{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4}",
        "{\"type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":20}",
        "{\"type\":\"linear\",\"factor\":2}",
        "{\"type\":\"longrope\",\"factor\":2,\"short_factor\":[1,2,3,4,5,6],\"long_factor\":[1]}",
        "{\"full_attention\":{\"rope_theta\":100,\"type\":\"yarn\",\"factor\":2},\"sliding_attention\":null}",
        "[\"full_attention\",\"sliding_attention\"]",
        "[\"sliding_attention\",\"sliding_attention\",\"sliding_attention\",\"full_attention\",\"full_attention\"]",
        "\"gemma2\"",
        "\"olmo3\"",
        "\"phi3\"",
        "\"smollm3\"",
        "0.25",
        "[0,1,2]",
        "[4294967296,-1]",
        "[{\"name\":\"default\",\"template\":\"<|im_start|>\"}]",
        "{\"0\":{\"content\":\"x\"}}",
        "16",
        "8"};
    const char *name = names[any(sizeof names / sizeof *names)];
    const char *value =
        any(2) ? values[any(sizeof values / sizeof *values)] : any_json();
    static char text[8192];
    int n = snprintf(text, sizeof text, "\"%s\":%s,", name, value);
    begin = skip_white(begin);
    replace(begin + 1, begin + 1, text, (size_t)n);
}

/* Numbers, mostly ids of pieces, are chosen less often than other fields. */
static void mutate_json_in(size_t from, size_t end) {
    n_fields = 0;
    image.bytes[image.n] = '\0';
    find_json(from, skip_white(from), end, 0);
    const Field *f = any_field(any(4) == 0);
    for (int i = 0; i < 4 && f && f->to - f->from < 30 &&
                    strchr("0123456789", image.bytes[f->to - 1]);
         i++)
        f = any_field(f->is_entry);
    bool is_whole = f && f->to - f->from > (end - from) / 2;
    if (!f || any(20) == 0)
        mutate_bytes();
    else if (any(8) == 0 || (is_whole && any(8)))
        add_option(from);
    else if (f->is_entry)
        mutate_member(f);
    else
        mutate_json_value(f);
}

static void mutate_json(void) {
    mutate_json_in(0, image.n);
}

static void mutate_safetensors(void) {
    uint64_t length = 0;
    size_t before = image.n;
    memcpy(&length, image.bytes, 8);
    if (any(8) == 0 || length > image.n - 8) {
        mutate_number(&(Field){0, 8, false});
        return;
    }
    mutate_json_in(8, 8 + (size_t)length);
    length += image.n - before;
    if (image.n >= 8 && any(8))
        memcpy(image.bytes, &length, 8);
}

/* ---- files and commands ------------------------------------------------- */

/* Each follows the model's name. Chat reads the file "said"; families have no
 * tokenizer. */
enum { N_COMMANDS = 9 };
static const char *const COMMANDS[N_COMMANDS] = {
    "-i abc -n 9 -s 1 -j 1",
    "-i a -n 4 -t 0 -j 1 --kv f32 -b 2",
    "-m chat -n 30 -s 1 -j 1",
    "-m chat -n 30 -j 1 --system b",
    "-m info -v",
    "-m tokenize -i a\xc3\xa9",
    "-m convert -q f16 -o converted",
    "-m convert -q q8_0 -o converted",
    "-m perplexity -i abcab -j 1",
};
static const char *const FAMILY_COMMANDS[N_COMMANDS] = {
    /* more tokens than a window, if the context is long enough */
    "--tokens 7,8 -n 120 -s 1 -j 1 -b 2",
    "--tokens 1,2,3,4,5,6,7,8,9,10,11,12,13 -n 40 -t 0 -j 1 -b 4 --kv f32",
    "--tokens 1,2,3,4,5,6,7,8,9,10,11,12,13 -n 16 -s 1 -j 1 --norm layer",
    "-m logits --tokens 1,2,3,4,5,6,7,8,9,10,11,12,13 -o converted -j 1 -b 5",
    "-m info -v",
    "-m convert -q f32 -o converted",
    "-m convert -q q8_0 -o converted",
    "-m convert -q f16 --fold-norms -o converted",
    "-m convert -q f32 --fold-norms -o converted",
};

static const struct {
    const char *file, *model;
    void (*mutate)(void);
    int weight;
} CASES[] = {
    {"spm.gguf", "spm.gguf", mutate_gguf, 3},
    {"moe.gguf", "moe.gguf", mutate_gguf, 3},
    {"bpe.gguf", "bpe.gguf", mutate_gguf, 2},
    {"bpe/config.json", "bpe", mutate_json, 3},
    {"bpe/tokenizer.json", "bpe", mutate_json, 3},
    {"words/tokenizer.json", "words", mutate_json, 3},
    {"bpe/tokenizer_config.json", "bpe", mutate_json, 1},
    {"words/tokenizer_config.json", "words", mutate_json, 1},
    {"bpe/generation_config.json", "bpe", mutate_json, 1},
    {"bpe/chat_template.jinja", "bpe", mutate_bytes, 1},
    {"bpe/model.safetensors.index.json", "bpe", mutate_json, 2},
    {"bpe/model-00001-of-00002.safetensors", "bpe", mutate_safetensors, 2},
    {"words/model.safetensors", "words", mutate_safetensors, 2},
    {"v0.bin", "v0.bin -z tokenizer.bin", mutate_ints, 1},
    {"v1.bin", "v1.bin -z tokenizer.bin", mutate_ints, 1},
    {"v2.bin", "v2.bin -z tokenizer.bin", mutate_ints, 1},
    {"tokenizer.bin", "v0.bin -z tokenizer.bin", mutate_tokenizer_bin, 2},
    {"%s/config.json", "%s", mutate_json, 8},
    {"%s/model.safetensors", "%s", mutate_safetensors, 2},
    {"%s.gguf", "%s.gguf", mutate_gguf, 8},
};
enum { N_CASES = sizeof CASES / sizeof *CASES };

/* The number of families that the case's file name, with %s for the family,
 * exists for; 0: no %s. */
static int n_families(int c) {
    return CASES[c].file[0] != '%'          ? 0
           : CASES[c].mutate == mutate_gguf ? N_GGUF_FAMILIES
                                            : N_SAMPLE_FAMILIES;
}

static const char *family_of(int c, size_t i) {
    return !n_families(c)                   ? ""
           : CASES[c].mutate == mutate_gguf ? GGUF_FAMILIES[i]
                                            : SAMPLE_FAMILIES[i];
}

static int any_case(void) {
    int weights = 0, c = 0;
    for (int i = 0; i < N_CASES; i++)
        weights += CASES[i].weight;
    for (int left = (int)any((size_t)weights); (left -= CASES[c].weight) >= 0;)
        c++;
    return c;
}

static void open_as(int fd, const char *name, int flags) {
    int from = open(inside(name), flags, 0600);
    if (from < 0 || dup2(from, fd) < 0)
        _exit(127);
    close(from);
}

static void limit(int resource, rlim_t max) {
    struct rlimit limit;
    getrlimit(resource, &limit);
    if (limit.rlim_cur > max)
        limit.rlim_cur = max;
    setrlimit(resource, &limit);
}

/* Runs the program in a child process. */
static void child(char *line) {
    char *args[32] = {"run"};
    int n = 1;
    for (char *arg = strtok(line, " "); arg && n < 31; arg = strtok(NULL, " "))
        args[n++] = arg;
    if (chdir(folder) || setenv("OMP_WAIT_POLICY", "passive", 1))
        _exit(127); /* else the program sets it and executes itself again */
    open_as(0, "said", O_RDONLY);
    open_as(1, "stdout", O_WRONLY | O_CREAT | O_TRUNC);
    open_as(2, "stderr", O_WRONLY | O_CREAT | O_TRUNC);
    limit(RLIMIT_CPU,
          test_fast() ? 200 : 10); /* seconds: only endless loops reach it */
    limit(RLIMIT_CORE, 0);
#ifndef SANITIZED
    if (!test_fast())
        limit(RLIMIT_AS, 4ul << 30);
#endif
    exit(norma_main(n, args));
}

static int lines_of_failure(void) {
    int n = 0;
    FILE *in = fopen(inside("stderr"), "rb");
    size_t size = in ? fread(err, 1, sizeof err - 1, in) : 0;
    err[size] = '\0';
    if (in)
        fclose(in);
    for (const char *line = err; line;
         line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        n += !strncmp(line, "run: ", 5);
    return n;
}

static int run_line(const char *line) {
    char copy[512];
    int how = 0;
    snprintf(copy, sizeof copy, "%s", line);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        child(copy);
    while (waitpid(pid, &how, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(how) ? WEXITSTATUS(how) : KILLED + WTERMSIG(how);
}

static const char *line_of(int c, size_t command) {
    static char line[256];
    char model[64];
    snprintf(model, sizeof model, CASES[c].model, family);
    snprintf(line, sizeof line, "%s %s", model,
             (*family ? FAMILY_COMMANDS : COMMANDS)[command]);
    return line;
}

/* Keeps the mutant and reports it. */
static void keep(int i, const char *file, const char *line, const char *what) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/norma-mutant-%d", i);
    save(&image, path);
    test_fail(__FILE__, __LINE__,
              "mutant %d of %s, kept as %s: run %s: %s, status %d, stderr: %s",
              i, file, path, line, what, status, err);
}

static void try_mutant(int i, int *n_refused) {
    char file[64];
    state = (uint64_t)i << 16;
    int c = any_case();
    family = family_of(c, any((size_t)n_families(c)));
    snprintf(file, sizeof file, CASES[c].file, family);
    if (load(&good, file))
        abort();
    image = good;
    for (size_t k = 1 + any(3) / 2; k > 0 && image.n > 8; k--)
        CASES[c].mutate();
    const char *line = line_of(c, any(N_COMMANDS));
    save(&image, inside(file));
    remove(inside("converted"));
    status = run_line(line);
    int lines = lines_of_failure();
    *n_refused += status != 0;
    if (status < 0 || status > 2)
        keep(i, file, line, "not its status");
    else if (lines != (status != 0))
        keep(i, file, line, "not one line");
    save(&good, inside(file));
}

static void check_sample(int c) {
    for (size_t k = 0; k < N_COMMANDS; k++) {
        const char *line = line_of(c, k);
        status = run_line(line);
        CHECK(status == (lines_of_failure() > 0) &&
                  (!status || strstr(line, "words -m convert") ||
                   strstr(line, "nested -m convert")),
              "run %s: status %d, %s", line, status, err);
    }
}

/* All commands run on the unchanged samples, then on the mutants. */
static void mutants_are_refused_or_run(void) {
    const char *range = getenv("NORMA_MUTANTS");
    int begin = 0, end = test_fast() ? 15 : 300, n_refused = 0;
    if (range && sscanf(range, "%d-%d", &begin, &end) == 1)
        end = begin, begin = 0;
    binary_folder("mutants");
    stderr_hide();
    int written = samples_write(folder) | samples_write_families(folder);
    stderr_show();
    CHECK(written == 0, "no samples");
    write_file("said", "a\nb\n");
    for (int c = 0; c < N_CASES; c++)
        for (int i = 0; i == 0 || i < n_families(c); i += test_fast() ? 9 : 1) {
            family = family_of(c, (size_t)i);
            check_sample(c);
        }
    for (int i = begin; i < end; i++)
        try_mutant(i, &n_refused);
    int n = end - begin, max = n - n / 10;
    printf("mutants: %d refused of %d\n", n_refused, n);
    CHECK(n < 100 || (n_refused > n / 5 && n_refused < max),
          "%d of %d refused: not much of a test", n_refused, n);
}

void suite_mutants(void) {
    TEST(mutants_are_refused_or_run);
}
