/* test_cli.c: the program as a process.
 *
 * Checks the output of every mode and option, against results computed with the
 * library where possible. binary.c runs the program; test_lab.c tests the
 * options of the norm laboratory.
 */
#include "base/file.h"
#include "formats/gguf.h"
#include "formats/gguf_file.h"
#include "formats/json.h"
#include "formats/llama2c.h"
#include "formats/open.h"
#include "kv_cache.h"
#include "model.h"
#include "sampler.h"
#include "session.h"
#include "tokenizer.h"

#include "modes/input.h"

#include "tests/support/binary.h"
#include "tests/support/folder_writer.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- models to run ------------------------------------------------------- */

static const HashModel MODEL = {64, 172, 2, 8, 4, 512, 64, false, 11};

/* Overwrites row `row` of the embedding of a v1 file. */
static void patch_row(const char *name, int row, float value) {
    FILE *f = fopen(inside(name), "r+b");
    fseek(f, 256 + 4L * MODEL.dim * (2 * MODEL.n_layers + 1 + row), SEEK_SET);
    for (int i = 0; i < MODEL.dim; i++)
        fwrite(&value, sizeof value, 1, f);
    fclose(f);
}

enum { IM_START = 510, IM_END = 511, EOT = 500 };

/* A chat model in a GGUF file with these last two pieces. `template`: NULL:
 * none. */
static void write_chat_model(const char *path, const HashModel *m,
                             const char *template, const GgufPiece *markers) {
    static GgufFile f;
    gguf_make(&f, m, 0);
    gguf_add_tokenizer(&f, m->vocab_size, markers, 2);
    if (template)
        gguf_set_text(&f, "tokenizer.chat_template", template);
    gguf_set_int(&f, "tokenizer.ggml.eot_token_id", EOT);
    gguf_write(&f, path);
    gguf_free(&f);
}

/* control, user-defined */
static const GgufPiece MARKERS[] = {{"<|im_start|>", 3}, {"<|im_end|>", 4}};

/* The current folder of all runs, with models and their tokenizer in m/. */
static void make_folder(void) {
    HashModel longer = MODEL;
    longer.context = 1 << 30;
    binary_folder("cli");
    mkdir(inside("m"), 0700);
    mkdir(inside("bare"), 0700);
    mkdir(inside("out"), 0700);
    hashmodel_write(&MODEL, inside("m/model.bin"), 0, 0);
    hashmodel_write(&MODEL, inside("m/v2.bin"), 2, 4);
    hashmodel_write(&MODEL, inside("bare/model.bin"), 1, 0);
    hashmodel_write(&longer, inside("m/long.bin"), 1, 0);
    patch_row("m/long.bin", 1,
              0); /* BOS is never the most likely token: the text never ends */
    write_chat_model(
        inside("m/chat.gguf"), &longer,
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
        MARKERS);
    write_chat_model(inside("m/strange.gguf"), &longer,
                     "a\n{{ raise_exception('strange') }}", MARKERS);
    hashmodel_write(&MODEL, inside("m/nan.bin"), 1, 0);
    patch_row("m/nan.bin", MODEL.vocab_size - 1, NAN);
    hashtokenizer_write(inside("m/tokenizer.bin"), MODEL.vocab_size);
    hashtokenizer_write(inside("m/tokenizer300.bin"), 300);
    write_file("empty", "");
    write_file("text", "aa ba ca, da! Text from a file");
}

/* ---- the expected output ------------------------------------------------ */

/* The library, opened on the files of the run. */
typedef struct {
    Model model;
    Tokenizer tokenizer;
    Session session;
    Sampler sampler;
    int ids[4096]; /* the sequence: n_run tokens that ran, then pending ones */
    int n, n_run;
    int end;           /* the end-of-turn token */
    char turn[256];    /* the last turn, in add_turn's notation */
    int begin, answer; /* where the last turn and its answer begin in ids */
    char text[1 << 16];
    size_t n_text;
} Expected;

static const Sampling GREEDY = {
    .temperature = 0, .repeat_penalty = 1, .seed = 1};

static int expect_tokenizer(Expected *e, const char *model) {
    if (!gguf_is(e->model.files))
        return tokenizer_open_bin(&e->tokenizer, inside("m/tokenizer.bin"),
                                  512);
    return gguf_read_tokenizer(&e->tokenizer, e->model.files, model, 512,
                               true) == 1
               ? 0
               : -1;
}

static Expected *expect_open(const char *model, const Sampling *sampling) {
    Expected *e = calloc(1, sizeof *e);
    if (model_open(&e->model, inside(model)) || expect_tokenizer(e, model) ||
        session_open(&e->session, &e->model, 1, 64, 0, KV_F32) ||
        sampler_open(&e->sampler, sampling, 512))
        abort();
    return e;
}

static void expect_close(Expected *e) {
    sampler_close(&e->sampler);
    session_close(&e->session);
    tokenizer_close(&e->tokenizer);
    model_close(&e->model);
    free(e);
}

static void add_id(Expected *e, int id) {
    e->ids[e->n++] = id;
    sampler_accept(&e->sampler, id);
}

static void add_text_ids(Expected *e, const char *text) {
    Tokens tokens;
    if (tokenizer_encode(&e->tokenizer, text, strlen(text), true, &tokens))
        abort();
    for (int i = 0; i < tokens.n; i++)
        add_id(e, tokens.ids[i]);
    free(tokens.ids);
}

static void add_text(Expected *e, int previous, int id) {
    int n;
    const char *piece = tokenizer_decode(&e->tokenizer, previous, id, &n);
    memcpy(e->text + e->n_text, piece, (size_t)n);
    e->n_text += (size_t)n;
}

static const float *forward(Expected *e) {
    const float *logits = model_forward_text(&e->session, e->ids + e->n_run,
                                             e->n - e->n_run, e->n_run, 1);
    e->n_run = e->n;
    return logits;
}

/* The text of `-i prompt -n steps`. */
static void expect_text(Expected *e, const char *prompt, int steps) {
    add_text_ids(e, prompt);
    for (int i = 1; i < e->n; i++)
        add_text(e, e->ids[i - 1], e->ids[i]);
    while (e->n <= steps) {
        int token = sampler_next(&e->sampler, forward(e));
        if (token == 1)
            break;
        add_text(e, e->ids[e->n - 1], token);
        add_id(e, token);
    }
    e->text[e->n_text++] = '\n';
}

/* Text that is not tokenized yet. */
typedef struct {
    const Tokenizer *t;
    char text[1 << 14];
    size_t n;
    Tokens tokens;
} Pending;

static void add_pending(Pending *p, int id) {
    Tokens tokens;
    if (tokenizer_encode(p->t, p->text, p->n, false, &tokens))
        abort();
    for (int i = 0; i < tokens.n; i++)
        if (tokens_add(&p->tokens, tokens.ids[i]))
            abort();
    free(tokens.ids);
    p->n = 0;
    if (id >= 0 && tokens_add(&p->tokens, id))
        abort();
}

/* The text of an answer, with its special tokens as tokens; `trims` removes
 * white space around it. */
static void add_answer(Pending *p, const Expected *e, bool trims) {
    const char *const white = trims ? " \t\n\v\f\r" : "";
    size_t start = p->n; /* of the answer; the template's text is before it */
    bool ends_special = false, begun = false;
    for (int i = e->answer, n; i < e->n; i++) {
        PieceKind kind = e->tokenizer.pieces.list[e->ids[i]].kind;
        const char *s =
            tokenizer_decode(&e->tokenizer, e->ids[i - 1], e->ids[i], &n);
        ends_special = kind != PIECE_TEXT && kind != PIECE_BYTE;
        if (ends_special) {
            add_pending(p, e->ids[i]);
            start = 0;
        }
        for (int k = 0; k < n && !ends_special; k++)
            if (begun || !s[k] || !strchr(white, s[k]))
                p->text[p->n++] = s[k], begun = true;
        begun |= ends_special;
    }
    size_t min = ends_special ? p->n : start;
    while (p->n > min && p->text[p->n - 1] && strchr(white, p->text[p->n - 1]))
        p->n--;
}

/* A turn: text in which the bytes 1 to 4 represent BOS, EOS, IM_START and
 * IM_END, 6 the last answer, and 7 the last answer without white space around
 * it. */
static void add_turn(Pending *p, const Expected *e, const char *turn) {
    static const int ids[] = {0, 1, 2, IM_START, IM_END};
    for (; *turn; turn++)
        if (*turn < 5)
            add_pending(p, ids[(int)*turn]);
        else if (*turn < 8)
            add_answer(p, e, *turn == 7);
        else
            p->text[p->n++] = *turn;
}

static bool ends_turn(const Expected *e, int token) {
    return token == 1 || token == 2 || token == e->end ||
           (gguf_is(e->model.files) && token == EOT);
}

/* One answer in a conversation, at most `limit` tokens (0: no limit); false if
 * the context of `context` positions is full. The last turn is encoded again
 * with its answer; the common prefix is not run again. */
static bool expect_answer(Expected *e, const char *turn, const char *answer,
                          int limit, int context) {
    static Pending p;
    int token, same = 0;
    p = (Pending){.t = &e->tokenizer};
    if (*e->turn)
        add_turn(&p, e, e->turn), add_turn(&p, e, answer), add_pending(&p, -1);
    int begin = p.tokens.n;
    add_turn(&p, e, turn);
    add_pending(&p, -1);
    if (!p.tokens.ids)
        abort();
    while (same < e->n - e->begin &&
           p.tokens.ids[same] == e->ids[e->begin + same])
        same++;
    bool room = e->begin + p.tokens.n <= context;
    e->n = e->n_run = e->begin + same;
    for (int i = same; i < p.tokens.n && room; i++)
        add_id(e, p.tokens.ids[i]);
    free(p.tokens.ids);
    if (!room)
        return false;
    e->begin += begin;
    e->answer = e->n;
    snprintf(e->turn, sizeof e->turn, "%s", turn);
    for (;;) {
        int previous = e->ids[e->n - 1];
        token = sampler_next(&e->sampler, forward(e));
        if (ends_turn(e, token))
            break;
        add_text(e, previous, token);
        if (e->n == context) {
            e->text[e->n_text++] = '\n';
            return false;
        }
        add_id(e, token);
        if (e->n - e->answer != limit)
            continue;
        forward(e);
        e->text[e->n_text++] = '\n';
        return true;
    }
    sampler_accept(&e->sampler, token);
    e->text[e->n_text++] = '\n';
    return true;
}

static bool is_output(const char *text, size_t n) {
    return n == n_out && !memcmp(out, text, n);
}

/* ---- generate ----------------------------------------------------------- */

static void generate_writes_the_expected_text(void) {
    for (int seed = 1; seed <= (test_fast() ? 2 : 6); seed++) {
        Sampling sampling = {.temperature = seed % 2 ? 1 : 0.5f,
                             .top_p = 0.9f,
                             .repeat_penalty = 1};
        sampling.seed = (uint64_t)seed;
        Expected *e = expect_open("m/model.bin", &sampling);
        expect_text(e, "aa ba, <s> \xc3\xa9", 50);
        CHECK_RUN("m/model.bin -i 'aa ba, <s> \xc3\xa9' -n 50 -s %d -t %s",
                  seed, seed % 2 ? "1" : "0.5");
        CHECK(is_output(e->text, e->n_text), "seed %d: '%s', expected '%s'",
              seed, out, e->text);
        char begin[40];
        const bool is_cut = e->n > 50;
        const char *end = is_cut ? strchr(err, '\n') + 1 : err;
        snprintf(begin, sizeof begin, "seed %d; prompt tokens: ", seed);
        CHECK(!is_cut || !strncmp(err, "note: -n 50 cuts the text\n",
                                  (size_t)(end - err)),
              "no note: %s", err);
        CHECK(one_line(end) && strstr(end, "tokens/s") &&
                  !strncmp(end, begin, strlen(begin)),
              "statistics: %s", err);
        expect_close(e);
    }
}

static void no_echo_omits_the_prompt(void) {
    static const char prompt[] = "aa ba, <s> \xc3\xa9";
    Sampling sampling = {
        .temperature = 1, .top_p = 0.9f, .repeat_penalty = 1, .seed = 3};
    Expected *e = expect_open("m/model.bin", &sampling);
    expect_text(e, prompt, 50);
    CHECK_RUN("m/model.bin -i '%s' -n 50 -s 3 --no-echo", prompt);
    CHECK(is_output(e->text + strlen(prompt), e->n_text - strlen(prompt)),
          "'%s', expected the end of '%s'", out, e->text);
    CHECK_RUN("m/model.bin -i '%s' -n 3 -t 0 --no-echo", prompt);
    CHECK(is_output("\n", 1) && strncmp(err, "seed", 4) != 0,
          "a prompt longer than -n: '%s', %s", out, err);
    expect_close(e);
}

static void generate_accepts_every_option(void) {
    Sampling sampling = {.temperature = 1.5f,
                         .top_p = 0.8f,
                         .top_k = 30,
                         .min_p = 0.01f,
                         .repeat_penalty = 1.2f,
                         .repeat_last = 7,
                         .seed = 77};
    Expected *e = expect_open("m/model.bin", &sampling);
    expect_text(e, "aa ba ca, da! Text from a file", 60);
    CHECK_RUN(
        "--mode generate --file text --steps 60 --temperature 1.5 --top-p 0.8 --top-k 30 --min-p 0.01 "
        "--repeat-penalty 1.2 --repeat-last 7 --seed 77 --tokenizer m/tokenizer.bin --threads 2 --batch 5 --context 64 --kv f32 "
        "m/model.bin");
    CHECK(is_output(e->text, e->n_text), "'%s', expected '%s'", out, e->text);
    expect_close(e);
}

static void prompts_come_from_files_and_standard_input(void) {
    static char from_file[1 << 12];
    CHECK_RUN("m/model.bin -t 0 -n 40 -i 'aa ba ca, da! Text from a file'");
    memcpy(from_file, out, sizeof from_file);
    CHECK_RUN("m/model.bin -t 0 -n 40 -f text");
    CHECK(!strcmp(out, from_file), "-f: %s", out);
    setup.input = "aa ba ca, da! Text from a file";
    CHECK_RUN("m/model.bin -t 0 -n 40 -f -");
    CHECK(!strcmp(out, from_file), "-f -: %s", out);
    setup.input = "A\r\n"; /* one final newline is not part of the prompt */
    CHECK_RUN("m/model.bin -t 0 -n 40 -f -");
    memcpy(from_file, out, sizeof from_file);
    CHECK_RUN("m/model.bin -t 0 -n 40 -i A");
    CHECK(!strcmp(out, from_file), "-f -: %s, expected %s", from_file, out);
    setup.input = "A\n\n";
    CHECK_RUN("m/model.bin -t 0 -n 40 -f -");
    CHECK(!strncmp(out, "A\n", 2), "-f -: %s", out);
}

/* All short options of llama2.c's run are accepted. */
static void options_of_llama2c_are_accepted(void) {
    CHECK_RUN(
        "m/model.bin -t 0 -p 0.9 -s 1 -n 5 -i x -z m/tokenizer.bin -m generate -y z");
    CHECK(strstr(err, "note: --system works in chat; ignored\n"), "no note: %s",
          err);
    CHECK_RUN("m/chat.gguf -n 100 -i x -m chat -y z -t 0 -p 0.9 -s 1");
    CHECK(!strstr(err, "note: -y"), "%s", err);
}

/* Without -f - standard input is not read, so the program never waits for
 * it. */
static void standard_input_is_not_read(void) {
    static const char *const modes[] = {"generate", "perplexity", "tokenize",
                                        "logits -o x"};
    for (int i = 0; i < 4; i++) {
        setup.endless_input = true;
        CHECK_RUN("m/model.bin -i abc -m %s", modes[i]);
    }
}

static void steps_are_cut_to_the_context(void) {
    Expected *e = expect_open("m/model.bin", &GREEDY);
    /* the reference recomputes the whole sequence for each token */
    int known = test_fast() ? 20 : 64;
    expect_text(e, "aa", known);
    CHECK(e->n > known - 4, "the expected text is too short");
    static const char *const steps[] = {"-n 64", "-n 0", "-n 65",
                                        "-n 2147483647", ""};
    for (int i = 0; i < 5; i++) {
        CHECK_RUN("m/model.bin -t 0 -i aa %s", steps[i]);
        CHECK(known < 64 ? !memcmp(out, e->text, e->n_text - 1)
                         : is_output(e->text, e->n_text),
              "%s: %s", steps[i], out);
    }
    CHECK_RUN("m/model.bin -t 0 -i aa -c 15");
    CHECK(n_out < e->n_text && !memcmp(out, e->text, n_out - 1), "-c 15: %s",
          out);
    expect_close(e);
}

/* -n includes the prompt: BOS, ' ', then one token for each letter. */
static void steps_may_be_fewer_than_the_prompt_has(void) {
    CHECK_RUN("m/model.bin -t 0 -i 'A,B,C,D' -n 3");
    CHECK(!strcmp(out, "A,\n"), "three tokens after BOS: %s", out);
    CHECK(one_line(err) && strstr(err, "note: prompt: -n 3"), "no note: %s",
          err);
    CHECK_RUN("m/model.bin -t 0 -i 'A,B,C,D' -n 8");
    CHECK(!strcmp(out, "A,B,C,D\n"), "the prompt: %s", out);
    CHECK_RUN("m/model.bin -t 0 -i 'A,B,C,D' -n 9");
    CHECK(!strncmp(out, "A,B,C,D", 7) && out[7] != '\n', "nothing follows: %s",
          out);
    CHECK(strstr(err, "note: prompt: -n 9"), "no note: %s", err);
    CHECK_RUN("m/model.bin -t 0 -i 'A,B,C,D' -n 10");
    CHECK(!strstr(err, "note: prompt"), "a note: %s", err);
}

static void without_a_tokenizer_ids_are_printed(void) {
    Expected *e = expect_open("bare/model.bin", &GREEDY);
    char ids[1024] = "300,301,1,302";
    for (const int *id = (int[]){300, 301, 1, 302, -1}; *id >= 0; id++)
        add_id(e, *id);
    while (e->n <= 30) {
        int token = sampler_next(&e->sampler, forward(e));
        if (token == 1)
            break;
        add_id(e, token);
        sprintf(ids + strlen(ids), ",%d", token);
    }
    CHECK(e->n > 10, "the expected text is too short");
    CHECK_RUN("bare/model.bin -t 0 -n 30 --tokens 300,301,1,302");
    CHECK(n_out == strlen(ids) + 1 && !memcmp(out, ids, n_out - 1),
          "%s, expected %s", out, ids);
    expect_close(e);
}

static void text_is_independent_of_batch_and_threads(void) {
    static const char *const ways[] = {"-b 1", "-b 7", "-j 1", "-j 3",
                                       "-b 65536 -j 2"};
    static char first[1 << 12];
    CHECK_RUN("m/model.bin -f text -s 9 -n 60");
    memcpy(first, out, sizeof first);
    for (int i = 0; i < 5; i++) {
        CHECK_RUN("m/model.bin -f text -s 9 -n 60 %s", ways[i]);
        CHECK(!strcmp(out, first), "%s: %s", ways[i], out);
    }
    CHECK_RUN("m/model.bin -f text -s 10 -n 60");
    CHECK(strcmp(out, first), "two seeds give the same text");
}

static void every_format_runs(void) {
    static const char *const ways[] = {"m/v2.bin", "m/v2.bin --kv f32",
                                       "m/model.bin --kv f16",
                                       "m/long.bin -c 100"};
    for (int i = 0; i < 4; i++) {
        CHECK_RUN("%s -i 'aa ba' -t 0 -n 20", ways[i]);
        CHECK(!strncmp(out, "aa ba", 5) && n_out > 10, "%s: %s", ways[i], out);
    }
}

/* A folder, and its conversion to GGUF, give the ids of the model's file. */
static void a_folder_is_a_model(void) {
    /* in llama2.c's files -n is the number of positions */
    static const char ids[] = "--tokens 1,403,407 -t 0 --kv f32";
    static const FolderForm form = {.model_type = "llama", .n_files = 2};
    char expected[256];
    Model m;
    CHECK(!model_open(&m, inside("bare/model.bin")) &&
              !folder_write(&m, inside("hf"), &form),
          "no folder");
    model_close(&m);
    CHECK_RUN("bare/model.bin %s -n 30", ids);
    CHECK(n_out > 30 && n_out < sizeof expected, "%zu bytes", n_out);
    strcpy(expected, out);
    CHECK_RUN("hf %s -n 31", ids);
    CHECK(!strcmp(out, expected), "%s, expected %s", out, expected);
    CHECK_RUN("hf/ -m convert -q f32 -o out/hf.gguf");
    CHECK(strstr(err, "note: no tokenizer found"), "stderr: %s", err);
    CHECK_RUN("out/hf.gguf %s -n 31", ids);
    CHECK(!strcmp(out, expected), "%s, expected %s", out, expected);
    unlink(inside("out/hf.gguf"));
    CHECK_RUN("hf -m info -v");
    CHECK(strstr(out, "format          Hugging Face folder\n"), "%s", out);
    check_refused(1, "hf/tokenizer.json not found; name", "hf -i Once");
    static const char *const others[] = {"tekken.json", "vocab.json"};
    for (int i = 0; i < 2; i++) {
        char path[64], message[128];
        snprintf(path, sizeof path, "hf/%s", others[i]);
        snprintf(message, sizeof message, "norma does not read %s; name", path);
        write_file(path, "");
        check_refused(1, message, "hf -i Once");
        unlink(inside(path));
    }
    CHECK(files_in("hf") == 4, "%d files in hf", files_in("hf"));
}

/* The instrument on norms without weights: those of a model whose weights are
 * ones. */
static void norms_without_weights_are_measured(void) {
    static const char *const ways[] = {
        "-m info -v",
        "-m norms --seconds 0.01",
        "-m perplexity --norm-sweep -i 'aa ba ca'",
        "-i 'aa ba' -n 6 -t 0 --profile",
        "-i 'aa ba' -n 6 -t 0 --profile=out/p.csv",
        "-i 'aa ba' -n 6 -t 0 --norm layer",
        "-m bench --seconds 0.01"};
    static const float ones[1024] = {[0 ... 1023] = 1};
    static const FolderForm form = {.model_type = "llama", .n_files = 1};
    static char expected[2][4096];
    Model m;
    for (int with = 0; with < 2; with++) {
        CHECK(!model_open(&m, inside("bare/model.bin")), "no model");
        for (int l = 0; l < m.config.n_layers; l++)
            m.layers[l].attn_norm.gamma = m.layers[l].mlp_norm.gamma =
                with ? ones : NULL;
        m.final_norm.gamma = with ? ones : NULL;
        const bool failed = folder_write(&m, inside("bare/gamma"), &form) != 0;
        model_close(&m);
        CHECK(!failed, "no folder");
        for (size_t i = 0; i < COUNT(ways); i++) {
            CHECK_RUN("bare/gamma -z m/tokenizer.bin %s", ways[i]);
            CHECK((strstr(err, "norms have no weights") != NULL) == !with,
                  "%s: stderr: %s", ways[i], err);
            CHECK(n_out || strstr(ways[i], "norms"), "%s: no output", ways[i]);
        }
        CHECK_RUN(
            "bare/gamma -z m/tokenizer.bin -m perplexity --norm-sweep -i 'aa ba ca'");
        CHECK(n_out < sizeof expected[with], "%zu bytes", n_out);
        memcpy(expected[with], out, n_out + 1);
    }
    CHECK(!strcmp(expected[0], expected[1]), "%s, expected %s", expected[0],
          expected[1]);
    unlink(inside("out/p.csv"));
}

/* With --tokens an invalid tokenizer is a note, not an error. */
static void an_invalid_tokenizer_is_a_note_with_tokens(void) {
    write_file("hf/tokenizer.json", "{]");
    check_refused(1, "hf/tokenizer.json: ", "hf -i Once");
    CHECK_RUN("hf --tokens 1,403,407 -t 0 -n 4");
    CHECK(!strncmp(err, "note: hf/tokenizer.json: ", 25) &&
              !strstr(err, "run: "),
          "stderr: %s", err);
    CHECK(!strncmp(out, "1,403,407", 9), "%s", out);
    write_file("hf/config.json", "{]");
    check_refused(1, "run: hf/config.json: ", "hf --tokens 1,403,407");
}

/* ---- chat --------------------------------------------------------------- */

/* How a line of the user is sent, in add_turn's notation. */
typedef struct {
    const char *model, *first, *with_system, *next, *answer, *note;
    int limit; /* -n */
} Format;

static const Format LLAMA_2 = {
    "m/long.bin",
    "\1[INST] %s [/INST]",
    "\1[INST] <<SYS>>\nBe kind.</s>\n<</SYS>>\n\n%s [/INST]",
    "\2\1[INST] %s [/INST]",
    " \7 ",
    "note: m/long.bin has no chat template, so it may not be a chat model; using the llama-2 format; without -m chat it continues a text",
    0};
static const Format CHATML = {
    "m/chat.gguf",
    "\1\3user\n%s\4\n\3assistant\n",
    "\1\3system\nBe kind.</s>\4\n\3user\n%s\4\n\3assistant\n",
    "\4\n\3user\n%s\4\n\3assistant\n",
    "\6",
    NULL,
    0};
static const Format CHOSEN = {"m/strange.gguf --template mistral",
                              "\1[INST] %s [/INST]",
                              NULL,
                              "\2[INST] %s [/INST]",
                              " \7",
                              NULL,
                              0};

/* Compares a conversation, in a context that may get full. The temperature is
 * high enough for an end of text. Increments *answered if all turns were
 * answered. */
static void converse(const Format *format, int seed, int context, bool system,
                     int *answered) {
    static const char *const lines[] = {"hello", "how are you", "and now?"};
    Sampling sampling = {.temperature = 5,
                         .top_p = 0,
                         .repeat_penalty = 1,
                         .seed = (uint64_t)seed};
    char model[32];
    snprintf(model, sizeof model, "%.*s", (int)strcspn(format->model, " "),
             format->model);
    Expected *e = expect_open(model, &sampling);
    bool room = true;
    /* ends the texts of a GGUF file by its name, whatever the template */
    e->end = strstr(model, ".gguf") ? IM_END : 2;
    for (int i = 0; i < 3 && room; i++) {
        char turn[256];
        snprintf(turn, sizeof turn,
                 i        ? format->next
                 : system ? format->with_system
                          : format->first,
                 lines[i]);
        room = expect_answer(e, turn, format->answer, format->limit, context);
    }
    setup.input = seed % 2 ? "hello\n\nhow are you\nand now?"
                           : "hello\nhow are you\nand now?\n";
    run("%s -m chat -p 0 -t 5 --kv f32 -c %d -s %d -n %d %s", format->model,
        context, seed, format->limit, system ? "-y 'Be kind.</s>'" : "");
    CHECK(status == !!strstr(err, "too small for the message"),
          "seed %d: status %d, %s", seed, status, err);
    /* goes on with fewer turns */
    bool begins = e->n_text < 2 || !strncmp(out, e->text, e->n_text - 1);
    CHECK(room ? is_output(e->text, e->n_text) : begins,
          "%s, seed %d: %zu bytes '%s', expected %zu '%s'", format->model, seed,
          n_out, out, e->n_text, e->text);
    CHECK(!strstr(err, "note: the context") == room, "seed %d: %s", seed, err);
    CHECK(format->note ? !!strstr(err, format->note)
                       : !strstr(err, "chat template"),
          "%s", err);
    *answered += room;
    expect_close(e);
}

static void chat_answers_turn_by_turn(void) {
    static const int seeds[] = {12, 4, 7, 11};
    int answered = 0;
    for (int i = 0; i < (test_fast() ? 1 : 4); i++)
        converse(&LLAMA_2, seeds[i], 1000, false, &answered);
    CHECK(answered > 0 || test_fast(), "no conversation of three turns");
}

static void chat_has_a_system_prompt(void) {
    converse(&LLAMA_2, 8, 300, true, &(int){0});
}

static void chat_uses_the_template_of_the_file(void) {
    int answered = 0;
    for (int seed = 1; seed < (test_fast() ? 2 : 7); seed++)
        converse(&CHATML, seed, test_fast() ? 120 : 1000, seed % 3 == 0,
                 &answered);
    CHECK(answered > 0 || test_fast(), "no conversation of three turns");
}

static void chat_refuses_a_template_that_raises(void) {
    check_refused(
        1, "m/strange.gguf: line 2 of the chat template: refused: strange",
        "m/strange.gguf -m chat -i a");
    check_refused(1, "--template is 'llama', expected a Jinja file, or one of",
                  "m/chat.gguf -m chat --template llama -i a");
    check_refused(2, "--think is 'x', expected on|off",
                  "m/chat.gguf -m chat --think x -i a");
    for (int seed = 12; seed < (test_fast() ? 12 : 16); seed++)
        converse(&CHOSEN, seed, 1000, false, &(int){0});
}

static void verbose_prompt_shows_tokens(void) {
    CHECK_RUN("m/chat.gguf -m chat -i a -n 1 -t 0 --verbose-prompt");
    CHECK(!strncmp(err, "      1  '\\x0a<s>\\x0a'\n", 10) &&
              strstr(err, "    510  '<|im_start|>'\n") &&
              strstr(err, "    511  '<|im_end|>'\n"),
          "%s", err);
}

/* -i, and after it a pipe or a file, are one message; a pipe without other
 * input is the prompt. */
static void a_pipe_is_one_message(void) {
    static char joined[1 << 12];
    CHECK_RUN("m/chat.gguf -m chat -n 9 -s 3 -i 'hello\n\na\nb' --escape");
    snprintf(joined, sizeof joined, "%.4000s", out);
    CHECK(n_out > 1, "no answer: %s", err);
    setup.input = "a\nb\n";
    CHECK_RUN("m/chat.gguf -m chat -n 9 -s 3 -i hello");
    CHECK(!strcmp(out, joined), "a pipe: '%s', expected '%s'", out, joined);
    CHECK(strstr(err, "-i and standard input (bytes: 3); for -i alone add "),
          "not said: %s", err);
    setup.input = "a\nb\n";
    CHECK_RUN("m/chat.gguf -m chat -n 9 -s 3 -i hello -f -");
    CHECK(!strcmp(out, joined), "-f -: '%s', expected '%s'", out, joined);
    CHECK(!strstr(err, "for -i alone"), "said of what was asked for: %s", err);
    CHECK_RUN("m/chat.gguf -n 30 -s 3 -i hello");
    snprintf(joined, sizeof joined, "%.4000s", out);
    setup.input = "hello\n";
    CHECK_RUN("m/chat.gguf -n 30 -s 3");
    CHECK(!strcmp(out, joined), "'%s', expected '%s'", out, joined);
    setup.endless_input = true;
    CHECK_RUN("m/chat.gguf -n 30 -s 3");
    CHECK(strstr(err, "-f - waits for it"), "a silent pipe: %s", err);
}

static void chat_drops_turns_when_the_context_is_full(void) {
    converse(&LLAMA_2, 1, 70, false, &(int){0});
    converse(&LLAMA_2, 2, 30, false, &(int){0});
    converse(&LLAMA_2, 3, 10, false,
             &(int){0}); /* not even the first turn fits */
    converse(&CHATML, 5, 40, true, &(int){0});
}

static void n_limits_each_answer(void) {
    for (int limit = 1; limit <= 4; limit += 3) {
        Format format = CHATML;
        int answered = 0;
        format.limit = limit;
        converse(&format, 1, 200, false, &answered);
        converse(&format, 2, 200, false, &answered);
        CHECK(answered == 2, "-n %d: %d conversations", limit, answered);
        converse(&format, 5, 40, true, &answered);
    }
}

/* Lines may cross blocks of input. A line with a zero byte is ignored with a
 * note. */
static void chat_reads_lines_of_any_bytes(void) {
    static char expected_out[1 << 16], input[40000];
    setup.input = "hi there";
    CHECK_RUN("m/chat.gguf -m chat -t 0 -c 200");
    strcpy(expected_out, out);
    CHECK(n_out > 0 && !strstr(err, "ignored"), "'%s', '%s'", out, err);
    setup.input = "a\0b\n\0\n\nhi there\n";
    setup.input_size = 16;
    CHECK_RUN("m/chat.gguf -m chat -t 0 -c 200");
    CHECK(!strcmp(out, expected_out), "'%s', expected '%s'", out, expected_out);
    CHECK(
        strstr(
            err,
            "note: ignored: a message with a zero byte\nnote: ignored: a message with a zero byte\n"),
        "%s", err);
    for (size_t n = 16382; n <= 16386;
         n++) { /* empty lines up to the end of a block */
        memset(input, '\n', n);
        strcpy(input + n, "hi there\n");
        setup.input = input;
        CHECK_RUN("m/chat.gguf -m chat -t 0 -c 200");
        CHECK(!strcmp(out, expected_out), "%zu: '%s', expected '%s'", n, out,
              expected_out);
    }
    memset(input, 'a', sizeof input - 1);
    setup.input = input;
    run("m/chat.gguf -m chat -t 0 -c 200");
    CHECK(
        status == 1 && n_out == 0 &&
            strstr(err,
                   "the context of 200 positions is too small for the message"),
        "'%s', '%s'", out, err);
}

static void chat_ends_at_the_end_of_input(void) {
    CHECK_RUN("m/chat.gguf -m chat");
    CHECK(n_out == 0 && *err == '\0', "no input: '%s', '%s'", out, err);
    setup.input = "\n\n\n"; /* empty lines are ignored */
    CHECK_RUN("m/chat.gguf -m chat");
    CHECK(n_out == 0 && *err == '\0', "empty lines: '%s', '%s'", out, err);
    CHECK_RUN("m/long.bin -m chat");
    CHECK(n_out == 0 && one_line(err) && strstr(err, LLAMA_2.note),
          "no chat template: '%s', '%s'", out, err);
    check_refused(2, "--tokens works in", "m/long.bin -m chat --tokens 1,2");
}

/* ---- tokenize, logits, perplexity --------------------------------------- */

/* The ids follow from hashmodel.c: bytes from 3, ASCII from 259, "aa" is
 * 354. */
static void tokenize_writes_ids(void) {
    CHECK_RUN("m/model.bin -m tokenize -i 'aa, \t\xc3\xa9\\<s>'");
    CHECK(!strcmp(out, "1,259,354,271,259,12,198,172,319,287,342,289\n"), "%s",
          out);
    CHECK_RUN("m/model.bin -m tokenize -v -i 'aa\t\xc3\\'");
    CHECK(
        !strcmp(
            out,
            "      1  '\\x0a<s>\\x0a'\n    259  ' '\n    354  'aa'\n     12  '<0x09>'\n    198  '<0xC3>'\n"
            "    319  '\\x5c'\n"),
        "%s", out);
    CHECK_RUN("m/model.bin -m tokenize --verbose --tokens 300");
    CHECK(!strcmp(out, "    300  'I'\n"), "%s", out);
    CHECK_RUN("m/model.bin -m tokenize");
    CHECK(!strcmp(out, "1\n"), "expected only BOS: %s", out);
    CHECK_RUN("m/model.bin -m tokenize --json -i 'aa\xc3'");
    CHECK(
        !strcmp(
            out,
            "{\"tokens\": [{\"token\": 1, \"text\": \"\\n<s>\\n\", \"bytes\": [10, 60, 115, 62, 10]}, {\"token\": 259, \"text\": \" \", \"bytes\": [32]}, "
            "{\"token\": 354, \"text\": \"aa\", \"bytes\": [97, 97]}, {\"token\": 198, \"text\": \"\\ufffd\", \"bytes\": [195]}]}\n"),
        "%s", out);
}

static void logits_are_bit_identical_to_the_library_s(void) {
    Expected *e = expect_open("m/model.bin", &GREEDY);
    for (int i = 0; i < 40; i++)
        add_id(e, hash_token(&MODEL, i));
    char list[512] = "";
    for (int i = 0; i < e->n; i++)
        sprintf(list + strlen(list), i ? ",%d" : "%d", e->ids[i]);
    static const char *const ways[] = {"", "-b 7", "-b 1 -j 2"};
    for (int way = 0; way < 3; way++) {
        size_t size;
        write_file("out/logits", "what was there before");
        CHECK_RUN("m/model.bin -m logits -o out/logits --tokens %s %s", list,
                  ways[way]);
        CHECK(n_out == 0 && !strcmp(err, "note: -o writes 0.1 MB\n"),
              "wrote '%s', '%s'", out, err);
        float *written = (void *)file_read(inside("out/logits"), &size);
        size_t row = (size_t)MODEL.vocab_size * sizeof(float);
        CHECK(size == 40 * row, "%zu bytes", size);
        for (int i = 0; i < 40; i++) {
            const float *logits =
                model_forward_text(&e->session, e->ids + i, 1, i, 1);
            CHECK(!memcmp(written + i * MODEL.vocab_size, logits, row),
                  "%s: position %d", ways[way], i);
        }
        free(written);
    }
    CHECK(unlink(inside("out/logits")) == 0, "the file is missing");
    CHECK_RUN("m/model.bin -m logits -o - --tokens %s", list);
    CHECK(n_out == 40 * MODEL.vocab_size * sizeof(float) &&
              access(inside("-"), F_OK),
          "-o -: %zu bytes", n_out);
    CHECK_RUN("m/model.bin --tokens 1 -n 3 -s 18446744073709549568");
    expect_close(e);
}

static void failed_logits_leave_no_file(void) {
    static const char *const late[][2] = {
        /* after the note on their size */
        {"not finite", "m/nan.bin --tokens 1,2,511 -o out/logits"},
        {"No space", "m/model.bin -i aa -o /dev/full"}};
    check_refused(1, "No such file",
                  "m/model.bin -m logits -i aa -o missing/logits");
    /* before the model is read */
    check_refused(1, "missing/d.part: No such file",
                  "none.bin -m logits -i aa -o out/x --dump missing/d");
    check_refused(1, "--dump out: the path exists",
                  "none.bin -m logits -i aa -o out/x --dump out");
    check_refused(1, "directory", "m/model.bin -m logits -i aa -o out");
    check_refused(1, "the text has 3 tokens, the context is 2; a larger -c",
                  "m/model.bin -m logits --tokens 1,2,3 -c 2 -b 1 -o out/x");
    check_refused(
        1, "tokens, the context is 64; shorten the text",
        "m/model.bin -m logits -o out/x --dump out/d -i "
        "'A,B,C,D,E,F,A,B,C,D,E,F,A,B,C,D,E,F,A,B,C,D,E,F,A,B,C,D,E,F,"
        "A,B,C,D,E,F,A,B,C,D,E,F,A,B,C,D,E,F'");
    for (int i = 0; i < 2; i++) {
        run("-m logits %s", late[i][1]);
        const char *line = strchr(err, '\n');
        CHECK(status == 1 && !n_out && line &&
                  !strncmp(err, "note: -o writes 0.0 MB\n", line + 1 - err) &&
                  one_line(line + 1) && strstr(line, late[i][0]),
              "%s: status %d, %s", late[i][0], status, err);
    }
    check_refused(2, "-o FILE", "m/model.bin -m logits -i aa");
    CHECK(files_in("out") == 0, "%d files left over", files_in("out"));
}

/* The bytes of logits for some tokens, as -m logits writes them; the caller
 * frees them. */
static char *logits_of(const char *model, size_t *size) {
    run("%s -m logits -o out/logits --kv f32 --tokens 1,2,300,17,4,99,5",
        model);
    char *bytes = status == 0 ? file_read(inside("out/logits"), size) : NULL;
    unlink(inside("out/logits"));
    return bytes;
}

/* A model converted to GGUF, and again to GGUF, has bit-identical logits and
 * the same text. */
static void convert_keeps_a_model(void) {
    static const char *const models[] = {"m/model.bin", "out/a.gguf",
                                         "out/b.gguf"};
    char text[1024], *logits = NULL;
    size_t size = 0;
    for (int i = 0; i < 3; i++) {
        size_t n = 0;
        char *now_ = logits_of(models[i], &n);
        CHECK(now_ && (!logits || (n == size && !memcmp(now_, logits, n))),
              "%s: other logits", models[i]);
        free(logits);
        logits = now_;
        size = n;
        CHECK_RUN("%s -t 0 -n 40 -i 'ab cd' --kv f32", models[i]);
        CHECK(i == 0 || !strncmp(out, text, strlen(text)),
              "%s: '%s', expected '%s'", models[i], out, text);
        snprintf(text, sizeof text, "%.1000s", out);
        if (i < 2)
            CHECK_RUN("%s -m convert -q f32 -o %s", models[i], models[i + 1]);
    }
    free(logits);
    unlink(inside("out/a.gguf"));
    unlink(inside("out/b.gguf"));
}

/* User-defined pieces and the chat template are kept. */
static void convert_keeps_a_chat_model(void) {
    char answer[1024], ids[256];
    for (int i = 0; i < 2; i++) {
        const char *model = i ? "out/chat.gguf" : "m/chat.gguf";
        CHECK_RUN("%s -m tokenize -i '<|im_start|>a<|im_end|>'", model);
        CHECK(i == 0 || !strcmp(out, ids), "%s: %s, expected %s", model, out,
              ids);
        snprintf(ids, sizeof ids, "%.200s", out);
        CHECK_RUN("%s -m chat -i ab -y cd -t 5 -p 0 -s 3 -c 200 --kv f32",
                  model);
        CHECK(i == 0 || !strcmp(out, answer), "%s: '%s', expected '%s'", model,
              out, answer);
        snprintf(answer, sizeof answer, "%.1000s", out);
        if (i == 0)
            CHECK_RUN("%s -m convert -q f32 -o out/chat.gguf", model);
    }
    CHECK(strstr(ids, "510,") && strstr(ids, ",511\n"), "%s",
          ids); /* control pieces match, too */
    unlink(inside("out/chat.gguf"));
}

static void convert_writes_every_type(void) {
    static const char *const types[] = {"f16", "bf16", "q8_0", "q4_0"},
                             *const names[] = {
                                 " F16\n", " BF16\n", " Q8_0\n",
                                 "file_type       Q4_0 with q8_0 output\n"};
    for (int i = 0; i < 4; i++) {
        CHECK_RUN("m/model.bin -m convert -q %s -o out/a.gguf", types[i]);
        CHECK_RUN("out/a.gguf -m info -v");
        CHECK(strstr(out, types[i]) && strstr(out, "GGUF") &&
                  strstr(out, names[i]),
              "%s: %s", types[i], out);
        CHECK_RUN("out/a.gguf -t 0 -n 10 -i ab");
    }
    unlink(inside("out/a.gguf"));
}

static void failed_conversion_leaves_no_file(void) {
    check_refused(2, "-q f32", "m/model.bin -m convert -o out/a.gguf");
    check_refused(2, "--type is 'q4_9', expected f32|f16|",
                  "m/model.bin -m convert -q q4_9 -o out/a.gguf");
    check_refused(1, "No such file",
                  "m/model.bin -m convert -q f32 -o missing/a.gguf");
    check_refused(1, "No space", "m/model.bin -m convert -q f32 -o /dev/full");
    CHECK(files_in("out") == 0, "%d files left over", files_in("out"));
}

/* Sum of -log p over all ids except BOS, the first of each window. */
static double surprise(Expected *e, const int *ids, int n) {
    double sum = 0;
    for (int i = 0, previous = 1; i < n; previous = ids[i++]) {
        const float *logits =
            model_forward_text(&e->session, &previous, 1, i, 1);
        double all = exp((double)logits[0]);
        for (int k = 1; k < MODEL.vocab_size; k++)
            all += exp((double)logits[k]);
        sum += log(all) - (double)logits[ids[i]];
    }
    return sum;
}

static void perplexity_follows_from_the_logits(void) {
    for (int context = test_fast() ? 17 : 64; context > 1;
         context = context == 64   ? 17
                   : context == 17 ? 2
                                   : 0) {
        Expected *e = expect_open("m/model.bin", &GREEDY);
        double total = 0, nll = 0, mean = 0, perplexity = 0;
        char list[512] = "";
        int scored = 0;
        for (int i = 0; i < 50; i++)
            sprintf(list + strlen(list), i ? ",%d" : "%d",
                    hash_token(&MODEL, i));
        for (int i = 0; i < 50; i++)
            add_id(e, hash_token(&MODEL, i));
        for (int at = 0; at < e->n; at += context - 1)
            total +=
                surprise(e, e->ids + at,
                         e->n - at < context - 1 ? e->n - at : context - 1);
        CHECK_RUN("m/model.bin -m perplexity --tokens %s -c %d -b 6", list,
                  context);
        CHECK(
            sscanf(
                out,
                "tokens scored %d total NLL %lf nats NLL per token %lf nats perplexity %lf",
                &scored, &nll, &mean, &perplexity) == 4,
            "%s", out);
        const char *window = strstr(out, "\nwindow ");
        CHECK(scored == 50 && window &&
                  atoi(window + strlen("\nwindow ")) == context,
              "%s", out);
        CHECK(fabs(nll - total) < 1e-3, "context %d: NLL %.4f, expected %.4f",
              context, nll, total);
        CHECK(fabs(mean - total / 50) < 2e-5,
              "context %d: mean %g, expected %g", context, mean, total / 50);
        CHECK(fabs(perplexity / exp(total / 50) - 1) < 1e-4,
              "perplexity %g, expected %g", perplexity, exp(total / 50));
        expect_close(e);
    }
}

/* The sum of the NLL of ids[1] to ids[n - 1], without BOS, by -m logits. */
static double surprise_of(const char *name, const int *ids, int n) {
    static float row[512];
    char list[512] = "";
    double sum = 0;
    for (int i = 0; i < n - 1; i++)
        sprintf(list + strlen(list), i ? ",%d" : "%d", ids[i]);
    run("%s -m logits --tokens %s -o out/logits", name, list);
    FILE *in = fopen(inside("out/logits"), "rb");
    for (int i = 0; in && i < n - 1; i++) {
        double all = 0;
        if (fread(row, sizeof *row, 512, in) != 512)
            return NAN;
        for (int k = 0; k < 512; k++)
            all += exp((double)row[k]);
        sum += log(all) - (double)row[ids[i + 1]];
    }
    unlink(inside("out/logits"));
    return !in || fclose(in) ? NAN : sum;
}

/* Windows of a file that adds no BOS begin with the token before their others,
 * and the first token of the text is not scored. */
static void perplexity_without_bos(void) {
    static const int no = 0;
    static GgufFile file;
    enum { N = 50 };
    int ids[N];
    char list[512] = "";
    for (int i = 0; i < N; i++) {
        ids[i] = hash_token(&MODEL, i);
        sprintf(list + strlen(list), i ? ",%d" : "%d", ids[i]);
    }
    for (int adds = 0; adds < 2; adds++) {
        gguf_make(&file, &MODEL, 0);
        gguf_add_tokenizer(&file, MODEL.vocab_size, NULL, 0);
        if (!adds)
            gguf_set(&file, "tokenizer.ggml.add_bos_token", GGUF_BOOL, &no, 1);
        CHECK(!gguf_write(&file, inside("m/bos.gguf")), "cannot write");
        gguf_free(&file);
        for (int context = 64; context > 1; context = context == 64   ? 17
                                                      : context == 17 ? 2
                                                                      : 0) {
            double total = 0, nll = 0;
            int scored = 0, window[64] = {1};
            for (int at = adds ? 0 : 1; at < N; at += context - 1) {
                int n = N - at < context - 1 ? N - at : context - 1;
                if (!adds)
                    window[0] = ids[at - 1];
                memcpy(window + 1, ids + at, (size_t)n * sizeof *ids);
                total += surprise_of("m/bos.gguf", window, n + 1);
            }
            CHECK_RUN("m/bos.gguf -m perplexity --tokens %s -c %d -b 6", list,
                      context);
            CHECK(sscanf(out, "tokens scored %d total NLL %lf nats", &scored,
                         &nll) == 2 &&
                      scored == N - 1 + adds,
                  "%s", out);
            CHECK(fabs(nll - total) < 2e-3,
                  "BOS %d, context %d: NLL %.4f, expected %.4f", adds, context,
                  nll, total);
            CHECK(strstr(out, adds ? " tokens, the first is BOS\n"
                                   : " tokens, without BOS: the first token of "
                                     "the text is not scored\n"),
                  "%s", out);
            CHECK_RUN("m/bos.gguf -m perplexity --tokens %s -c %d --json", list,
                      context);
            CHECK(strstr(out, adds ? "\"bos\": true}" : "\"bos\": false}"),
                  "%s", out);
        }
    }
    gguf_make(&file, &MODEL, 0);
    gguf_add_tokenizer(&file, MODEL.vocab_size, NULL, 0);
    gguf_set(&file, "tokenizer.ggml.add_bos_token", GGUF_BOOL, &no, 1);
    CHECK(!gguf_write(&file, inside("m/bos.gguf")), "cannot write");
    gguf_free(&file);
    check_refused(1, "nothing to score", "m/bos.gguf -m perplexity --tokens 5");
    unlink(inside("m/bos.gguf"));
}

/* The number in a JSON object; NAN: none. */
static double number_of(const Json *object, const char *key) {
    double number = NAN;
    json_real(json_get(object, key), &number);
    return number;
}

/* The error is that of blocks of sqrt(n) tokens. */
static void perplexity_errors_are_those_of_blocks(void) {
    enum { N = 17, SIZE = 4, BLOCKS = 5 };
    Expected *e = expect_open("m/model.bin", &GREEDY);
    double sums[BLOCKS] = {0}, total = 0, squares = 0, error;
    add_text_ids(e, "ABABABABCCCCDDDD");
    CHECK(e->n == N + 1, "%d tokens", e->n);
    for (int i = 0; i < N; i++) {
        const double until = surprise(e, e->ids + 1, i + 1);
        sums[i / SIZE] += until - total;
        total = until;
    }
    for (int i = 0; i < BLOCKS; i++) {
        const int n = i < BLOCKS - 1 ? SIZE : N - SIZE * (BLOCKS - 1);
        const double above = sums[i] - total / N * n;
        squares += above * above;
    }
    double expected =
        exp(total / N) * sqrt(squares * BLOCKS / (BLOCKS - 1)) / N;
    CHECK_RUN("m/model.bin -m perplexity -i ABABABABCCCCDDDD");
    const char *at = strstr(out, "+- ");
    CHECK(at && sscanf(at, "+- %lf", &error) == 1, "%s", out);
    CHECK(fabs(error / expected - 1) < 1e-3, "error %g, expected %g", error,
          expected);
    expect_close(e);
}

/* BOS is not scored; the error is the standard error of the mean. */
static void perplexity_of_a_text(void) {
    Expected *e = expect_open("m/model.bin", &GREEDY);
    double first, second, error;
    add_text_ids(e, "A");
    CHECK(e->n == 3, "BOS, space, A");
    first = surprise(e, e->ids + 1, 1);
    second = surprise(e, e->ids + 1, 2) - first;
    CHECK_RUN("m/model.bin -m perplexity -i A");
    CHECK(strstr(out, "tokens scored        2\n"), "%s", out);
    const char *at = strstr(out, "+- ");
    CHECK(at && sscanf(at, "+- %lf", &error) == 1, "%s", out);
    /* s / sqrt(2), s = |d| / sqrt(2) */
    double expected = exp((first + second) / 2) * fabs(first - second) / 2;
    CHECK(fabs(error / expected - 1) < 1e-3, "error %g, expected %g", error,
          expected);
    CHECK_RUN("m/model.bin -m perplexity -i A --json --norm-sweep");
    JsonFile json;
    size_t n = strcspn(out, "\n");
    CHECK(!json_parse(&json, "output", out, n), "%s", out);
    CHECK(number_of(json.values, "tokens") == 2 &&
              number_of(json.values, "window") == 64 &&
              fabs(number_of(json.values, "nll") / (first + second) - 1) <
                  1e-5 &&
              fabs(number_of(json.values, "standard_error") / expected - 1) <
                  1e-3,
          "%s", out);
    json_close(&json);
    CHECK(!json_parse(&json, "output", out + n + 1, strcspn(out + n + 1, "\n")),
          "%s", out);
    CHECK(json_is(json_get(json.values, "norm"), "layers.0.attn_norm") &&
              !json_get(json.values, "RMSNorm") &&
              fabs(number_of(json.values, "none")) > 0 &&
              number_of(json.values, "none_error") > 0,
          "%s", out);
    json_close(&json);
    check_refused(1, "empty", "m/model.bin -m perplexity -f empty");
    check_refused(1, "at least 2", "m/model.bin -m perplexity -i A -c 1");
    check_refused(2, "needs a text", "m/model.bin -m perplexity");
    expect_close(e);
}

/* ---- info, bench -------------------------------------------------------- */

static void info_lists_the_model(void) {
    static const char *const lines[] = {
        "format          llama2.c v0\n",
        "architecture    llama\n",
        "dim             64\n",
        "hidden_dim      172\n",
        "n_layers        2\n",
        "n_heads         8\n",
        "n_kv_heads      4\n",
        "head_size       8\n",
        "vocab_size      512\n",
        "output          tied to the embedding\n",
        "context         64\n",
        "  layers.1.mlp_norm        RMSNorm",
        "  final_norm               RMSNorm",
        "  embedding                f32   [512, 64]",
        "  layers.0.wk              f32   [32, 64]",
        "  layers.1.down            f32   [64, 172]"};
    CHECK_RUN("m/model.bin -m info -v");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        CHECK(strstr(out, lines[i]), "no '%s' in %s", lines[i], out);
    int layer = 2 * 64 * 64 + 2 * 32 * 64 + 3 * 172 * 64 + 2 * 64;
    char line[64];
    snprintf(line, sizeof line, "parameters      %d\n",
             2 * layer + 64 + 512 * 64);
    CHECK(strstr(out, line), "no '%s' in %s", line, out);
    CHECK_RUN("m/v2.bin -m info -v");
    CHECK(strstr(out, "llama2.c v2") && strstr(out, "file_type       int8\n") &&
              strstr(out, "group_size      4\n") &&
              strstr(out, "tokenizer       SentencePiece\n") &&
              strstr(out, "bos             1\neos             2\n"),
          "%s", out);
    CHECK_RUN("m/model.bin -m info -z m/model.bin");
    CHECK(!strstr(out, "tokenizer") && one_line(err) &&
              !strncmp(err, "note: m/model.bin", 17),
          "%s: %s", out, err);
}

/* Without -v info says in at most 15 lines what the file is. */
static void info_says_what_a_file_is(void) {
    static GgufFile f;
    static const struct {
        int number;
        const char *name;
    } types[] = {{2, "Q4_0"},    {7, "Q8_0"},  {15, "Q4_K_M"}, {18, "Q6_K"},
                 {25, "IQ4_NL"}, {32, "BF16"}, {33, "f32"},    {-1, "f32"}};
    gguf_make(&f, &MODEL, 0);
    gguf_add_tokenizer(&f, MODEL.vocab_size, NULL, 0);
    gguf_set_text(&f, "general.name", "Tiny\x1b[1m 1M");
    gguf_set_text(&f, "general.license", "mit");
    gguf_set_text(&f, "tokenizer.chat_template",
                  "{# the first line #}\n{{ 1 }}{# of a long text, all of "
                  "which is in the JSON #}");
    gguf_set_int(&f, "general.file_type", 3);
    gguf_set_real(&f, "general.sampling.temp", 0.25f);
    gguf_set_int(&f, "general.sampling.top_k", 3);
    CHECK(!gguf_write(&f, inside("out/info.gguf")), "cannot write");
    CHECK_RUN("out/info.gguf -m info -c 32 --kv f16");
    char expected[1024];
    struct stat file;
    CHECK(!stat(inside("out/info.gguf"), &file), "no file");
    snprintf(expected, sizeof expected,
             "model           out/info.gguf\n"
             "name            Tiny?[1m 1M\n"
             "license         mit\n"
             "architecture    llama\n"
             "layers          2\n"
             "heads           8 (4 of keys and values)\n"
             "dim             64\n"
             "parameters      123.7 K\n"
             "file_type       Q4_1\n"
             "size            %.0f KB, 32.0 bits per weight\n"
             "context         64\n"
             "cache           8.2 KB for 32 tokens\n"
             "tokenizer       SentencePiece, 512 tokens\n"
             "use             chat\n"
             "sampling        temperature 0.25, top_k 3\n",
             1e-3 * (double)file.st_size);
    CHECK(!strcmp(out, expected) && !*err, "%s%s", out, err);
    CHECK_RUN("out/info.gguf -m info --json");
    CHECK(strstr(out, "\\n{{ 1 }}{# of a long text, all of which is in the "
                      "JSON #}\", \"use\": \"chat\"") &&
              strstr(out, "\"top_k\": 3") &&
              strstr(out, "\"cache_mb\": 0.032768,"),
          "%s", out);
    gguf_remove(&f, "tokenizer.chat_template");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char line[64];
        snprintf(line, sizeof line, "\nfile_type       %s\n", types[i].name);
        gguf_set_int(&f, "general.file_type", types[i].number);
        CHECK(!gguf_write(&f, inside("out/info.gguf")), "cannot write");
        CHECK_RUN("out/info.gguf -m info");
        CHECK(strstr(out, line) && !strstr(out, "chat") &&
                  strstr(out, "\nuse             base: continues a text\n"),
              "no '%s' in %s", line, out);
    }
    gguf_free(&f);
    unlink(inside("out/info.gguf"));
}

/* The JSON of info has the same numbers as its text with -v, and every norm and
 * tensor. */
static void info_writes_json(void) {
    static const char *const models[] = {"m/model.bin", "m/v2.bin",
                                         "m/chat.gguf", "hf"};
    for (int i = 0; i < 4; i++) {
        JsonFile json;
        char line[256];
        int lines = 0;
        CHECK_RUN("%s -m info --json", models[i]);
        CHECK(!json_parse(&json, models[i], out, strlen(out)), "%s", out);
        CHECK_RUN("%s -m info -v", models[i]);
        JSON_EACH(key, json.values, JSON_OBJECT) {
            bool first = json_is(key, "chat_template"); /* its first bytes */
            snprintf(line, sizeof line, "%-15s %.*s%s", key->text,
                     first ? 30 : 200, key[1].text, first ? "" : "\n");
            CHECK(key[1].kind == JSON_ARRAY || strstr(out, line),
                  "%s: no '%s' in %s", models[i], line, out);
            lines += 1 + (key[1].kind == JSON_ARRAY) * (1 + (int)key[1].length);
        }
        for (const char *s = out; (s = strchr(s, '\n')); s++)
            lines--;
        const Json *tensors = json_get(json.values, "tensors"),
                   *t = json_members(tensors, JSON_ARRAY);
        CHECK(!lines, "%s: %d more values than lines", models[i], lines);
        CHECK(json_is(json_get(t, "name"), "embedding") &&
                  number_of(t, "bytes") > 0,
              "%s", out);
        json_close(&json);
    }
}

/* The value of a key, as text, in `out`, which is a flat JSON object on one
 * line; NULL if the key is missing or the object does not parse. */
static const char *json_value(const char *key) {
    static char value[256];
    bool found = false;
    const char *s = out;
    if (*s++ != '{')
        return NULL;
    for (int more = 1; more;) {
        char name[64], *to = value, scratch[256];
        int n = 0;
        if (sscanf(s, " \"%63[a-z_0-9]\": %n", name, &n) != 1 || n == 0)
            return NULL;
        bool wanted = !strcmp(name, key);
        if (!wanted)
            to = scratch;
        found |= wanted;
        s += n;
        if (*s == '"') {
            if (sscanf(s, "\"%255[^\"]\"%n", to, &n) != 1)
                return NULL;
        } else if (!strncmp(s, "null", 4)) {
            n = snprintf(to, 256, "null");
        } else {
            char *end;
            if (!isfinite(strtod(s, &end)) || end == s ||
                strspn(s, "-+.eE0123456789") != (size_t)(end - s))
                return NULL;
            n = snprintf(to, 256, "%.*s", (int)(end - s), s);
        }
        s += n;
        more = *s++ == ',';
    }
    return found && !strcmp(s - 1, "}\n") ? value : NULL;
}

static void bench_writes_json(void) {
    static const struct {
        const char *key, *value; /* NULL: some positive number */
    } keys[] = {{"model", "m/model.bin"}, {"norm", "null"},
                {"type", "f32"},          {"threads", "1"},
                {"prompt_tokens", "20"},  {"rounds", "1"},
                {"prefill_tps", NULL},    {"decode_tps", NULL},
                {"weight_bytes", NULL},   {"decode_gbps", NULL},
                {"read_gbps", NULL},      {"prefill_gflops", NULL},
                {"peak_gflops", NULL}};
    CHECK_RUN(
        "m/model.bin -m bench --seconds 0 --json -j 1 --prompt-tokens 20 -n 8");
    CHECK(one_line(out), "%s", out);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *value = json_value(keys[i].key);
        CHECK(value, "no %s in %s", keys[i].key, out);
        if (keys[i].value)
            CHECK(!strcmp(value, keys[i].value), "%s is %s", keys[i].key,
                  value);
        else
            CHECK(atof(value) > 0, "%s is %s", keys[i].key, value);
    }
    CHECK(json_value("nothing") == NULL, "a value for a missing key");
}

/* Bytes of weights and operations (two for each weight of the layers) of a
 * token, with heads wider than the model and only the experts in use. */
static void bench_counts_bytes_and_operations(void) {
    static GgufFile file;
    /* 2 heads of 80, dim 40; 3 of 5 experts in two layers of three */
    const GoldenRelative *g = &GOLDEN_RELATIVES[3];
    double attention = 4 * 40 * 2 * 80, expert = 3 * 40 * 36, router = 5 * 40;
    double operations =
        2 * (3 * attention + 3 * 40 * 72 + 2 * (3 * expert + router));
    gguf_make_relative(&file, &g->model, &g->relative);
    CHECK(!gguf_write(&file, inside("m/moe.gguf")), "cannot write");
    gguf_free(&file);
    CHECK_RUN(
        "m/moe.gguf -m bench --seconds 0 --json -j 1 --prompt-tokens 20 -n 8");
    double tps = atof(json_value("prefill_tps")),
           gflops = atof(json_value("prefill_gflops"));
    CHECK(fabs(1e9 * gflops / tps / operations - 1) < 0.02,
          "%g operations a token, expected %g", 1e9 * gflops / tps, operations);
    /* one embedding row, the output matrix */
    double norms = 7 * 40 + 6 * 80, tables = 40 + 60 * 40;
    CHECK(atof(json_value("weight_bytes")) ==
              4 * (operations / 2 + norms + tables),
          "%s bytes", json_value("weight_bytes"));
}

static void bench_escapes_the_model_s_name(void) {
    char odd[2 * PATH_MAX];
    strcpy(odd, inside("m/\"odd\\\n.bin"));
    CHECK(link(inside("m/model.bin"), odd) == 0, "cannot link");
    CHECK_RUN(
        "'m/\"odd\\\n.bin' -m bench --seconds 0 --json --prompt-tokens 2 -n 1");
    CHECK(one_line(out) && strstr(out, "\"m/\\\"odd\\\\\\n.bin\""), "%s", out);
}

/* The name of a repository gets the command that fetches it; a path does
 * not. */
static void a_repository_is_fetched(void) {
    check_refused(
        1,
        "org/name: no such folder; to fetch it from huggingface.co: hf "
        "download org/name --local-dir org/name",
        "org/name -i x");
    check_refused(1, "m/none: No such file", "m/none");
    check_refused(1, "./org/name: No such file", "./org/name");
    check_refused(1, "org/name.gguf: No such file", "org/name.gguf");
    check_refused(1, "none.gguf: No such file", "none.gguf");
}

/* A line of MAX_LINE bytes is read, and more than a template can write. */
static void a_line_of_a_chat_has_a_limit(void) {
    static char line[MAX_LINE + 3];
    for (int over = 0; over < 2; over++) {
        memset(line, ' ', sizeof line - 1);
        memcpy(line + MAX_LINE + over, "\n", 2);
        setup.input = line;
        run("m/chat.gguf -m chat --template chatml");
        const char *reason =
            over ? "standard input: a line of more than 16777216 bytes"
                 : "the chat template: writes too much text";
        CHECK(status == 1 && strstr(err, reason), "status %d, %s", status, err);
    }
}

/* A model without a template gets the one whose marker is a token, of whatever
 * kind, else chatml; llama2.c's files get llama-2 (LLAMA_2.note). */
static void a_template_is_chosen_by_its_marker(void) {
    static const struct {
        GgufPiece markers[2];
        const char *name;
    } cases[] = {
        {{{"<start_of_turn>", 3}, {"<end_of_turn>", 3}}, "gemma"},
        {{{"<start_of_turn>", 4}, {"<end_of_turn>", 4}}, "gemma"},
        {{{"<start_of_turn>", 1}, {"<end_of_turn>", 1}}, "gemma"},
        {{{"<|start_header_id|>", 3}, {"<|end_header_id|>", 3}}, "llama-3"},
        {{{"[INST]", 3}, {"[/INST]", 3}}, "mistral"},
        {{{"<|user|>", 3}, {"<|end|>", 3}}, "phi-3"},
        {{{"<|im_start|>", 3}, {"<|im_end|>", 3}}, "chatml"},
        {{{"<other>", 3}, {"</other>", 3}}, "chatml"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char expected[32];
        snprintf(expected, sizeof expected, "using the %s format;",
                 cases[i].name);
        write_chat_model(inside("marked.gguf"), &MODEL, NULL, cases[i].markers);
        setup.input = "";
        CHECK_RUN("marked.gguf -m chat");
        CHECK(strstr(err, expected) && one_line(err), "%s: %s",
              cases[i].markers->text, err);
    }
}

/* Its output is only whole objects. */
static void a_failed_answer_writes_no_json(void) {
    run("m/nan.bin -m chat --template chatml -i aa --json");
    CHECK(status == 1 && !n_out && strstr(err, "not finite"),
          "status %d, '%s', %s", status, out, err);
}

static void think_needs_a_template_that_reads_it(void) {
    static const char note[] = "note: --think on changes nothing";
    write_file("think.jinja", "{{ messages[0].content }}{% if thinking %}t{% "
                              "endif %}");
    setup.input = "";
    CHECK_RUN("m/chat.gguf -m chat --template think.jinja --think on");
    CHECK(!*err, "%s", err);
    setup.input = "";
    CHECK_RUN("m/chat.gguf -m chat --template chatml --think on");
    CHECK(!strncmp(err, note, sizeof note - 1) && one_line(err), "%s", err);
}

/* Of generate -n counts the prompt, too; "tokens" of --json are those after it,
 * as the statistics' and -v's. */
static void n_counts_the_same_tokens_everywhere(void) {
    CHECK_RUN("m/long.bin -i 'A,B' -t 0 -n 20");
    CHECK(strstr(err, "prompt tokens: 5,") &&
              strstr(err, "generated tokens: 16,"),
          "%s", err);
    CHECK_RUN("m/long.bin -i 'A,B' -t 0 -n 20 --json");
    CHECK(strstr(out, "\"tokens\": 16, \"finish_reason\": \"length\""), "%s",
          out);
    CHECK_RUN("m/long.bin -m chat -i 'A,B' -t 0 -n 20 --json -v");
    CHECK(strstr(out, "\"tokens\": 20, \"finish_reason\": \"length\"") &&
              strstr(err, " 20 in the answer;"),
          "%s%s", out, err);
}

/* A text that a limit ends says so, one that the model ends does not. */
static void a_cut_text_is_noted(void) {
    CHECK_RUN("m/long.bin -i aa -t 0 -n 9");
    CHECK(strstr(err, "note: -n 9 cuts the text\n") == err, "%s", err);
    CHECK_RUN("m/long.bin -i aa -t 0 -n 0 -c 30");
    CHECK(strstr(err, "note: the context of 30 positions is full, and ends the "
                      "text\n") == err,
          "%s", err);
    CHECK_RUN("m/long.bin -i aa -t 0");
    CHECK(strstr(err, "note: the text is cut after 256 tokens; -n 0") == err,
          "%s", err);
    CHECK_RUN("m/long.bin -i aa -t 0 -n 9 --samples 3");
    CHECK(strstr(err, "; cut by -n or the context: 3"), "%s", err);
    CHECK_RUN("m/long.bin -i aa -t 0 -n 9 --stop a");
    CHECK(!strstr(err, "cut"), "ended by --stop: %s", err);
}

static void bench_is_cut_to_the_context(void) {
    CHECK_RUN("m/v2.bin -m bench --seconds 0 --prompt-tokens 1000 -n 10 -c 30");
    CHECK(one_line(err) && strstr(err, "shortened to 20 + 10 tokens"), "%s",
          err);
    CHECK(strstr(out, "prefill ") && strstr(out, "decode ") &&
              strstr(out, "prompt tokens: 20; decoded: 10"),
          "%s", out);
    check_refused(1, "at least 2", "m/model.bin -m bench --seconds 0 -c 1");
}

/* ---- mistakes ----------------------------------------------------------- */

/* Every fourth case of a list under valgrind. */
static int stride(void) {
    return test_fast() ? 4 : 1;
}

static void bad_options_are_refused(void) {
    static const char *const values[][2] = {
        {"-n", "abc"},
        {"-n", "-1"},
        {"-n", "1x"},
        {"-n", "2147483648"},
        {"-n", "''"},
        {"-n", "1.5"},
        {"-t", "-1"},
        {"-t", "nan"},
        {"-t", "inf"},
        {"-t", "1,5"},
        {"-p", "2"},
        {"-p", "-0.1"},
        {"-p", "x"},
        {"-s", "x"},
        {"-s", "-1"},
        {"-j", "0"},
        {"-j", "-2"},
        {"-j", "1025"},
        {"-s", "18446744073709551616"},
        {"-s", "18446744073709551615"},
        {"-b", "0"},
        {"-b", "65537"},
        {"-c", "0"},
        {"-c", "99999999999999999999"},
        {"-k", "-1"},
        {"--min-p", "1.5"},
        {"--kv", "f64"},
        {"--repeat-penalty", "0"},
        {"-m", "dance"},
        {"-t", "''"},
        {"--kv", "''"},
        {"--prompt-tokens", "0"},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values;
         i += (size_t)stride()) {
        char arguments[128], mention[64];
        const char *value = strcmp(values[i][1], "''") ? values[i][1] : "";
        snprintf(arguments, sizeof arguments, "m/model.bin %s %s", values[i][0],
                 values[i][1]);
        snprintf(mention, sizeof mention, "'%s', expected", value);
        check_refused(2, mention, arguments);
    }
}

static void bad_usage_is_refused(void) {
    static const char *const cases[][2] = {
        {"no model", ""},
        {"no model", "-n 5"},
        {"unexpected argument 'm/model.bin'; text for the model follows -i",
         "m/model.bin m/model.bin"},
        {"--system works in chat, not in info", "m/model.bin -m info -y x"},
        {"--template works in chat, not in generate",
         "m/model.bin --template zephyr"},
        {"--type works in convert, not in generate", "m/model.bin -q f32"},
        {"--output works in logits, convert, not in generate",
         "m/model.bin -o x"},
        {"--json works in generate, chat, perplexity, bench, norms, tokenize, info, not in logits",
         "m/model.bin -m logits --json"},
        {"--logprobs requires --json", "m/model.bin --logprobs 2"},
        {"--stop is '', expected", "m/model.bin --stop ''"},
        {"--temperature works in generate, chat, not in perplexity",
         "m/model.bin -m perplexity -t 0 -i x"},
        {"mutually exclusive", "m/model.bin -i aa -f text"},
        {"mutually exclusive", "m/model.bin -i aa --tokens 1"},
        {"mutually exclusive", "m/model.bin -f text --tokens 1"},
        {"unknown option '-Q'; see --help", "m/model.bin -Q"},
        {"option '-vQ' takes no argument; see --help", "m/model.bin -vQ"},
        {"unknown option '--nonsense'; see --help", "m/model.bin --nonsense"},
        {"unknown option '--?[1mxyz'; see --help", "m/model.bin --\x1b[1mxyz"},
        {"'--tempreture=3'; did you mean --temperature?",
         "m/model.bin --tempreture=3"},
        {"'--thread-s'; did you mean --threads?", "m/model.bin --thread-s"},
        {"'--smaples'; did you mean --samples?", "m/model.bin --smaples 3"},
        {"'--x'; see --help", "m/model.bin --x"},
        {"option '--pro' may be --prompt, --prompts, --profile,",
         "m/model.bin --pro"},
        {"option '--temp' may be --temperature, --template;",
         "m/model.bin --temp 0"},
        {"unknown option '-output'; did you mean --output?",
         "m/model.bin -m logits -output x"},
        {"unexpected argument 'chat'; did you mean -m chat?",
         "m/model.bin chat"},
        {"unexpected argument 'info'; did you mean -m info?",
         "m/model.bin info"},
        {"did you mean m/model.bin -m chat?", "chat m/model.bin"},
        {"the model is 'bench', and no such file exists; did you mean -m bench?",
         "bench"},
        {"--prompt is given twice", "m/model.bin -i a -i b"},
        {"--prompt is given twice", "m/model.bin -i a --prompt=b"},
        {"--system is given twice", "m/model.bin -m chat -y a -y b"},
        {"option '-n' requires an argument; see --help", "m/model.bin -n"},
        {"option '--tokens' requires an argument; see --help",
         "m/model.bin --tokens"},
        {"option '--json=yes' takes no argument; see --help",
         "m/model.bin --json=yes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i += (size_t)stride())
        check_refused(2, cases[i][0], cases[i][1]);
}

static void bad_files_are_refused(void) {
    static const char *const cases[][2] = {
        {"No such file", "missing.bin"},
        {"is a directory", "out"},
        {"is a folder of models; name one of them: m/", "m"},
        {"is empty", "empty"},
        {"text: ", "text"}, /* not a checkpoint */
        {"not a regular file", "/dev/null"},
        {"m/tokenizer300.bin", "m/model.bin -z m/tokenizer300.bin"},
        {"nothing.bin", "m/model.bin -z nothing.bin"},
        {"no tokenizer", "bare/model.bin"},
        {"no tokenizer", "bare/model.bin -m chat -i a"},
        {"no tokenizer", "bare/model.bin -m tokenize --tokens 1 -v"},
        {"missing.txt", "m/model.bin -f missing.txt"},
        {"m: ", "m/model.bin -f m"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i += (size_t)stride())
        check_refused(1, cases[i][0], cases[i][1]);
    if (geteuid() == 0)
        return; /* root can read every file */
    CHECK(chmod(inside("empty"), 0) == 0, "chmod failed");
    check_refused(1, "denied", "empty");
    chmod(inside("empty"), 0600);
}

static void write_bytes(const char *name, const void *bytes, size_t n) {
    FILE *f = fopen(inside(name), "wb");
    fwrite(bytes, 1, n, f);
    fclose(f);
}

/* For common files that are not models the message names their kind and what to
 * do. */
static void files_that_are_not_models_are_recognized(void) {
    static const struct {
        const char *begin;
        size_t n;
        const char *message;
    } cases[] = {
#define NO_MODEL "is not a model; expected a GGUF file, a llama2.c checkpoint"
#define CASE(begin, message)                                                   \
    {begin, sizeof begin - 1, "odd/model.bin: " message}
        CASE(
            "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
            "is a Git LFS pointer"),
        CASE("<!DOCTYPE html>\n<html>", "is a web page"),
        CASE("<!doctype html>", "is a web page"),
        CASE("<html lang=\"en\">", "is a web page"),
        CASE("<HTML>", "is a web page"),
        CASE(
            "PK\3\4\0\0\10\10 archive/data.pkl",
            "is a PyTorch file, which can run programs; convert it with scripts/bin_to"),
        CASE("\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.",
             "is a PyTorch file, which can run programs"),
        CASE("\x1f\x8b\x08\0\0\0\0\0", "is compressed; unpack it first"),
        CASE("\xfd\x37zXZ\0", "is compressed; unpack it first"),
        CASE("\x28\xb5\x2f\xfd", "is compressed; unpack it first"),
        CASE("tjgg\1\0\0\0", "is a GGML file, the predecessor of GGUF"),
        CASE("{\"model_type\": \"llama\"}",
             "is a file of a Hugging Face folder; name the folder\n"),
        CASE("\x02\0\0\0\0\0\0\0{\"",
             "is a file of a Hugging Face folder; name the folder\n"),
        CASE("\x03\0\0\0\0\0\0\0{}", NO_MODEL),
        CASE("Once upon a time there was a little girl.", NO_MODEL),
        CASE("# \xe4\xbd\xa0\xe5\xa5\xbd, a text in Chinese\n\t\t\t\t\t\t",
             NO_MODEL),
        CASE("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\b\6\0\0", NO_MODEL),
        CASE("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
             NO_MODEL),
#undef CASE
#undef NO_MODEL
    };
    mkdir(inside("odd"), 0700);
    for (size_t i = 0; i < sizeof cases / sizeof *cases;
         i += (size_t)stride()) {
        write_bytes("odd/model.bin", cases[i].begin, cases[i].n);
        check_refused(1, cases[i].message, "odd/model.bin --tokens 1");
    }
    write_bytes("config.json", "{}", 2); /* a path without a folder */
    check_refused(
        1, "config.json: is a file of a Hugging Face folder; name the folder\n",
        "config.json");
    unlink(inside("config.json"));
    /* one byte less is not recognized */
    write_bytes("odd/model.bin", "version https://git-lf", 22);
    check_refused(1, "is not a model", "odd/model.bin --tokens 1");
}

/* A folder from a `git clone` without Git LFS. */
static void git_lfs_pointers_in_a_folder_are_recognized(void) {
    static const char pointer[] =
        "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    Model m;
    CHECK(!model_open(&m, inside("bare/model.bin")), "no model");
    int status_ =
        folder_write(&m, inside("lfs"), &(FolderForm){.model_type = "llama"});
    model_close(&m);
    CHECK(!status_, "no folder");
    write_file("lfs/tokenizer.json", pointer);
    check_refused(1, "lfs/tokenizer.json: is a Git LFS pointer", "lfs -i a");
    write_file("lfs/tokenizer.bin", pointer);
    check_refused(1, "lfs/tokenizer.bin: is a Git LFS pointer",
                  "lfs -z lfs/tokenizer.bin -i a");
    write_file("lfs/model.safetensors", pointer);
    check_refused(1, "lfs/model.safetensors: is a Git LFS pointer",
                  "lfs --tokens 1");
}

/* A GGUF file without tensors works only with -m tokenize. */
static void a_vocabulary_without_tensors_tokenizes(void) {
    static const char *const modes[] = {
        "generate",   "chat",
        "perplexity", "bench",
        "norms",      "logits -o out/l",
        "info",       "convert -q f32 -o out/l"};
    static GgufFile f;
    char arguments[64], expected[256];
    gguf_make(&f, &MODEL, 0);
    gguf_add_tokenizer(&f, MODEL.vocab_size, NULL, 0);
    gguf_write(&f, inside("m/whole.gguf"));
    while (f.n_tensors)
        gguf_remove(&f, f.tensors[0].name);
    gguf_set_text(&f, "general.architecture", "any");
    gguf_write(&f, inside("m/vocabulary.gguf"));
    CHECK_RUN("m/whole.gguf -m tokenize -i 'aa, \xc3\xa9<s>'");
    strcpy(expected, out);
    CHECK_RUN("m/vocabulary.gguf -m tokenize -i 'aa, \xc3\xa9<s>'");
    CHECK(!strcmp(out, expected) && !*err, "%s, expected %s; stderr: %s", out,
          expected, err);
    CHECK_RUN("m/vocabulary.gguf -m tokenize -v --tokens 511");
    check_refused(1, "expected ids below 512",
                  "m/vocabulary.gguf -m tokenize --tokens 512");
    check_refused(2, "--norm works in",
                  "m/vocabulary.gguf -m tokenize -i a --norm rms");
    for (int i = 0; i < 8; i++) {
        snprintf(arguments, sizeof arguments, "m/vocabulary.gguf -m %s",
                 modes[i]);
        check_refused(
            1,
            "m/vocabulary.gguf: has a vocabulary but no tensors; it works only with -m tokenize",
            arguments);
    }
    uint8_t no_pieces[12] = {GGUF_STRING};
    for (int i = 0; i < 2; i++) {
        gguf_set(&f, "tokenizer.ggml.tokens", GGUF_ARRAY, no_pieces,
                 sizeof no_pieces);
        if (i)
            gguf_remove(&f, "tokenizer.ggml.tokens");
        gguf_write(&f, inside("m/vocabulary.gguf"));
        check_refused(1, "has neither tensors nor a vocabulary",
                      "m/vocabulary.gguf -m tokenize -i a");
    }
    gguf_free(&f);
    CHECK(files_in("out") == 0, "%d files left over", files_in("out"));
}

static void a_context_beyond_the_model_s_is_noted(void) {
    CHECK_RUN("m/model.bin -t 0 -i aa -n 5 -c 65");
    CHECK(strstr(err, "note: -c 65 exceeds the model's context; using 64\n") ==
              err,
          "stderr: %s", err);
    CHECK_RUN("m/model.bin -t 0 -i aa -n 5 -c 64");
    CHECK(!strstr(err, "note: -c"), "stderr: %s", err);
}

static void bad_prompts_are_refused(void) {
    static const char *const cases[][2] = {
        {"7 positions do not fit in a context of 6",
         "m/model.bin -c 6 -i ABCDE"},
        {"expected ids below 512", "m/model.bin --tokens 1,512"},
        {"expected ids below 512", "m/model.bin --tokens 99999999999999999999"},
        {"expected ids", "m/model.bin --tokens 1,-2"},
        {"expected ids", "m/model.bin --tokens 1,,2"},
        {"expected ids", "m/model.bin --tokens 1,2,"},
        {"expected ids", "m/model.bin --tokens ,1"},
        {"expected ids", "m/model.bin --tokens '1, 2'"},
        {"expected ids", "m/model.bin --tokens ''"},
        {"expected ids", "m/model.bin --tokens one"},
        {"expected ids", "m/model.bin --tokens 0x10"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i += (size_t)stride())
        check_refused(1, cases[i][0], cases[i][1]);
    /* fits exactly: room for one more token */
    CHECK_RUN("m/model.bin -c 7 -i ABCDE -t 0");
}

/* A message is one line without control characters, for any file name. */
static void messages_contain_no_control_characters(void) {
    check_refused(1, "no?model?[31m.bin: ", "'no\nmodel\x1b[31m.bin'");
    check_refused(2, "'a?b', expected", "m/model.bin -n 'a\nb'");
}

static void nan_logits_are_an_error(void) {
    run("m/nan.bin --tokens 1,2,511 -n 20");
    CHECK(status == 1 && one_line(err) && strstr(err, "not finite"),
          "generate: status %d, %s", status, err);
    check_refused(1, "not finite",
                  "m/nan.bin -m perplexity --tokens 1,2,511,3");
    /* no object for an answer that failed, and no empty line */
    setup.input = "a\n";
    run("m/nan.bin -m chat --json");
    CHECK(status == 1 && n_out == 0 && strstr(err, "not finite"),
          "chat: status %d, '%s', %s", status, out, err);
}

/* gamma = 1e6 makes keys and values above 65504, which are infinite in a
 * float16 cache. */
static void overflow_of_a_float16_cache_is_an_error(void) {
    float gammas[512] = {0};
    for (int i = 0; i < MODEL.n_layers * MODEL.dim; i++)
        gammas[i] = 1e6f;
    hashmodel_write(&MODEL, inside("m/large.bin"), 1, 0);
    FILE *f = fopen(inside("m/large.bin"), "r+b");
    fseek(f, 256, SEEK_SET);
    fwrite(gammas, sizeof *gammas, (size_t)(MODEL.n_layers * MODEL.dim), f);
    fclose(f);
    CHECK_RUN("m/large.bin --kv f32 --tokens 1,2,5 -n 8");
    run("m/large.bin --kv f16 --tokens 1,2,5 -n 8");
    CHECK(status == 1 && one_line(err) && strstr(err, "--kv f32"),
          "status %d, %s", status, err);
}

/* If the model's folder has no tokenizer, the current folder's is used. */
static void the_tokenizer_may_be_in_the_current_folder(void) {
    CHECK(link(inside("m/tokenizer.bin"),
               strcat(strcpy((char[2 *PATH_MAX]){0}, folder),
                      "/tokenizer.bin")) == 0,
          "cannot link");
    run("bare/model.bin -i AB -t 0 -n 8");
    unlink(inside("tokenizer.bin"));
    CHECK(status == 0 && !strncmp(out, "AB", 2), "status %d: %s%s", status, out,
          err);
}

/* The list in docs/options.md equals --help. */
static void options_md_lists_the_help(void) {
    static const char fence[] = "\n```\n";
    size_t size;
    char *page = file_read("docs/options.md", &size);
    const char *list = page ? strstr(page, fence) : NULL;
    CHECK_RUN("--help");
    CHECK(list, "no options in docs/options.md");
    list += strlen(fence);
    const char *end = strstr(list, "```\n"), *line = out;
    CHECK(end, "the list of options in docs/options.md does not end");
    for (size_t n, m; list < end && *line; list += n + 1, line += m + 1) {
        n = strcspn(list, "\n");
        m = strcspn(line, "\n");
        CHECK(n == m && !memcmp(list, line, n),
              "docs/options.md has '%.*s', --help '%.*s'", (int)n, list, (int)m,
              line);
    }
    CHECK(list == end && !*line,
          "docs/options.md and --help do not end together");
    free(page);
}

static void help_and_version(void) {
    CHECK_RUN("--help");
    static const char *const words[] = {
        "--mode",      "--prompt ",     "--file",           "--tokens",
        "--steps",     "--temperature", "--top-p",          "--top-k",
        "--min-p",     "--seed",        "--repeat-penalty", "--kv",
        "--tokenizer", "--threads",     "--system",         "--output",
        "--context",   "--batch",       "--json",           "--verbose",
        "--help",      "--version",     "--prompt-tokens",  "--profile",
        "--norm"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        CHECK(strstr(out, words[i]), "no %s in the help", words[i]);
    CHECK(*err == '\0', "on stderr: %s", err);
    CHECK_RUN("--version");
    CHECK(!strcmp(out, "norma " NORMA_VERSION "\n"), "%s", out);
}

/* An input file is never an output file, under any name. */
static void no_output_is_an_input(void) {
    static const char *const cases[] = {
        "m/model.bin -m logits -i aa -o m/model.bin",
        "m/model.bin -m logits -i aa -o out/link",
        "m/model.bin -m logits -f text -o text",
        "m/model.bin -m convert -q f32 -o m/tokenizer.bin",
        "m/model.bin -m convert -q f32 -o out/../m/model.bin",
        "hf -m logits --tokens 1 -o hf/config.json",
        "hf -m logits --tokens 1 -o hf/model-00002-of-00002.safetensors",
    };
    char *before[3];
    size_t sizes[3], size;
    static const char *const inputs[] = {"m/model.bin", "m/tokenizer.bin",
                                         "text"};
    CHECK(!symlink("../m/model.bin", inside("out/link")), "no link");
    for (int i = 0; i < 3; i++)
        before[i] = file_read(inside(inputs[i]), &sizes[i]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_refused(1, "name another file", cases[i]);
    write_file("text.csv", "Once");
    run("m/model.bin -f text.csv -n 4 --profile=text.csv");
    CHECK(status == 1 && strstr(err, "run: text.csv: is also an output"),
          "status %d: %s", status, err);
    unlink(inside("text.csv"));
    CHECK_RUN("hf -m info");
    for (int i = 0; i < 3; i++) {
        char *now_ = file_read(inside(inputs[i]), &size);
        CHECK(now_ && size == sizes[i] && !memcmp(now_, before[i], size),
              "%s was changed", inputs[i]);
        free(now_);
        free(before[i]);
    }
    unlink(inside("out/link"));
    CHECK(files_in("out") == 0, "%d files left over", files_in("out"));
}

/* /dev/stdout is such a link. The test makes its own, since root could delete
 * the real one. */
static void an_output_may_be_a_link_to_standard_output(void) {
    struct stat st;
    CHECK(!symlink("/proc/self/fd/1", inside("out/stdout")), "no link");
    CHECK_RUN("m/model.bin -m logits --tokens 1,2 -o out/stdout");
    CHECK(n_out == 2 * 512 * sizeof(float), "%zu bytes", n_out);
    CHECK(!lstat(inside("out/stdout"), &st) && S_ISLNK(st.st_mode),
          "the link is gone");
    unlink(inside("out/stdout"));
    CHECK(files_in("out") == 0, "%d files left over", files_in("out"));
}

/* The files of the program do not get the descriptors 0 to 2. */
static void files_do_not_replace_closed_standard_streams(void) {
    CHECK_RUN("m/model.bin -m convert -q q8_0 -o out/a.gguf");
    CHECK(strstr(err, "note: "), "no notes");
    size_t size, closed_size;
    char *expected = file_read(inside("out/a.gguf"), &size);
    setup.closed = 7;
    run("m/model.bin -m convert -q q8_0 -o out/a.gguf");
    char *found = file_read(inside("out/a.gguf"), &closed_size);
    CHECK(status == 0 && expected && found && size == closed_size &&
              !memcmp(found, expected, size),
          "status %d, %zu bytes, expected %zu", status, closed_size, size);
    free(expected);
    free(found);
    unlink(inside("out/a.gguf"));
    setup.closed = 1;
    CHECK_RUN("m/model.bin -m chat");
    setup.closed = 2;
    run("m/model.bin -m tokenize -i aa");
    CHECK(status == 1 && one_line(err) &&
              strstr(err, "run: cannot write the output"),
          "status %d: %s", status, err);
}

/* With OMP_THREAD_LIMIT, and with stacks too large for the address space
 * (OpenMP's library ends the program). */
static void thread_limits_of_the_system_are_handled(void) {
    setup.environment = "OMP_THREAD_LIMIT=3";
    CHECK_RUN(
        "m/model.bin -m bench --seconds 0 -n 2 --prompt-tokens 2 -j 4 --json");
    CHECK(strstr(out, "\"threads\": 3,"), "%s", out);
    setup.environment = "OMP_STACKSIZE=65536G";
    run("m/model.bin -i aa -n 4 -j 4");
    CHECK(status && *err, "status %d, %s", status, err);
    setup.environment = "OMP_STACKSIZE=65536G";
    CHECK_RUN("m/model.bin -i aa -n 4 -j 1");
}

/* ---- writing that fails, Ctrl-C ----------------------------------------- */

static const char *const WRITERS[] = {
    "m/model.bin -i aa -n 20",
    "m/model.bin -m tokenize -i aa",
    "m/model.bin -m perplexity -i aa",
    "m/model.bin -m info",
    "m/model.bin -m bench --seconds 0 -n 2 --json",
    "m/model.bin -m chat -i hello",
    "--help",
    "--version"};

static void a_full_disk_is_an_error(void) {
    for (size_t i = 0; i < sizeof WRITERS / sizeof *WRITERS;
         i += (size_t)stride()) {
        setup.output = "/dev/full";
        run("%s", WRITERS[i]);
        CHECK(status == 1, "%s: status %d", WRITERS[i], status);
        CHECK(strstr(err, "run: cannot write the output"), "%s: stderr is '%s'",
              WRITERS[i], err);
    }
}

/* ulimit -f, near the end and near the beginning of the file */
static void a_file_size_limit_is_an_error(void) {
    char arguments[PATH_MAX + 64];
    char model[PATH_MAX];
    CHECK(realpath("models/stories.gguf", model),
          "models/stories.gguf is missing");
    snprintf(arguments, sizeof arguments, "%s -m convert -q f32 -o out/a.gguf",
             model);
    setup.file_size = 5000;
    check_refused(1, "out/a.gguf: File too large",
                  "m/model.bin -m convert -q f32 -o out/a.gguf");
    setup.file_size = 5000;
    check_refused(1, "out/a.gguf: File too large", arguments);
    CHECK(files_in("out") == 0, "%d files left over", files_in("out"));
}

/* only in modes, not for --help */
static void a_closed_pipe_ends_the_program(void) {
    for (size_t i = 0; i < 6; i += (size_t)stride()) {
        setup.closed_output = true;
        run("%s", WRITERS[i]);
        CHECK(status == KILLED + SIGPIPE && !strstr(err, "cannot write"),
              "%s: status %d, %s", WRITERS[i], status, err);
    }
}

/* An endless text stops when its pipe is closed. */
static void an_endless_text_stops_at_a_closed_pipe(void) {
    setup.closed_output = true;
    run("m/long.bin -i aa -t 0 -n 0");
    CHECK(status == KILLED + SIGPIPE, "status %d", status);
}

static void ctrl_c_ends_a_text_cleanly(void) {
    setup.interrupt = AT_OUTPUT;
    run("m/long.bin -i aa -t 0 -n 0");
    CHECK(status == 130, "status %d, %s", status, err);
    CHECK(one_line(err) && strstr(err, "tokens/s"), "no statistics: %s", err);
    FILE *in = fopen(inside("stdout"), "rb");
    CHECK(in && fseek(in, -1, SEEK_END) == 0, "no text");
    CHECK(fgetc(in) == '\n', "no newline at the end");
    fclose(in);
    /* outputs are checked before the model runs */
    run("m/long.bin -i aa -t 0 -n 0 --profile=missing/a.csv");
    CHECK(status == 1 && strstr(err, "missing/a.csv: No such file") && !*out,
          "a failure to write: status %d, %s", status, err);
}

/* During an answer, or while chat waits for a message, or the rest of one. */
static void ctrl_c_ends_a_chat(void) {
    static const char chat[] = "m/long.bin -m chat --template llama-2 -t 0";
    setup.interrupt = AT_OUTPUT;
    run("%s -i hello", chat);
    CHECK(status == 130 && *err == '\0', "status %d, %s", status, err);
    setup.interrupt = WHEN_HANDLED;
    setup.endless_input = true;
    run("%s", chat);
    CHECK(status == 130 && !*err && !n_out, "status %d, %s", status, err);
    setup.interrupt = WHEN_HANDLED;
    setup.endless_input = true;
    run("%s -i hello", chat);
    CHECK(status == 130 && !n_out, "status %d, %s", status, err);
}

/* At a terminal Ctrl-C stops only the answer; /clear starts a new
 * conversation. */
static void commands_at_a_terminal(void) {
    static const char *const all[] = {"/?\n",     "hello\n\3", "more\n\3",
                                      "/clear\n", "hello\n\3", "/bye\n",
                                      NULL};
    static char first[1 << 16];
    setup.terminal = true;
    setup.typed = all;
    CHECK_RUN("m/long.bin -m chat --template llama-2 -t 0");
    int lines = 0;
    for (const char *s = out; (s = strchr(s, '\n')); s++)
        lines++;
    CHECK(lines == 3, "%d answers: %s", lines, out);
    size_t n = strcspn(out, "\n"), last = strlen(out) - 1;
    memcpy(first, out, sizeof first);
    const char *third = memrchr(first, '\n', last);
    CHECK(third && !strncmp(third + 1, first,
                            n < last - (size_t)(third - first)
                                ? n
                                : last - (size_t)(third - first) - 1),
          "the cleared conversation: %s", out);
    CHECK(strstr(err, "/help lists the commands") &&
              strstr(err, "/bye    leaves, as does Ctrl-D\n"),
          "%s", err);
}

/* Ctrl-C at a terminal stops a prompt, too: its answer is empty. */
static void ctrl_c_stops_a_prompt(void) {
    static const char *const typed[] = {"/load long.json\n\5", "/bye\n", NULL};
    FILE *file = fopen(inside("long.json"), "w");
    fprintf(file, "[{\"role\": \"user\", \"content\": \"");
    for (int i = 0; i < 40000; i++)
        fprintf(file, " word");
    fprintf(file, "\"}]");
    fclose(file);
    setup.terminal = true;
    setup.typed = typed;
    CHECK_RUN("m/long.bin -m chat --template llama-2 -t 0");
    CHECK(!strcmp(out, "\n"), "'%s', %s", out, err);
}

/* Until a mode can stop by itself, Ctrl-C ends the program at once: while it
 * encodes an endless text, in one pass of many tokens, at the end of a file. */
static void ctrl_c_ends_a_long_pass(void) {
    static char text[8 << 20];
    CHECK(realpath("models/stories.gguf", text), "models/stories.gguf");
    char model[PATH_MAX];
    strcpy(model, text);
    memset(text, 'a', sizeof text - 1);
    for (size_t i = 7; i < sizeof text; i += 8)
        text[i] = ' ';
    text[sizeof text - 1] = '\0';
    write_file("text", text);
    static const char *const modes[] = {
        "-m tokenize -f text", "-m perplexity -f text",
        "-m logits -f text -o out/a", "-m generate -f text",
        "-m bench --prompt-tokens 200 -n 9"};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        setup.interrupt = WHEN_HANDLED;
        run("%s %s", model, modes[i]);
        CHECK(status == 130 && !*err, "%s: status %d, %s", modes[i], status,
              err);
    }
    CHECK(files_in("out") == 0, "%d files left over", files_in("out"));
}

/* -j and OMP_NUM_THREADS have the same limit. */
static void too_many_threads_are_refused(void) {
    static const char *const values[] = {"OMP_NUM_THREADS=1025",
                                         "OMP_NUM_THREADS=100000",
                                         "OMP_NUM_THREADS=2147483647"};
    /* LLVM's runtime aborts for the largest before norma reads it. */
#ifdef __clang__
    int n = 2;
#else
    int n = 3;
#endif
    for (int i = 0; i < n; i++) {
        setup.environment = values[i];
        check_refused(2, "expected at most 1024", "m/model.bin -i aa -n 3");
        setup.environment = values[i];
        CHECK_RUN("m/model.bin -i aa -n 3 -j 2");
    }
    check_refused(2, "from 1 to 1024", "m/model.bin -i aa -n 3 -j 1025");
}

/* Names of files are shown without control characters. */
static void names_cannot_control_a_terminal(void) {
    static const char name[] = "m/a\x1b]0;b\a\r\xc2\x9b\xe2\x80\xae.bin";
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", inside(name));
    CHECK(!link(inside("m/model.bin"), path), "no link");
    CHECK_RUN("%s -m info", name);
    CHECK(strstr(out, "m/a?]0;b????.bin") && !strpbrk(out, "\x1b\a\r"), "%s",
          out);
    CHECK_RUN("%s -m info --json", name);
    CHECK(strstr(out, "m/a\\u001b]0;b\\u0007\\r\\u009b\\u202e.bin"), "%s", out);
    unlink(path);
}

/* In a chat a newline follows. */
static void ctrl_c_ends_every_mode(void) {
    static const char *const runs[] = {
        "m/long.bin -m bench -n 2000000 --prompt-tokens 1",
        "m/long.bin -m logits -f - -o out/a", "m/long.bin -m perplexity -f -",
        "m/long.bin -m tokenize -f -", "m/long.bin -m norms --seconds 1000"};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        setup.interrupt = WHEN_HANDLED;
        setup.endless_input = true;
        run("%s", runs[i]);
        /* the address sanitizer warns if a thread that just starts handles the
         * signal */
        CHECK(status == 130 && (!*err || strstr(err, "handle_no_return")) &&
                  (!n_out || strstr(runs[i], "norms")),
              "%s: status %d, %s", runs[i], status, err);
    }
    setup.interrupt = WHEN_BLOCKED;
    setup.blocked_output = true;
    run("m/long.bin -i aa -t 0 -n 0");
    CHECK(status == 130 && one_line(err) && strstr(err, "tokens/s"),
          "blocked output: status %d, %s", status, err);
    setup.interrupt = AT_PROMPT;
    setup.terminal = true;
    run("m/model.bin -m chat");
    CHECK(status == 130 &&
              strstr(err, "note: Ctrl-C again, or /bye, leaves\n") &&
              strstr(terminal_text, "User: "),
          "chat: status %d, '%s'", status, err);
    CHECK(files_in("out") == 0, "%d files left over", files_in("out"));
}

void suite_cli(void) {
    make_folder();
    TEST(generate_writes_the_expected_text);
    TEST(no_echo_omits_the_prompt);
    TEST(generate_accepts_every_option);
    TEST(prompts_come_from_files_and_standard_input);
    TEST(options_of_llama2c_are_accepted);
    TEST(standard_input_is_not_read);
    TEST(steps_are_cut_to_the_context);
    TEST(steps_may_be_fewer_than_the_prompt_has);
    TEST(without_a_tokenizer_ids_are_printed);
    TEST(text_is_independent_of_batch_and_threads);
    TEST(every_format_runs);
    TEST(a_folder_is_a_model);
    TEST(norms_without_weights_are_measured);
    TEST(chat_answers_turn_by_turn);
    TEST(chat_has_a_system_prompt);
    TEST(chat_uses_the_template_of_the_file);
    TEST(chat_refuses_a_template_that_raises);
    TEST(verbose_prompt_shows_tokens);
    TEST(chat_drops_turns_when_the_context_is_full);
    TEST(n_limits_each_answer);
    TEST(chat_reads_lines_of_any_bytes);
    TEST(a_pipe_is_one_message);
    TEST(chat_ends_at_the_end_of_input);
    TEST(tokenize_writes_ids);
    TEST(logits_are_bit_identical_to_the_library_s);
    TEST(failed_logits_leave_no_file);
    TEST(convert_keeps_a_model);
    TEST(convert_keeps_a_chat_model);
    TEST(convert_writes_every_type);
    TEST(failed_conversion_leaves_no_file);
    TEST(perplexity_follows_from_the_logits);
    TEST(perplexity_of_a_text);
    TEST(perplexity_errors_are_those_of_blocks);
    TEST(perplexity_without_bos);
    TEST(info_lists_the_model);
    TEST(info_says_what_a_file_is);
    TEST(info_writes_json);
    TEST(bench_writes_json);
    TEST(bench_counts_bytes_and_operations);
    TEST(bench_escapes_the_model_s_name);
    TEST(bench_is_cut_to_the_context);
    TEST(a_cut_text_is_noted);
    TEST(a_repository_is_fetched);
    TEST(a_line_of_a_chat_has_a_limit);
    TEST(a_template_is_chosen_by_its_marker);
    TEST(a_failed_answer_writes_no_json);
    TEST(think_needs_a_template_that_reads_it);
    TEST(n_counts_the_same_tokens_everywhere);
    TEST(bad_options_are_refused);
    TEST(bad_usage_is_refused);
    TEST(bad_files_are_refused);
    TEST(files_that_are_not_models_are_recognized);
    TEST(git_lfs_pointers_in_a_folder_are_recognized);
    TEST(a_vocabulary_without_tensors_tokenizes);
    TEST(a_context_beyond_the_model_s_is_noted);
    TEST(bad_prompts_are_refused);
    TEST(messages_contain_no_control_characters);
    TEST(nan_logits_are_an_error);
    TEST(overflow_of_a_float16_cache_is_an_error);
    TEST(the_tokenizer_may_be_in_the_current_folder);
    TEST(help_and_version);
    TEST(options_md_lists_the_help);
    TEST(no_output_is_an_input);
    TEST(an_invalid_tokenizer_is_a_note_with_tokens);
    TEST(an_output_may_be_a_link_to_standard_output);
    TEST(thread_limits_of_the_system_are_handled);
    TEST(a_full_disk_is_an_error);
    TEST(a_closed_pipe_ends_the_program);
    TEST(an_endless_text_stops_at_a_closed_pipe);
    TEST(ctrl_c_ends_a_text_cleanly);
    TEST(ctrl_c_ends_a_chat);
    if (test_fast())
        return; /* valgrind uses files, signals and limits itself */
    TEST(files_do_not_replace_closed_standard_streams);
    TEST(a_file_size_limit_is_an_error);
    TEST(commands_at_a_terminal);
    TEST(ctrl_c_stops_a_prompt);
    TEST(ctrl_c_ends_every_mode);
    TEST(ctrl_c_ends_a_long_pass);
    TEST(too_many_threads_are_refused);
    TEST(names_cannot_control_a_terminal);
}
