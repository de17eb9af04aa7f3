/* options.c: the command line.
 *
 * Owns the table of options, which defines the parser and --help. A test compares --help with docs/options.md.
 * An option is a row of the table and a field of Options.
 */
#include "modes/options.h"
#include "base/error.h"
#include "base/file.h"
#include "base/platform.h"
#include "base/process.h"
#include "lab/profile.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define INDEX(name, ...) INDEX_##name,
enum { MODES(INDEX) N_MODES };
#undef INDEX

#define ROW(name, ...) {#name, mode_##name, __VA_ARGS__},
static const Mode MODE_TABLE[] = {MODES(ROW)};
#undef ROW

/* Sets of modes, for the table of options. */
enum {
    GENERATE = 1 << INDEX_generate,
    CHAT = 1 << INDEX_chat,
    PERPLEXITY = 1 << INDEX_perplexity,
    BENCH = 1 << INDEX_bench,
    NORMS = 1 << INDEX_norms,
    TOKENIZE = 1 << INDEX_tokenize,
    LOGITS_MODE = 1 << INDEX_logits,
    CONVERT = 1 << INDEX_convert,
    WRITES = GENERATE | CHAT, /* samples tokens */
    READS = GENERATE | PERPLEXITY | TOKENIZE | LOGITS_MODE,
    PROFILED = WRITES | PERPLEXITY | BENCH | LOGITS_MODE,
    RUNS = PROFILED | NORMS, /* runs the model */
    ALL = (1 << N_MODES) - 1
};

/* The effect of an option. The kinds up to UINT64 store a value of this type in a field of Options. */
typedef enum { STRING, STOP, TRUE, INT, FLOAT, UINT64, HELP, VERSION } Kind;

typedef struct {
    char letter; /* 0 = none */
    Kind kind;
    const char *name;     /* after "--" */
    const char *argument; /* for --help; "[=...]" = optional; NULL = none */
    int modes;            /* set of modes that accept it */
    size_t field;         /* offset in Options */
    double min, max;      /* of numbers */
    const char *help;     /* print_option wraps long lines */
} Option;

#define INTO(field)       offsetof(Options, field), 0, 0
#define RANGE(field, ...) offsetof(Options, field), __VA_ARGS__

static const Option OPTIONS[] = {
    {'m', STRING, "mode", "MODE", ALL, INTO(mode_name), "one of the modes above"},
    {'i', STRING, "prompt", "TEXT", READS | CHAT, INTO(prompt), "the text; chat: the first message"},
    {'f', STRING, "file", "FILE", READS, INTO(prompt_file), "read the text from a file (\"-\": standard input)"},
    {0, STRING, "tokens", "LIST", READS, INTO(tokens), "token ids instead of text: 1,403,407"},
    {0, STRING, "prompts", "FILE", WRITES, INTO(prompts),
     "continue or answer each line of a file (\"-\": standard input); lines of a .jsonl file are {\"prompt\": TEXT}, "
     "optionally with \"seed\": N and \"n\": N, the number of samples"},
    {'z', STRING, "tokenizer", "FILE", ALL, INTO(tokenizer),
     "[the GGUF file's, the folder's tokenizer.json; else tokenizer.bin next to the model, else in this folder]"},
    {'n', INT, "steps", "N", WRITES | BENCH, RANGE(steps, 0, INT_MAX),
     "generate: max tokens, prompt included [256; 0: the\nwhole context]; chat: max tokens of an answer\n"
     "[no limit]; bench: tokens to generate [64]"},
    {'t', FLOAT, "temperature", "T", WRITES, RANGE(sampling.temperature, 0, 1000),
     "[1.0; 0: always the most likely token]"},
    {'p', FLOAT, "top-p", "P", WRITES, RANGE(sampling.top_p, 0, 1),
     "keep the most likely tokens that sum to P [0.9; 0 or 1: off]"},
    {'k', INT, "top-k", "K", WRITES, RANGE(sampling.top_k, 0, INT_MAX), "keep the K most likely tokens [off]"},
    {0, FLOAT, "min-p", "P", WRITES, RANGE(sampling.min_p, 0, 1),
     "keep tokens at least P times as likely as the most likely one [off]"},
    {0, FLOAT, "repeat-penalty", "R", WRITES, RANGE(sampling.repeat_penalty, 0.01, 100),
     "divide the logits of the last 64 tokens [1: off]"},
    {'s', UINT64, "seed", "N", WRITES, RANGE(sampling.seed, 0, 0x1p64),
     "seed of the random numbers [0: from the clock]"},
    {0, INT, "lookup", "N", WRITES, RANGE(lookup, 0, MAX_LOOKUP),
     "draft up to N tokens by prompt lookup; the output is unchanged [15; with --profile: 0]"},
    {0, STOP, "stop", "TEXT", WRITES, 0, 0, 0, "end a text before TEXT; may be given several times"},
    {0, INT, "logprobs", "N", WRITES, RANGE(logprobs, 0, MAX_LOGPROBS),
     "with --json: log-probabilities of each token and of the N likeliest ones"},
    {0, INT, "samples", "N", GENERATE, RANGE(samples, 1, INT_MAX),
     "generate: texts per prompt; seeds are derived from -s"},
    {0, INT, "parallel", "N", GENERATE, RANGE(parallel, 1, 4096),
     "generate: texts that run together [16, fewer if memory is short]"},
    {0, TRUE, "no-echo", NULL, GENERATE, INTO(no_echo), "generate: write only what follows the prompt"},
    {'y', STRING, "system", "TEXT", CHAT, INTO(system), "chat: the system prompt [the chat template's own, if any]"},
    {0, STRING, "template", "NAME|FILE", CHAT, INTO(template),
     "chat: a Jinja file, or chatml, gemma, llama-2, llama-3,\nmistral, phi-3, zephyr [the model's chat template]"},
    {0, STRING, "think", "on|off", CHAT, INTO(think), "chat: enable_thinking of the chat template"},
    {0, TRUE, "verbose-prompt", NULL, CHAT, INTO(verbose_prompt), "chat: show the tokens of each prompt on stderr"},
    {0, STRING, "profile", "[=FILE]", PROFILED, INTO(profile),
     "print the time of every layer and site on stderr; FILE.html shows it as a page, FILE.csv as a table"},
    {0, STRING, "dump", "FOLDER", LOGITS_MODE, INTO(dump),
     "logits: also write the input and output of every norm as NumPy files"},
    {0, TRUE, "norm-sweep", NULL, PERPLEXITY, INTO(norm_sweep),
     "perplexity: nats per token with each norm swapped or removed"},
    {0, STRING, "norm", "SPEC", ALL & ~TOKENIZE, INTO(norm),
     "run with other norms: KIND or [LAYERS.]SITE=KIND, ...; KIND " NORM_KIND_LIST(
         "or") "; SITE attn, mlp, q, k,\nattn_post, mlp_post or final; LAYERS n or n-m:\n--norm layer, --norm "
               "0-2.attn=layer,final=rms"},
    {0, INT, "prompt-tokens", "N", BENCH, RANGE(prompt_tokens, 1, INT_MAX), "bench: length of the prompt [256]"},
    {0, FLOAT, "seconds", "N", BENCH | NORMS, RANGE(seconds, 0, 1e6), "bench, norms: max measuring time [10]"},
    {0, TRUE, "json", NULL, WRITES | BENCH | NORMS, INTO(json),
     "bench, norms: JSON instead of a table; generate,\nchat: a JSON object for each text, one per line"},
    {'o', STRING, "output", "FILE", LOGITS_MODE | CONVERT, INTO(output),
     "logits: the file, float32 [tokens, vocabulary];\nconvert: the GGUF file"},
    {'q', STRING, "type", "TYPE", CONVERT, INTO(type), "convert: type of the weights: f32 f16 bf16 q8_0 q4_0"},
    {0, TRUE, "center", NULL, CONVERT, INTO(center), "convert: rewrite a model with LayerNorm as one with RMSNorm"},
    {0, TRUE, "fold-norms", NULL, CONVERT, INTO(fold_norms), "convert: multiply gamma into the weights that follow it"},
    {'j', INT, "threads", "N", RUNS, RANGE(threads, 1, 1024), "[OMP_NUM_THREADS, else the number of cores]"},
    {'b', INT, "batch", "N", RUNS, RANGE(batch, 1, 1 << 16), "prompt tokens per forward pass [512]"},
    {'c', INT, "context", "N", RUNS, RANGE(context, 1, INT_MAX), "max length of a sequence [the model's]"},
    {0, STRING, "kv", "f32|f16", RUNS, INTO(kv), "type of the KV cache [f32 for float32 weights, else f16]"},
    {'v', TRUE, "verbose", NULL, PROFILED | TOKENIZE, INTO(verbose),
     "with --profile: list every layer; generate: print\ntuning results; tokenize: print ids with their\npieces"},
    {'h', HELP, "help", NULL, ALL, 0, 0, 0, "print this text"},
    {0, VERSION, "version", NULL, ALL, 0, 0, 0, "print the version"},
};

enum { N_OPTIONS = sizeof OPTIONS / sizeof *OPTIONS };

/* Headings of --help; each is printed before `option`. */
static const struct {
    const char *option, *heading;
} HEADINGS[] = {{"prompt", "Input of generate, chat, perplexity, tokenize and logits:"},
                {"steps", "Generate and chat:"},
                {"profile", "Measurements:"},
                {"output", "Logits and convert:"},
                {"threads", "All modes that run a model:"},
                {"verbose", "Other options:"},
                {"", ""}};

static void print_option(const Option *option) {
    enum { INDENT = 24, WIDTH = 81 }; /* columns */
    const char *argument = option->argument ? option->argument : "";
    int column = option->letter ? printf("  -%c, ", option->letter) : printf("      ");
    column += printf("--%s%s%s", option->name, *argument && *argument != '[' ? " " : "", argument);
    column += printf("%*s", column < INDENT ? INDENT - column : 2, "");
    for (const char *c = option->help; *c; c++, column++) {
        if (*c == '\n' || (*c == ' ' && column + (int)strcspn(c + 1, " \n") >= WIDTH))
            column = printf("\n%*s", INDENT, "") - 2;
        else
            putchar(*c);
    }
    putchar('\n');
}

static void print_help(void) {
    printf("usage: %s [MODEL] [-m MODE] [options]\n\n"
           "MODEL is a llama2.c checkpoint (.bin v0, v1, v2), a GGUF file or a Hugging Face\n"
           "folder; without one, the bundled model runs.\n\nModes:\n",
           program_name());
    for (int i = 0; i < N_MODES; i++) printf("  %-21s %s\n", MODE_TABLE[i].name, MODE_TABLE[i].purpose);
    putchar('\n');
    for (int i = 0, h = 0; i < N_OPTIONS; i++) {
        if (!strcmp(OPTIONS[i].name, HEADINGS[h].option)) printf("\n%s\n", HEADINGS[h++].heading);
        print_option(&OPTIONS[i]);
    }
}

/* ---- modes -------------------------------------------------------------------------------- */

/* The names of a set of modes: "a, b, c". Valid until the next call. */
static const char *mode_names(int modes) {
    static char names[256];
    size_t n = 0;
    for (int i = 0; i < N_MODES; i++)
        if (modes & 1 << i) n += (size_t)snprintf(names + n, sizeof names - n, n ? ", %s" : "%s", MODE_TABLE[i].name);
    return names;
}

static const Mode *find_mode(const char *name) {
    for (int i = 0; i < N_MODES; i++)
        if (!name || !strcmp(MODE_TABLE[i].name, name)) return &MODE_TABLE[i];
    fail("mode is '%s', expected one of %s", name, mode_names(ALL));
    return NULL;
}

/* ---- values; functions return -1 to continue, or the exit status ---------------------------- */

static int set_number(void *field, const Option *option, const char *text) {
    const bool whole = option->kind != FLOAT;
    char *end;
    errno = 0;
    const unsigned long long integer = strtoull(text, &end, 10);
    const double value = whole ? (double)integer : strtod(text, &end);
    const bool is_number = end != text && !*end && !errno && (!whole || (*text >= '0' && *text <= '9'));
    if (!is_number || !(value >= option->min && value <= option->max))
        return bad_usage("--%s is '%s', expected a %snumber from %.10g to %.10g", option->name, text,
                         whole ? "whole " : "", option->min, option->max);
    if (option->kind == FLOAT) *(float *)field = (float)value;
    if (option->kind == INT) *(int *)field = (int)value;
    if (option->kind == UINT64) *(uint64_t *)field = integer;
    return -1;
}

static int add_stop(Options *o, const char *text) {
    if (!*text || o->n_stops == MAX_STOPS)
        return bad_usage("--stop is '%s', expected at most %d texts, not empty", text, MAX_STOPS);
    o->stops[o->n_stops++] = text;
    return -1;
}

static int set_option(Options *o, const Option *option, const char *text) {
    void *const field = (char *)o + option->field;
    if (!text) text = "";
    switch (option->kind) {
    case STRING: *(const char **)field = text; return -1;
    case STOP: return add_stop(o, text);
    case TRUE: *(bool *)field = true; return -1;
    case INT:
    case UINT64:
    case FLOAT: return set_number(field, option, text);
    case HELP: print_help(); break;
    case VERSION: puts("norma " NORMA_VERSION); break;
    }
    return stdout_finish() ? EXIT_BAD_INPUT : 0;
}

/* ---- the command line ------------------------------------------------------------------- */

/* The option of a word: -x, -xVALUE, --name, --name=VALUE; a name may be cut if no other begins the same. Sets *value
 * to the word's value, or NULL. NULL: unknown. */
static const Option *find_option(const char *word, const char **value) {
    const bool is_long = word[1] == '-';
    const size_t n = is_long ? strcspn(word + 2, "=") : 0;
    const Option *found = NULL;
    int matches = 0;
    *value = is_long && word[2 + n] ? word + 3 + n : !is_long && word[2] ? word + 2 : NULL;
    for (const Option *o = OPTIONS; o < OPTIONS + N_OPTIONS; o++) {
        if (is_long ? strncmp(o->name, word + 2, n) : o->letter != word[1]) continue;
        found = o;
        matches++;
        if (is_long && !o->name[n]) return o;
    }
    return matches == 1 ? found : NULL;
}

/* Sets the options in argv, and the model; marks the options in given[N_OPTIONS]. */
static int set_options(Options *o, bool *given, char **argv) {
    int status = -1;
    while (status < 0 && *++argv) {
        const char *word = *argv, *value;
        if (*word != '-' || !word[1]) {
            if (o->model) return bad_usage("unexpected argument '%s'; text for the model follows -i", word);
            o->model = word;
            continue;
        }
        const Option *option = find_option(word, &value);
        if (!option) return bad_usage("unknown option '%s'; see --help", word);
        const char *argument = option->argument;
        if (value && !argument) return bad_usage("option '%s' takes no argument; see --help", word);
        if (!value && argument && *argument != '[' && !(value = *++argv))
            return bad_usage("option '%s' requires an argument; see --help", word);
        given[option - OPTIONS] = true;
        status = set_option(o, option, value);
    }
    return status;
}

/* Rejects options that the mode does not accept. For -y in mode generate, which llama2.c ignores, there is only a note.
 */
static int check_modes(const Mode *mode, const bool *given) {
    const int bit = 1 << (mode - MODE_TABLE);
    for (int i = 0; i < N_OPTIONS; i++) {
        const Option *option = &OPTIONS[i];
        if (!given[i] || option->modes & bit) continue;
        if (option->letter != 'y' || bit != GENERATE)
            return bad_usage("--%s works in %s, not in %s", option->name, mode_names(option->modes), mode->name);
        note("--%s works in %s; ignored", option->name, mode_names(option->modes));
    }
    return -1;
}

int options_parse(Options *o, char **argv) {
    bool given[N_OPTIONS] = {false};
    *o = (Options){
        .steps = -1, .lookup = -1, .batch = 512, .prompt_tokens = 256, .seconds = 10, .threads = usual_threads()};
    o->sampling = (Sampling){.temperature = 1.0f, .top_p = 0.9f, .repeat_penalty = 1.0f};
    int status = set_options(o, given, argv);
    if (status >= 0) return status;
    if (!(o->mode = find_mode(o->mode_name))) return EXIT_BAD_USAGE;
    if ((status = check_modes(o->mode, given)) >= 0) return status;
    if (o->kv && strcmp(o->kv, "f32") && strcmp(o->kv, "f16"))
        return bad_usage("--kv is '%s', expected f32 or f16", o->kv);
    if (o->think && strcmp(o->think, "on") && strcmp(o->think, "off"))
        return bad_usage("--think is '%s', expected on or off", o->think);
    if (o->profile && !profile_format(o->profile))
        return bad_usage("--profile is '%s', expected a name that ends in .csv or .html", o->profile);
    if (!!o->prompt + !!o->prompt_file + !!o->tokens + !!o->prompts > 1)
        return bad_usage("-i, -f, --tokens and --prompts are mutually exclusive");
    if (o->logprobs && !o->json) return bad_usage("--logprobs requires --json");
    if (o->parallel && !o->samples && !o->prompts)
        return bad_usage("--parallel requires --samples N or --prompts FILE");
    if (!o->sampling.seed) o->sampling.seed = (uint64_t)time(NULL);
    return -1;
}
