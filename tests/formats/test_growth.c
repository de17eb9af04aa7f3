/* test_growth.c: opening takes O(n log n) steps in the bytes of the files,
 * encoding in those of the text.
 *
 * The inputs once took quadratic time, or are worst cases of a table or a
 * search. Basic blocks are counted (support/steps.c), not seconds.
 */
#include "base/file.h"
#include "base/memory.h"
#include "cluster/share.h"
#include "formats/folder.h"
#include "formats/gguf.h"
#include "formats/gguf_file.h"
#include "formats/jinja.h"
#include "formats/json.h"
#include "formats/llama2c.h"
#include "formats/open.h"
#include "model.h"
#include "norm.h"
#include "sampler.h"
#include "text/editor.h"
#include "tokenizer.h"

#include "tests/support/expressions.h"
#include "tests/support/folder_writer.h"
#include "tests/support/hashmodel.h"
#include "tests/support/norm_inputs.h"
#include "tests/support/steps.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static size_t bytes; /* of the last input */

static FILE *create(const char *name) {
    FILE *out = fopen(temporary(name), "wb");
    if (!out)
        abort();
    return out;
}

static void finish(FILE *out) {
    bytes += (size_t)ftell(out);
    if (fclose(out))
        abort();
}

/* Opens a tokenizer.json and returns the steps that it took. */
static uint64_t open_json(int vocab_size) {
    Tokenizer t;
    stderr_hide();
    uint64_t before = steps_taken;
    int status =
        tokenizer_open_folder(&t, temporary("growth.json"), vocab_size);
    uint64_t after = steps_taken;
    stderr_show();
    if (status)
        return 0;
    tokenizer_close(&t);
    return after - before;
}

/* A post-processor that appends n special tokens to every text. */
static uint64_t template_processing(int n) {
    FILE *out = create("growth.json");
    fputs(
        "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[]},\"post_processor\":{\"type\":\"TemplateProcessing\",",
        out);
    fputs("\"single\":[{\"Sequence\":{\"id\":\"A\"}}", out);
    for (int i = 0; i < n; i++)
        fprintf(out, ",{\"SpecialToken\":{\"id\":\"%d\"}}", n - 1 - i);
    fputs("],\"special_tokens\":{\"x\":0", out);
    for (int i = 0; i < n; i++)
        fprintf(out, ",\"%d\":{\"ids\":[0]}", i);
    fputs("}}}", out);
    finish(out);
    return open_json(1);
}

/* Pieces, merges and added tokens, n of each. */
static uint64_t pieces_and_merges(int n) {
    FILE *out = create("growth.json");
    fputs("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0", out);
    for (int i = 1; i < n; i++)
        fprintf(out, ",\"%05x\":%d,\"a%05x\":%d", i, 2 * i - 1, i, 2 * i);
    fputs("},\"merges\":[\"a 00001\"", out);
    for (int i = 2; i < n; i++)
        fprintf(out, ",\"a %05x\"", i);
    fputs("]},\"added_tokens\":[{\"id\":0,\"content\":\"a\"}", out);
    for (int i = 1; i < n; i++)
        fprintf(out, ",{\"id\":%d,\"content\":\"%05x\",\"special\":true}",
                2 * i - 1, i);
    fputs("]}", out);
    finish(out);
    return open_json(2 * n - 1);
}

/* Special tokens that only tokenizer_config.json names, n of them with a key
 * and n without; the vocabulary lacks every second one. */
static uint64_t special_names(int n) {
    FILE *out = create("growth.json");
    fputs("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0", out);
    for (int i = 1; i < 2 * n; i++)
        fprintf(out, ",\"%05x\":%d", 2 * i, i);
    fputs("},\"merges\":[]}}", out);
    finish(out);
    out = create("tokenizer_config.json");
    fputs("{\"extra_special_tokens\":[\"a\"", out);
    for (int i = 1; i < n; i++)
        fprintf(out, ",\"%05x\"", i);
    fputs("]", out);
    for (int i = n; i < 2 * n; i++)
        fprintf(out, ",\"%d_token\":\"%05x\"", i, i);
    fputs("}", out);
    finish(out);
    uint64_t steps = open_json(4 * n);
    remove(temporary("tokenizer_config.json"));
    return steps;
}

/* A tokenizer.model of n fields that nothing reads, then one that is cut. */
static uint64_t protocol_fields(int n) {
    Tokenizer t;
    FILE *out = create("growth.model");
    for (int i = 0; i < n; i++)
        fputs("\xc2\x3e\x02\x08\x01", out);
    fputs("\x0a\x7f", out);
    finish(out);
    stderr_hide();
    uint64_t before = steps_taken;
    int status = tokenizer_open_folder(&t, temporary("growth.model"), 8);
    uint64_t after = steps_taken;
    stderr_show();
    return status ? after - before : 0;
}

/* Objects with many keys, and nested lists. */
static uint64_t json_values(int n) {
    JsonFile json;
    FILE *out = create("growth.json");
    fputs("[[]", out);
    for (int i = 0; i < n; i++)
        fprintf(out, ",{\"%d\":[[%d,[]]],\"\":{\"a\":{}}}", i, i);
    fputs(",{\"\":0", out);
    for (int i = 0; i < n; i++)
        fprintf(out, ",\"%d\":\"\\u0041\"", i * 7 % n);
    fputs("}]", out);
    finish(out);
    uint64_t before = steps_taken;
    if (json_open(&json, temporary("growth.json")))
        return 0;
    json_close(&json);
    return steps_taken - before;
}

static uint64_t open_folder(bool opens) {
    Model m;
    stderr_hide();
    uint64_t before = steps_taken;
    int status = model_open(&m, temporary("growth"));
    uint64_t after = steps_taken;
    stderr_show();
    if (!status)
        model_close(&m);
    return opens == !status ? after - before : 0;
}

/* n files of one tensor each; no other file. */
static uint64_t shards(int n) {
    mkdir(temporary("growth"), 0700);
    FILE *index = create("growth/model.safetensors.index.json");
    fputs("{\"weight_map\":{", index);
    for (int i = 0; i < n; i++) {
        char name[32], header[96];
        snprintf(name, sizeof name, "growth/%d", i);
        uint64_t size = (uint64_t)snprintf(
            header, sizeof header,
            "{\"t%d\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}",
            i);
        FILE *shard = create(name);
        fwrite(&size, sizeof size, 1, shard);
        fputs(header, shard);
        finish(shard);
        fprintf(index, "%s\"t%d\":\"%d\"", i ? "," : "", i, i);
    }
    fputs("}}", index);
    finish(index);
    return open_folder(false);
}

static const HashModel TINY = {8, 8, 1, 2, 1, 8, 8, true, 5};

/* A folder with n / 16 layers, a list of n dense layers, and n unknown keys. */
static uint64_t layers_and_options(int n) {
    static const float ones[4] = {1, 1, 1, 1};
    HashModel form = TINY;
    Model m;
    char *options = NULL;
    size_t size;
    FILE *out = open_memstream(&options, &size);
    form.n_layers = n / 16;
    fputs(
        "\"num_experts\": 2, \"num_experts_per_tok\": 1, \"moe_intermediate_size\": 4",
        out);
    for (int i = 0; i < n; i++)
        fprintf(out, ", \"option %d\": 0", i);
    fputs(", \"mlp_only_layers\": [-1", out);
    for (int i = 0; i < n; i++)
        fprintf(out, ", %d", n - 1 - i);
    fputs("]", out);
    fclose(out);
    if (hashmodel_write(&form, temporary("growth.bin"), 0, 0) ||
        model_open(&m, temporary("growth.bin")))
        return 0;
    for (int l = 0; l < form.n_layers; l++)
        m.layers[l].q_norm = m.layers[l].k_norm =
            (Norm){.kind = NORM_RMS, .eps = 1e-5f, .gamma = ones};
    m.config.rope.halves = true;
    int status = folder_write(&m, temporary("growth"),
                              &(FolderForm){"qwen3_moe", .options = options});
    model_close(&m);
    free(options);
    bytes = size;
    struct stat st;
    if (status || stat(temporary("growth/model.safetensors"), &st))
        return 0;
    bytes += (size_t)st.st_size;
    return open_folder(true);
}

/* The hash of a model with n layers in n files, which ranks compare. */
static uint64_t hash_of_files(int n) {
    static const uint8_t header[64];
    HashModel form = TINY;
    Model m;
    form.n_layers = n;
    if (hashmodel_write(&form, temporary("growth.bin"), 0, 0) ||
        model_open(&m, temporary("growth.bin")))
        return 0;
    Model many = m;
    many.n_files = n;
    many.files = malloc((size_t)n * sizeof *many.files);
    if (!many.files)
        abort();
    for (int i = 0; i < n; i++)
        many.files[i] = (File){
            .data = header, .size = sizeof header, .header = sizeof header};
    bytes = m.files->size + (size_t)n * sizeof header;
    uint64_t before = steps_taken;
    model_hash(&many);
    uint64_t after = steps_taken;
    free(many.files);
    model_close(&m);
    return after - before;
}

static void remove_folder(void) {
    char command[256];
    snprintf(command, sizeof command, "rm -rf %s %s", temporary("growth"),
             temporary("growth.json"));
    if (system(command))
        abort();
}

/* Twice the input takes at most 2.3 times the steps, and at most `factor` n
 * log2 n of them. */
static void check_growth(const char *name, double factor, uint64_t once,
                         uint64_t twice) {
    double max = factor * (double)bytes * log2((double)bytes);
    CHECK(once > 0 && twice > once, "%s: %llu and %llu steps", name,
          (unsigned long long)once, (unsigned long long)twice);
    CHECK((double)twice <= 2.3 * (double)once,
          "%s: %llu steps, of twice as much %llu", name,
          (unsigned long long)once, (unsigned long long)twice);
    CHECK((double)twice <= max, "%s: %zu bytes, %llu steps", name, bytes,
          (unsigned long long)twice);
}

static void opening_grows_with_the_bytes(void) {
    static const struct {
        const char *name;
        uint64_t (*open)(int n);
        int n;
    } inputs[] = {
        {"TemplateProcessing", template_processing, 2000},
        {"pieces and merges", pieces_and_merges, 2000},
        {"special names", special_names, 2000},
        {"fields of tokenizer.model", protocol_fields, 4000},
        {"JSON", json_values, 4000},
        {"shards", shards, 500},
        {"layers and options", layers_and_options, 4000},
        {"hash of files", hash_of_files, 300},
    };
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        uint64_t taken[2];
        for (int k = 0; k < 2; k++) {
            bytes = 0;
            taken[k] = inputs[i].open((k + 1) * inputs[i].n);
            remove_folder();
        }
        check_growth(inputs[i].name, 5, taken[0], taken[1]);
    }
}

/* ---- converting --------------------------------------------------------- */

/* Adds n keys that norma does not know, of 32 bytes each, to a GGUF file. */
static void add_keys(const char *path, int n) {
    enum { BEFORE_COUNT = 4 + 4 + 8, HEAD = BEFORE_COUNT + 8 };
    size_t size;
    uint64_t n_keys;
    char *const file = file_read(path, &size);
    if (!file)
        abort();
    memcpy(&n_keys, file + BEFORE_COUNT, sizeof n_keys);
    n_keys += (uint64_t)n;
    memcpy(file + BEFORE_COUNT, &n_keys, sizeof n_keys);
    FILE *out = create("growth.gguf");
    fwrite(file, 1, HEAD, out);
    for (int i = 0; i < n; i++) {
        fwrite(&(uint64_t){16}, 8, 1, out);
        fprintf(out, "general.k%07d", i);
        fwrite((uint32_t[]){GGUF_U32, 7}, 4, 2, out);
    }
    fwrite(file + HEAD, 1, size - HEAD, out);
    free(file);
    finish(out);
}

/* Converts a GGUF file with n more keys. Returns the steps. */
static uint64_t convert(int n) {
    Model m, back;
    const char *path = temporary("growth.gguf"), *to = temporary("to.gguf");
    if (hashmodel_write(&GQA_TIED, temporary("growth.bin"), 0, 0) ||
        model_open(&m, temporary("growth.bin")))
        abort();
    stderr_hide();
    int status =
        gguf_write_model(&m, NULL, (GgufForm){.type = TYPE_F32}, "m", path);
    model_close(&m);
    add_keys(path, n);
    uint64_t before = steps_taken;
    status |=
        model_open(&m, path) ||
        gguf_write_model(&m, NULL, (GgufForm){.type = TYPE_F32}, path, to);
    uint64_t after = steps_taken;
    status |= model_open(&back, to);
    stderr_show();
    if (status)
        return 0;
    Gguf g = {0};
    bool kept = !gguf_open(&g, to, back.files) &&
                gguf_find_value(&g, "general.k0000000") &&
                g.n_values >= (uint64_t)n;
    gguf_close(&g);
    model_close(&m);
    model_close(&back);
    return kept ? after - before : 0;
}

/* Keys are looked up, not searched: 80,000 of them once took 100 s. */
static void converting_grows_with_the_keys(void) {
    uint64_t taken[2];
    for (int k = 0; k < 2; k++) {
        bytes = 0;
        taken[k] = convert((k + 1) * 20000);
    }
    check_growth("converting", 5, taken[0], taken[1]);
}

/* ---- texts --------------------------------------------------------------- */

enum { N_NESTED = 64 };

/* The added tokens "(", "((", ..., up to N_NESTED characters. */
static int open_nested(Tokenizer *t) {
    char name[N_NESTED + 1] = "";
    FILE *out = create("growth.json");
    fputs("{\"model\":{\"vocab\":{\"a\":0},\"merges\":[]},\"added_tokens\":[",
          out);
    for (int i = 1; i <= N_NESTED; i++) {
        strcat(name, "(");
        fprintf(out, "%s{\"id\":%d,\"content\":\"%s\"}", i > 1 ? "," : "", i,
                name);
    }
    fputs("]}", out);
    finish(out);
    return tokenizer_open_folder(t, temporary("growth.json"), N_NESTED + 1);
}

static int open_scores(Tokenizer *t) {
    hashtokenizer_write(temporary("growth.bin"), 1800);
    return tokenizer_open_bin(t, temporary("growth.bin"), 1800);
}

static int open_ranks(Tokenizer *t) {
    return tokenizer_open_folder(t, "tests/golden/bpe_qwen2.json", 911);
}

/* Encodes n times the unit; returns the steps. */
static uint64_t encode(const Tokenizer *t, const char *unit, int n) {
    Tokens tokens;
    size_t size = strlen(unit);
    char *text = malloc(size * (size_t)n + 1);
    if (!text)
        abort();
    for (int i = 0; i < n; i++)
        memcpy(text + size * (size_t)i, unit, size + 1);
    bytes = size * (size_t)n;
    uint64_t before = steps_taken;
    int status = tokenizer_encode(t, text, bytes, true, &tokens);
    uint64_t after = steps_taken;
    if (status)
        return 0;
    free(tokens.ids);
    free(text);
    return after - before;
}

/* Uses one tokenizer for both texts: another one would have another hash key
 * and other collisions. */
static void encoding_grows_with_the_text(void) {
    static const struct {
        int (*open)(Tokenizer *t);
        const char *unit;
    } inputs[] = {{open_scores, "aa ba "},
                  {open_scores, "\xe2\x96\x81"},
                  {open_scores, "\xff"},
                  {open_ranks, "e\xcc\x81"},
                  {open_ranks, "\xcc\x81\xcc\xa3"},
                  {open_ranks, "the 12345  "},
                  {open_ranks, " "},
                  {open_nested, "("},
                  {open_nested, "a(((("}};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        Tokenizer t;
        CHECK(!inputs[i].open(&t), "input %zu does not open", i);
        uint64_t once = encode(&t, inputs[i].unit, 4000),
                 twice = encode(&t, inputs[i].unit, 8000);
        tokenizer_close(&t);
        check_growth(inputs[i].unit, 128, once, twice);
    }
}

static int ignore_word(void *arg, const char *s, size_t n) {
    (void)arg;
    (void)s;
    return n == 0;
}

/* Each pre-tokenizer splits runs of characters, with a digit after them. */
static void splitting_grows_with_the_text(void) {
    static const char *const units[] = {
        " ", "A",  "a", "\n ",  "\xe4\xb8\xad", "A\xe4\xb8\xad",
        "(", " (", "1", "\xff", "\xcc\x81"};
    static char text[1 << 14];
    for (const Pretokenizer *p = PRETOKENIZERS; p->names; p++)
        for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
            uint64_t taken[2];
            for (int k = 0; k < 2; k++) {
                size_t n = 0;
                for (int left = 1000 * (k + 1); left > 0; left--)
                    n += strlen(strcpy(text + n, units[i]));
                text[n++] = '5';
                uint64_t before = steps_taken;
                CHECK(!pretokenize(p->steps, text, n, ignore_word, NULL),
                      "an empty word");
                taken[k] = steps_taken - before;
                bytes = n;
            }
            check_growth(p->names[0], 2048, taken[0], taken[1]);
        }
}

/* A head_dim that the weights contradict costs neither memory nor time. */
static void no_rope_factors_before_the_weights_fit(void) {
    static const char *const heads[] = {"\"head_dim\": 18",
                                        "\"head_dim\": 4194304"};
    static const char options[] =
        "\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8, "
        "\"low_freq_factor\": 1, \"high_freq_factor\": 4}";
    uint64_t steps[2];
    for (int i = 0; i < 2; i++) {
        Model m;
        CHECK(!hashmodel_write(&GQA_TIED, temporary("growth.bin"), 0, 0) &&
                  !model_open(&m, temporary("growth.bin")),
              "cannot make the model");
        m.config.rope.halves = true;
        int status = folder_write(&m, temporary("growth"),
                                  &(FolderForm){"llama", .options = options});
        model_close(&m);
        CHECK(!status, "cannot make the folder");
        replace_in_file(temporary("growth/config.json"), "\"head_dim\": 8",
                        heads[i]);
        stderr_hide();
        uint64_t before = steps_taken;
        int opens = !model_open(&m, temporary("growth"));
        steps[i] = steps_taken - before;
        stderr_show();
        CHECK(!opens && strstr(stderr_text(), "q_proj.weight is [1, 64, 64]"),
              "%s: %s", heads[i], opens ? "opens" : stderr_text());
    }
    CHECK(steps[1] < 2 * steps[0], "%s: %llu steps, %s: %llu", heads[0],
          (unsigned long long)steps[0], heads[1], (unsigned long long)steps[1]);
}

/* ---- chat templates ------------------------------------------------------ */

enum {
    MESSAGE = 1 << 18 /* bytes; its parts fill most of the memory of values */
};

/* Renders with two messages of many commas; *steps: the steps that are counted.
 * Returns the basic blocks; 0: the template is refused. */
static uint64_t render_blocks(const char *template, size_t *steps) {
    static char wide[MESSAGE], narrow[MESSAGE];
    static bool none[MESSAGE];
    JinjaText text;
    for (int i = 0; i < MESSAGE; i++) {
        wide[i] = "\xe4\xb8\xad,"[i % 4];
        narrow[i] = "ab,"[i % 3];
    }
    JinjaReport report = {0};
    JinjaText messages[] = {{wide, none, MESSAGE, "user"},
                            {narrow, none, MESSAGE, "assistant"}};
    JinjaInput in = {.path = "growth",
                     .template = template,
                     .tokens = {{"", 0}, {"", 0}},
                     .messages = messages,
                     .n = 2,
                     .report = &report};
    stderr_hide();
    uint64_t before = steps_taken;
    int status = jinja_render(&in, &text);
    uint64_t after = steps_taken;
    stderr_show();
    *steps = report.steps;
    if (status)
        return 0;
    free(text.text);
    return after - before;
}

/* A template is refused after JINJA_STEPS steps, so each must be worth a few
 * basic blocks and, since blocks of the C library are not counted, there must
 * be one for each byte, character or item that an expression visits. */
static void work_of_templates_is_counted(void) {
    static const size_t visits[128] = {['s'] = MESSAGE,
                                       ['a'] = MESSAGE,
                                       ['c'] = MESSAGE / 2,
                                       ['i'] = MESSAGE / 4};
    size_t none, steps;
    uint64_t begin = render_blocks(EXPRESSIONS_BEGIN, &none);
    for (int i = 0; i < N_EXPRESSIONS; i++) {
        const Expression *e = &EXPRESSIONS[i];
        char template[1024];
        snprintf(template, sizeof template, "%s%s", EXPRESSIONS_BEGIN, e->text);
        uint64_t all = render_blocks(template, &steps), blocks = all - begin;
        CHECK(all, "%s: %s", e->text, stderr_text());
        CHECK(steps - none >= visits[(int)e->visits],
              "%s: %zu steps, expected %zu", e->text, steps - none,
              visits[(int)e->visits]);
        CHECK(blocks <= 24 * (steps - none) + 2000,
              "%s: %llu basic blocks, %zu steps", e->text,
              (unsigned long long)blocks, steps - none);
    }
}

/* Text that only the template has: it is read many times, also where it does
 * not run. */
static void reading_of_templates_is_counted(void) {
    static const struct {
        const char *before, *one, *after;
    } cases[] = {
        {"{{ 1 or '", "a", "' }}"},
        {"{{ 1 or 0", "0", " }}"},
        {"{{ 1", " ", " }}"},
        {"{% if 0 %}", "a", "{% endif %}"},
        {"{#", "#", "#}"},
        {"{% if 0 %}", "{ ", "{% endif %}"},
        {"{{ 1 or a", "a", " }}"},
        {"{% if 0 %}", " \n", "{% endif %}"},
        {"{{ 1 or ", "(1)+", "1 }}"},
    };
    enum { N = 100000 };
    static char template[4 * N + 100];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t steps,
            at = (size_t)sprintf(template, "{%% for i in range(3) %%}%s",
                                 cases[i].before);
        size_t n = strlen(cases[i].one);
        for (int k = 0; k < N; k++)
            at += (size_t)sprintf(template + at, "%s", cases[i].one);
        sprintf(template + at, "%s{%% endfor %%}", cases[i].after);
        uint64_t blocks = render_blocks(template, &steps);
        CHECK(blocks && steps >= 3 * N * n && blocks <= 24 * steps + 20 * N * n,
              "%s: %llu basic blocks, %zu steps", cases[i].before,
              (unsigned long long)blocks, steps);
    }
}

static void check_expression_of(const char *name) {
    bool found = !strcmp(name, "raise_exception");
    for (int i = 0; i < N_EXPRESSIONS && !found; i++)
        found = strstr(EXPRESSIONS[i].text, name);
    CHECK(found, "no expression has %s", name);
}

/* The names in a table of a file: the first string of each row, without the ?
 * before some. */
static void check_table(const char *path, const char *table) {
    size_t size;
    char *source = file_read(path, &size);
    CHECK(source, "%s is missing", path);
    const char *s = strstr(source, table);
    CHECK(s, "%s is missing", table);
    int n = 0, depth = 0;
    s = strchr(s, '{');
    do {
        if (*s == '{')
            depth++;
        else if (*s == '}')
            depth--;
        if (*s != '{' || depth != 2 || s[1] != '"')
            continue;
        char name[32];
        const char *begin = s + 2 + strspn(s + 2, "?");
        snprintf(name, sizeof name, "%.*s", (int)strcspn(begin, "\""), begin);
        check_expression_of(name);
        n++;
    } while (*++s && depth);
    CHECK(n > 10, "%s: %d names", table, n);
    free(source);
}

static void every_function_has_an_expression(void) {
    check_table("formats/jinja_functions.c", "FUNCTIONS[] = {");
    check_table("formats/jinja_expressions.c", "OPERATORS[] = {");
}

/* ---- keys ---------------------------------------------------------------- */

/* Steps that an editor takes for n bytes, which `next` yields, drawn now and
 * then in windows of all sizes. */
static uint64_t type(char next(size_t i, size_t n), size_t n) {
    static const int columns[] = {1, 2, 7, 80, 65535};
    Editor e = {0};
    Buffer drawn = {0};
    uint64_t before = steps_taken;
    bool failed = editor_begin(&e);
    for (size_t i = 0; i < n && !failed; i++) {
        EditorEvent event = editor_take(&e, next(i, n));
        if (event == SENT || event == CANCELED)
            failed = editor_begin(&e);
        if (i % (n / 100) == 0) {
            Screen s = {.rows = 1 + (int)(i % 50),
                        .columns = columns[i / (n / 100) % COUNT(columns)]};
            editor_draw(&e, s, i % 2, &drawn);
            editor_return(&e, s, &drawn);
            drawn.n = 0;
        }
    }
    uint64_t steps = steps_taken - before;
    free(drawn.bytes);
    editor_close(&e);
    return failed ? 0 : steps;
}

/* Half of the bytes, Home, and the other half in a paste before them. */
static char paste_before_text(size_t i, size_t n) {
    static const char marks[] = "\033[201~\033[H\033[200~";
    size_t at = i - n / 2;
    if (i < 6)
        return "\033[200~"[i];
    return i >= n / 2 && at < sizeof marks - 1 ? marks[at] : 'a';
}

/* Any bytes, more often those of keys. */
static char any_key(size_t i, size_t n) {
    static const char keys[] = "\033\033\033[[[O123405;;~~ABCDFHab \r\n\t\001"
                               "\005\013\025\027\177\003\xcc\x81\xe4\xbd\xa0";
    (void)n;
    uint64_t random = hash64(54, 1, i);
    return random % 8 ? keys[random / 8 % sizeof keys] : (char)(random >> 32);
}

/* Lines that begin with a mark, and Up and Down in them. */
static char marks_and_arrows(size_t i, size_t n) {
    return "\xcc\x81x\n\xcc\x81\033[A\033[B\033[B\n"[i % 17 + 0 * n];
}

static void keys_take_bounded_steps(void) {
    static const struct {
        const char *name;
        char (*next)(size_t i, size_t n);
    } cases[] = {{"a paste before a text", paste_before_text},
                 {"any bytes", any_key},
                 {"marks and arrows", marks_and_arrows}};
    size_t n = test_thorough() ? 2000000 : 50000;
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint64_t few = type(cases[i].next, n / 8),
                 many = type(cases[i].next, n);
        CHECK(few && many <= 12 * few,
              "%s: %llu steps for %zu bytes, %llu for 1/8", cases[i].name,
              (unsigned long long)many, n, (unsigned long long)few);
    }
}

/* ---- sampling ------------------------------------------------------------ */

enum { VOCABULARY = 1 << 16 };

/* Logits in the order in which they are hardest to choose from. */
typedef enum { EQUAL, ASCENDING, NORMAL, N_SHAPES } LogitShape;

/* `spread` is the standard deviation of normal logits, the range of ascending
 * ones. */
static void set_logits(float *logits, LogitShape shape, double spread) {
    for (unsigned i = 0; i < VOCABULARY; i++) {
        /* Box-Muller; the order of the tokens is not that of the logits */
        const double u = (i * 40503 % VOCABULARY + 0.5) / VOCABULARY,
                     v = fmod(0.618034 * (double)i, 1),
                     normal = sqrt(-2 * log(u)) * cos(2 * M_PI * v);
        logits[i] =
            (float)(spread * (shape == NORMAL      ? normal
                              : shape == ASCENDING ? (double)i / VOCABULARY
                                                   : 0));
    }
}

/* Steps of choosing one token. */
static uint64_t sampling_steps(const Sampling *options, const float *logits) {
    Sampler s;
    if (sampler_open(&s, options, VOCABULARY))
        abort();
    const uint64_t before = steps_taken;
    sampler_next(&s, logits);
    const uint64_t after = steps_taken;
    sampler_close(&s);
    return after - before;
}

/* Whatever the logits and the options, a token takes a bounded number of steps
 * per entry of the vocabulary: nothing is sorted by comparisons. */
static void sampling_takes_few_steps(void) {
    static const double spreads[] = {1e-4, 0.01, 1, 4};
    static const int ks[] = {0, 40, VOCABULARY / 3};
    static const float ps[] = {0, 0.9f, 0.9999f}, mins[] = {0, 1e-4f, 0.99f};
    float *logits = allocate(VOCABULARY, sizeof *logits);
    if (!logits)
        abort();
    for (int i = 0; i < N_SHAPES * (int)COUNT(spreads); i++) {
        const LogitShape shape = i % N_SHAPES;
        const double spread = spreads[i / N_SHAPES];
        set_logits(logits, shape, spread);
        for (int set = 0; set < 27; set++) {
            const Sampling options = {.temperature = 1,
                                      .top_k = ks[set % 3],
                                      .top_p = ps[set / 3 % 3],
                                      .min_p = mins[set / 9 % 3],
                                      .repeat_penalty = set % 2 ? 1 : 2,
                                      .seed = 7};
            const uint64_t steps = sampling_steps(&options, logits);
            CHECK(
                steps <= 20 * VOCABULARY,
                "logits of shape %d, spread %g; top-k %d, top-p %g, min-p %g: %g steps per token of the vocabulary",
                (int)shape, spread, options.top_k, options.top_p, options.min_p,
                (double)steps / VOCABULARY);
        }
    }
    free(logits);
}

/* ---- the keyboard -------------------------------------------------------- */

/* Takes n times the keys, then draws. Returns the steps. */
static uint64_t type_keys(Editor *e, const char *keys, int n) {
    Buffer out = {0};
    uint64_t before = steps_taken;
    for (int i = 0; i < n; i++)
        for (const char *key = keys; *key; key++)
            editor_take(e, *key);
    editor_draw(e, (Screen){24, 65535}, false, &out);
    uint64_t taken = steps_taken - before;
    bytes += strlen(keys) * (size_t)n;
    free(out.bytes);
    return taken;
}

/* Text typed or pasted before as much text, and keys in what was typed. */
static void typing_grows_with_the_keys(void) {
    static const char *const keys[][2] = {
        {"word \n", "more\t\n"},
        {"\033[200~pasted\r\n\033[201~", "\033[200~and \033[201~"},
        {"\u200b", "\u0301"},
        {"\n", "\n"},
        {"a ", "\027"},
        {"a\n", "\033[A"},
        {"\xe4\xbd\xa0", "\033[D"},
        {"a", "\177"},
        {"ab \n", "\037"},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        uint64_t taken[2];
        for (int k = 0; k < 2; k++) {
            Editor e = {0};
            bytes = 0;
            CHECK(!editor_begin(&e), "no memory");
            const int n = (k + 1) * 20000;
            taken[k] = type_keys(&e, keys[i][0], n);
            if (i < 4)
                type_keys(&e, "\001", 1); /* then before this text */
            taken[k] += type_keys(&e, keys[i][1], n);
            editor_close(&e);
        }
        check_growth(keys[i][0], 60, taken[0], taken[1]);
    }
}

/* 2,000,000 bytes of any keys and characters in windows of any width: messages
 * stay short enough, so each byte takes few steps. */
static void any_keys_end(void) {
    static const char *const parts[] = {
        "a",          "word ",     "\u200b",   "e\u0301",   "\u4f60",
        "\U0001f468", "\u200d",    "\ufe0f",   "\u0915",    "\u094d",
        "\U0001f1e9", "\n",        "\t",       "\r",        "\033\r",
        "\033[A",     "\033[B",    "\033[C",   "\033[D",    "\033[H",
        "\033[F",     "\001",      "\002",     "\005",      "\006",
        "\013",       "\025",      "\027",     "\031",      "\037",
        "\022",       "\007",      "\010",     "\177",      "\004",
        "\014",       "\033y",     "\033d",    "\033b",     "\033f",
        "\033[3~",    "\033[201~", "\003",     "\032",      "\033",
        "\033[",      "\xff",      "\xe4",     "\033[200~", "\"\"\"",
        "\033[20",    "\xe2\x80",  "\033[201", "~"};
    static const int columns[] = {1, 2, 20, 80, 65535};
    enum { N = 2000000, N_PARTS = sizeof parts / sizeof *parts };
    Editor e = {0};
    Buffer out = {0};
    uint64_t before = steps_taken;
    CHECK(!editor_begin(&e), "no memory");
    bytes = 0;
    for (uint64_t i = 0; bytes < N; i++) {
        const uint64_t any = hash64(71, 3, i);
        for (const char *c = parts[any % N_PARTS]; *c; c++)
            switch (editor_take(&e, *c)) {
            case SENT: history_add(&e.history, editor_text(&e)->bytes);
            /* fallthrough */
            case CANCELED:
            case ENDED: CHECK(!editor_begin(&e), "no memory"); break;
            case EDITED:
            case STOPPED:
            case LISTED:
            case CLEARED: break;
            }
        bytes += strlen(parts[any % N_PARTS]);
        if (i % 50)
            continue;
        Screen s = {24, columns[any / N_PARTS % 5]};
        out.n = 0;
        editor_draw(&e, s, any % 7 == 0, &out);
        editor_return(&e, s, &out);
    }
    const uint64_t steps = steps_taken - before;
    CHECK(steps < 1000 * (uint64_t)N, "%llu steps", (unsigned long long)steps);
    free(out.bytes);
    editor_close(&e);
}

void suite_growth(void) {
    TEST(keys_take_bounded_steps);
    TEST(sampling_takes_few_steps);
    TEST(typing_grows_with_the_keys);
    TEST(any_keys_end);
    TEST(work_of_templates_is_counted);
    TEST(reading_of_templates_is_counted);
    TEST(every_function_has_an_expression);
    TEST(opening_grows_with_the_bytes);
    TEST(converting_grows_with_the_keys);
    TEST(encoding_grows_with_the_text);
    TEST(splitting_grows_with_the_text);
    TEST(no_rope_factors_before_the_weights_fit);
}
