/* options.c: the command line.
 *
 * Owns the table of options, which defines the parser and --help. A test
 * compares --help with docs/options.md. An option is a row of the table and a
 * field of Options.
 * Tests: cli.
 */
#include "modes/options.h"
#include "base/distance.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/platform.h"
#include "base/process.h"
#include "lab/profile.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROW(name, ...) {#name, mode_##name, IN_##name, __VA_ARGS__},
static const Mode MODE_TABLE[] = {MODES(ROW)};
#undef ROW

/* More sets of modes, for the table of options. */
enum { ALL = (1 << N_MODES) - 1 };

/* The effect of an option. A CHOICE is one of the words in its usage. A HEADING
 * of --help is not an option. */
typedef enum {
    HEADING,
    STRING,
    CHOICE,
    STOP,
    TRUE,
    INT,
    FLOAT,
    UINT64,
    HELP,
    VERSION
} Kind;

typedef struct {
    /* "-x, --name" or "    --name", then " ARGUMENT", "[=OPTIONAL ARGUMENT]" or
     * nothing */
    const char *usage;
    Kind kind;
    int modes;        /* set of modes that accept it */
    size_t field;     /* offset in Options */
    double min, max;  /* of numbers */
    const char *help; /* lines of at most 56 characters */
} Option;

#define INTO(field)       offsetof(Options, field), 0, 0
#define RANGE(field, ...) offsetof(Options, field), __VA_ARGS__

static const Option OPTIONS[] = {
    {"-m, --mode MODE", STRING, ALL, INTO(mode_name), "one of the modes above"},
    {.usage = "Input of generate, chat, perplexity, tokenize and logits:"},
    {"-i, --prompt TEXT", STRING, READS_INPUT | IN_chat, INTO(prompt),
     "the text; chat: the first message"},
    {"-f, --file FILE", STRING, READS_INPUT | IN_chat, INTO(prompt_file),
     "read the text from a file (\"-\": standard input); chat: one\nmessage, after -i"},
    {"    --escape", TRUE, READS_INPUT | IN_chat, INTO(escape),
     "read \\n, \\t and \\\\ in -i, -y and --stop as in C"},
    {"    --tokens LIST", STRING, READS_INPUT, INTO(tokens),
     "token ids instead of text: 1,403,407"},
    {"    --prompts FILE", STRING, WRITES, INTO(prompts),
     "continue or answer each line of a file (\"-\": standard\ninput); if the first line is JSON, all are {\"prompt\": TEXT},\noptionally with \"seed\": N and \"n\": N, the number of\nsamples"},
    {"-z, --tokenizer FILE", STRING, ALL, INTO(tokenizer),
     "[the GGUF file's, the folder's tokenizer.json or\ntokenizer.model; else tokenizer.bin next to the model,\nelse in this folder]"},
    {.usage = "Generate and chat:"},
    {"-n, --steps N", INT, WRITES | IN_bench | IN_norms,
     RANGE(steps, 0, INT_MAX),
     "generate: max tokens, prompt included [256 after the\nprompt; 0: the whole context]; chat: max tokens of\nan answer [no limit]; bench, norms: decoded tokens [64]"},
    {"-t, --temperature T", FLOAT, WRITES, RANGE(sampling.temperature, 0, 1000),
     "[1.0; chat: 0.3; 0: always the most likely token]"},
    {"-p, --top-p P", FLOAT, WRITES, RANGE(sampling.top_p, 0, 1),
     "keep the most likely tokens that sum to P [0.9; 0 or 1:\noff]"},
    {"-k, --top-k K", INT, WRITES, RANGE(sampling.top_k, 0, INT_MAX),
     "keep the K most likely tokens [off]"},
    {"    --min-p P", FLOAT, WRITES, RANGE(sampling.min_p, 0, 1),
     "keep tokens at least P times as likely as the most likely\none [off]"},
    {"    --repeat-penalty R", FLOAT, WRITES,
     RANGE(sampling.repeat_penalty, 0.01, 100),
     "divide the logits of tokens that occurred [1: off; chat:\n1.1]"},
    {"    --repeat-last N", INT, WRITES,
     RANGE(sampling.repeat_last, 0, INT_MAX),
     "tokens that --repeat-penalty looks back on [64; 0: all]"},
    {"    --sampling llama2c", CHOICE, WRITES, INTO(sampling_of),
     "ignore the sampling that the model's files recommend"},
    {"-s, --seed N", UINT64, WRITES,
     RANGE(sampling.seed, 0, 0x1.fffffffffffffp63),
     "seed of the random numbers [0: from the clock]"},
    {"    --lookup N", INT, WRITES, RANGE(lookup, 0, MAX_LOOKUP),
     "draft up to N tokens by prompt lookup; the output is\nunchanged [15; with --profile: 0]"},
    {"    --stop TEXT", STOP, WRITES,
     .help = "end a text before TEXT; may be given several times"},
    {"    --logprobs N", INT, WRITES, RANGE(logprobs, 0, MAX_LOGPROBS),
     "with --json: log-probabilities of each token and of the N\nlikeliest ones"},
    {"    --samples N", INT, IN_generate, RANGE(samples, 1, INT_MAX),
     "generate: texts per prompt; seeds are derived from -s"},
    {"    --parallel N", INT, IN_generate, RANGE(parallel, 1, MAX_PARALLEL),
     "generate: texts that run together [16, fewer if memory is\nshort]"},
    {"    --no-echo", TRUE, IN_generate, INTO(no_echo),
     "generate: write only what follows the prompt"},
    {"-y, --system TEXT", STRING, IN_chat, INTO(system),
     "chat: the system prompt [the chat template's own, if any]"},
    {"    --template NAME|FILE", STRING, IN_chat, INTO(template),
     "chat: a Jinja file, or chatml, gemma, llama-2,\nllama-3, mistral, phi-3, zephyr [the model's chat\ntemplate]"},
    {"    --load FILE", STRING, IN_chat, INTO(load),
     "chat: go on with a conversation that /save has written"},
    {"    --think on|off", CHOICE, IN_chat, INTO(think),
     "chat: enable_thinking and thinking of the chat template"},
    {"    --verbose-prompt", TRUE, IN_chat, INTO(verbose_prompt),
     "chat: show the tokens of each prompt on stderr"},
    {.usage = "Measurements:"},
    {"    --profile[=FILE]", STRING, RUNS_PASSES, INTO(profile),
     "draw the time of norms and the rest on stderr; FILE.html\nis a page, FILE.csv a table, FILE.json for programs"},
    {"    --profile-against FILE.json", STRING, RUNS_PASSES,
     INTO(profile_against), "compare with such a file: before, after,\nratio"},
    {"    --dump FOLDER", STRING, IN_logits, INTO(dump),
     "logits: also write the input and output of every norm as\nNumPy files"},
    {"    --norm-sweep", TRUE, IN_perplexity, INTO(norm_sweep),
     "perplexity: nats per token with each norm swapped or\nremoved"},
    {"    --norm SPEC", STRING, ALL & ~IN_tokenize, INTO(norm),
     "run with other norms: KIND or [LAYERS.]SITE=KIND, ...;\nKIND " NORM_KIND_LIST(
         "or") "; SITE attn, mlp, q, k,\nattn_post, mlp_post or final; LAYERS n or n-m:\n--norm layer, --norm 0-2.attn=layer,final=rms"},
    {"    --prompt-tokens N", INT, IN_bench | IN_norms,
     RANGE(prompt_tokens, 1, INT_MAX),
     "bench, norms: length of the prompt [256]"},
    {"    --seconds N", FLOAT, IN_bench | IN_norms, RANGE(seconds, 0, 1e6),
     "bench, norms: max measuring time [10]"},
    {"    --json", TRUE,
     WRITES | IN_perplexity | IN_bench | IN_norms | IN_tokenize | IN_info,
     INTO(json),
     "JSON instead of a table; generate, chat: an object\nfor each text, one per line"},
    {.usage = "Logits and convert:"},
    {"-o, --output FILE", STRING, IN_logits | IN_convert, INTO(output),
     "logits: the file, float32 [tokens, vocabulary];\nconvert: the GGUF file (\"-\": standard output)"},
    {"-q, --type f32|f16|bf16|q8_0|q4_0", CHOICE, IN_convert, INTO(type),
     "convert: type of the weights"},
    {"    --center", TRUE, IN_convert, INTO(center),
     "convert: rewrite a model with LayerNorm as one with\nRMSNorm"},
    {"    --fold-norms", TRUE, IN_convert, INTO(fold_norms),
     "convert: multiply gamma into the weights that follow it"},
    {"    --pure", TRUE, IN_convert, INTO(pure),
     "convert: q4_0 also for embedding and output, which are\nq8_0 otherwise"},
    {.usage = "All modes that run a model:"},
    {"-j, --threads N", INT, RUNS_MODEL, RANGE(threads, 1, MAX_THREADS),
     "[OMP_NUM_THREADS, else the number of cores, or the quota\nof a container]"},
    {"-b, --batch N", INT, RUNS_MODEL, RANGE(batch, 1, 1 << 16),
     "prompt tokens per forward pass [512]"},
    {"-c, --context N", INT, RUNS_MODEL, RANGE(context, 1, INT_MAX),
     "max length of a sequence [the model's]"},
    {"    --kv f32|f16", CHOICE, RUNS_MODEL, INTO(kv),
     "type of the KV cache [f32 for float32 weights, else f16]"},
    {"    --plain", TRUE, WRITES | IN_perplexity | IN_logits, INTO(plain),
     "compute by the formulas of plain.c: slow, in double\nprecision; the logits of quantized weights differ,\nbecause activations are not rounded to int8"},
    {.usage = "Other options:"},
    {"    --no-history", TRUE, IN_chat, INTO(no_history),
     "chat: keep no messages for later sessions"},
    {"-v, --verbose", TRUE, RUNS_PASSES | IN_tokenize | IN_info, INTO(verbose),
     "with --profile: list every layer; generate: print\ntuning results; chat: size and time of an answer;\ntokenize: print ids with their pieces; info: list\nconfiguration, norms and tensors"},
    {"-h, --help", HELP, ALL, .help = "print this text"},
    {"    --version", VERSION, ALL, .help = "print the version"},
};

enum {
    N_OPTIONS = COUNT(OPTIONS),
    LONG = 4 /* index of "--name" in the usage */
};

/* The end of the name in the usage. */
static const char *name_end(const Option *option) {
    return option->usage + strcspn(option->usage + LONG, " [") + LONG;
}

/* "--name". Valid until the next call. */
static const char *name_of(const Option *option) {
    static char name[32];
    snprintf(name, sizeof name, "%.*s",
             (int)(name_end(option) - option->usage - LONG),
             option->usage + LONG);
    return name;
}

static void print_option(const Option *option) {
    enum { INDENT = 24 }; /* columns */
    int column = printf("  %s", option->usage);
    printf("%*s", column < INDENT ? INDENT - column : 2, "");
    for (const char *c = option->help; *c; c++)
        if (*c == '\n')
            printf("\n%*s", INDENT, "");
        else
            putchar(*c);
    putchar('\n');
}

static void print_help(void) {
    printf(
        "usage: %s [MODEL] [-m MODE] [options]\n\n"
        "MODEL is a llama2.c checkpoint (.bin v0, v1, v2), a GGUF file or a Hugging Face\n"
        "folder; without one, the bundled model runs.\n\nModes:\n",
        program_name());
    EACH(const Mode, mode, MODE_TABLE, N_MODES)
        printf("  %-21s %s\n", mode->name, mode->purpose);
    putchar('\n');
    EACH(const Option, option, OPTIONS, N_OPTIONS) {
        if (option->kind == HEADING)
            printf("\n%s\n", option->usage);
        else
            print_option(option);
    }
}

/* ---- modes -------------------------------------------------------------- */

/* The names of a set of modes: "a, b, c". Valid until the next call. */
static const char *mode_names(int modes) {
    static char names[256];
    size_t n = 0;
    EACH(const Mode, mode, MODE_TABLE, N_MODES)
        if (modes & mode->bit)
            n += snprintf(names + n, sizeof names - n, n ? ", %s" : "%s",
                          mode->name);
    return names;
}

static bool is_mode(const char *name) {
    EACH(const Mode, mode, MODE_TABLE, N_MODES)
        if (!strcmp(mode->name, name))
            return true;
    return false;
}

/* Reports an argument that is neither the model nor an option. */
static int report_argument(const char *word, const char *model) {
    if (is_mode(word))
        return bad_usage("unexpected argument '%s'; did you mean -m %s?", word,
                         word);
    if (is_mode(model) && !file_exists(model))
        return bad_usage("the model is '%s', and no such file exists; did you "
                         "mean %s -m %s?",
                         model, word, model);
    return bad_usage("unexpected argument '%s'; text for the model follows -i",
                     word);
}

static const Mode *find_mode(const char *name) {
    EACH(const Mode, mode, MODE_TABLE, N_MODES)
        if (!name || !strcmp(mode->name, name))
            return mode;
    const Mode *nearest = MODE_TABLE;
    EACH(const Mode, mode, MODE_TABLE, N_MODES)
        if (edit_distance(name, mode->name) <
            edit_distance(name, nearest->name))
            nearest = mode;
    if (strlen(name) < 24 && edit_distance(name, nearest->name) <= NEAR)
        fail("mode is '%s'; did you mean %s?", name, nearest->name);
    else
        fail("mode is '%s', expected one of %s; a model stands before the "
             "options",
             name, mode_names(ALL));
    return NULL;
}

/* ---- values; functions return -1 to continue, or the exit status -------- */

static int set_number(void *field, const Option *option, const char *text) {
    bool whole = option->kind != FLOAT;
    char *end;
    errno = 0;
    const unsigned long long integer = strtoull(text, &end, 10);
    double value = whole ? (double)integer : strtod(text, &end);
    bool is_number = end != text && !*end && !errno &&
                     (!whole || (*text >= '0' && *text <= '9'));
    const char *hint =
        whole || is_number ? "" : "; text for the model follows -i";
    if (strchr(text, ','))
        hint = "; decimals follow a point";
    if (!is_number || !(value >= option->min && value <= option->max))
        return bad_usage(
            whole ? "%s is '%s', expected a whole number from %.0f to %.0f%s"
                  : "%s is '%s', expected a number from %.10g to %.10g%s",
            name_of(option), text, option->min, option->max, hint);
    if (!whole)
        *(float *)field = (float)value;
    else if (option->kind == INT)
        *(int *)field = (int)value;
    else
        *(uint64_t *)field = integer;
    return -1;
}

static int set_choice(const char **field, const Option *option,
                      const char *text) {
    const char *const choices = name_end(option) + 1, *choice = choices;
    size_t n = strlen(text);
    while (strncmp(choice, text, n) || !strchr("|", choice[n])) {
        choice += strcspn(choice, "|");
        if (!*choice++)
            return bad_usage("%s is '%s', expected %s", name_of(option), text,
                             choices);
    }
    *field = text;
    return -1;
}

static int set_option(Options *o, const Option *option, const char *text) {
    void *const field = (char *)o + option->field;
    if (!text)
        text = "";
    switch (option->kind) {
    case STRING: *(const char **)field = text; return -1;
    case CHOICE: return set_choice(field, option, text);
    case STOP:
        if (!*text || o->n_stops == MAX_STOPS)
            return bad_usage(
                "--stop is '%s', expected at most %d texts, not empty", text,
                MAX_STOPS);
        o->stops[o->n_stops++] = text;
        return -1;
    case TRUE: *(bool *)field = true; return -1;
    case INT:
    case UINT64:
    case FLOAT: return set_number(field, option, text);
    case HEADING: break; /* not an option */
    case HELP: print_help(); break;
    case VERSION: puts("norma " NORMA_VERSION); break;
    }
    return stdout_finish() ? EXIT_BAD_INPUT : 0;
}

/* ---- the command line --------------------------------------------------- */

/* The option of a word: -x, -xVALUE, --name, --name=VALUE; a name may be cut if
 * no other begins the same. Sets *value to the word's value, or NULL. NULL:
 * unknown. */
static const Option *find_option(const char *word, const char **value) {
    bool is_long = word[1] == '-';
    size_t n = is_long ? strcspn(word, "=") : 2;
    const Option *found = NULL;
    int matches = 0;
    *value = word[n] ? word + n + is_long : NULL;
    EACH(const Option, o, OPTIONS, N_OPTIONS) {
        const char *usage = o->usage + (is_long ? LONG : 0);
        if (strncmp(usage, word, n))
            continue;
        if (strchr(", [", usage[n]))
            return o;
        found = o;
        matches++;
    }
    return matches == 1 ? found : NULL;
}

/* Appends ", --name" to the names, or the first name. */
static void add_candidate(char *names, size_t room, const Option *option) {
    const size_t n = strlen(names);
    snprintf(names + n, room - n, "%s%s", n ? ", " : "", name_of(option));
}

/* Reports a word that is no option: the names that begin with it, or those that
 * differ least from it. */
static int report_unknown(const char *word) {
    char name[32], names[256] = "";
    const size_t n = strcspn(word, "=");
    const bool is_long = word[1] == '-' && word[2];
    snprintf(name, sizeof name, "%.*s", (int)n, word);
    EACH(const Option, o, OPTIONS, N_OPTIONS)
        if (is_long && o->kind != HEADING && !strncmp(name_of(o), word, n))
            add_candidate(names, sizeof names, o);
    if (*names)
        return bad_usage("option '%s' may be %s; see --help", word, names);
    for (int near = 1; near <= min_int(NEAR, (int)n / 3) && is_long && !*names;
         near++)
        EACH(const Option, o, OPTIONS, N_OPTIONS)
            if (o->kind != HEADING && edit_distance(name, name_of(o)) == near)
                add_candidate(names, sizeof names, o);
    if (*names)
        return bad_usage("unknown option '%s'; did you mean %s? see --help",
                         word, names);
    return bad_usage("unknown option '%s'; see --help", word);
}

/* Whether the word is a long name with a single dash: "-output". */
static bool lacks_dash(const char *word) {
    EACH(const Option, o, OPTIONS, N_OPTIONS)
        if (o->kind != HEADING && word[2] && !strcmp(name_of(o) + 1, word))
            return true;
    return false;
}

/* The option that replaces what a model's files recommend: N_ADVICE rows from
 * --temperature on, in the order of ADVICE_TEMPERATURE and so on. */
static const Option *advised(int i) {
    const char *unused;
    return find_option("--temperature", &unused) + i;
}

/* Reads \n, \t and \\ in place. Other characters after a backslash stay. */
static void unescape(char *text) {
    char *to = text;
    for (const char *s = text; *s; s++) {
        char next = *s == '\\' ? s[1] : '\0';
        bool known = next == 'n' || next == 't' || next == '\\';
        if (next == 'n')
            *to++ = '\n';
        else if (next == 't')
            *to++ = '\t';
        else
            *to++ = *s;
        s += known;
    }
    *to = '\0';
}

/* Reads escapes in the texts of the command line, or says how to. */
static void read_escapes(const Options *o) {
    const char *texts[2 + MAX_STOPS] = {o->prompt, o->system};
    bool has_escape = false;
    memcpy(texts + 2, o->stops, sizeof o->stops);
    EACH(const char *, text, texts, COUNT(texts)) {
        if (!*text)
            continue;
        has_escape |= strstr(*text, "\\n") != NULL;
        if (o->escape)
            unescape((char *)(uintptr_t)*text); /* of argv */
    }
    if (has_escape && !o->escape)
        note("\\n in a text stays as typed; --escape makes it a newline");
}

/* Finds the mode, and rejects options that it or other options exclude. */
static int check_options(Options *o, const bool *given) {
    o->mode = find_mode(o->mode_name);
    if (!o->mode)
        return EXIT_BAD_USAGE;
    if (o->model && is_mode(o->model) && !file_exists(o->model))
        return bad_usage(
            "the model is '%s', and no such file exists; did you mean -m %s?",
            o->model, o->model);
    EACH(const Option, option, OPTIONS, N_OPTIONS) {
        if (!given[option - OPTIONS] || option->modes & o->mode->bit)
            continue;
        /* llama2.c ignores -y in mode generate */
        if (option->usage[1] != 'y' || o->mode->bit != IN_generate)
            return bad_usage("%s works in %s, not in %s", name_of(option),
                             mode_names(option->modes), o->mode->name);
        note("%s works in %s; ignored", name_of(option),
             mode_names(option->modes));
    }
    if (o->profile && !profile_format(o->profile))
        return bad_usage(
            "--profile is '%s', expected a name that ends in .csv, .html or .json",
            o->profile);
    if (o->profile_against && !has_ending(o->profile_against, ".json"))
        return bad_usage(
            "--profile-against is '%s', expected a file of --profile=FILE.json",
            o->profile_against);
    if (o->profile_against && !o->profile)
        o->profile = "";
    if (o->plain && (o->profile || o->dump || (o->kv && o->kv[1] == '1')))
        return bad_usage("--plain excludes --profile, --dump and --kv f16");
    bool adds_file = o->mode->bit & IN_chat && o->prompt && o->prompt_file;
    if (!!o->prompt + !!o->prompt_file + !!o->tokens + !!o->prompts >
        1 + adds_file)
        return bad_usage("-i, -f, --tokens and --prompts are mutually "
                         "exclusive; with -m chat, -f follows -i");
    read_escapes(o);
    if (o->load && o->prompts)
        return bad_usage("--load and --prompts are mutually exclusive");
    if (o->output && !strcmp(o->output, "-"))
        o->output = "/dev/stdout";
    if (o->threads > MAX_THREADS)
        return bad_usage("OMP_NUM_THREADS is %d, expected at most %d",
                         o->threads, MAX_THREADS);
    if (o->logprobs && !o->json)
        return bad_usage("--logprobs requires --json");
    if (!o->sampling.seed)
        o->sampling.seed = time(NULL);
    if (o->plain) { /* one thread, one token after the other */
        o->threads = o->batch = 1;
        o->kv = "f32";
        if (o->lookup < 0)
            o->lookup = 0;
    }
    return -1;
}

/* Whether the option's value is a text or its file: a second one would replace
 * it. Of other options the last value counts. */
static bool is_text(const Option *option) {
    static const size_t fields[] = {
        offsetof(Options, prompt), offsetof(Options, prompt_file),
        offsetof(Options, tokens), offsetof(Options, prompts),
        offsetof(Options, system)};
    EACH(const size_t, field, fields, COUNT(fields))
        if (option->kind == STRING && option->field == *field)
            return true;
    return false;
}

int options_parse(Options *o, char **argv) {
    bool given[N_OPTIONS] = {false};
    *o = (Options){.steps = -1,
                   .lookup = -1,
                   .batch = 512,
                   .prompt_tokens = 256,
                   .seconds = 10,
                   .threads = usual_threads(),
                   .sampling = {.temperature = 1.0f,
                                .top_p = 0.9f,
                                .repeat_penalty = 1.0f,
                                .repeat_last = 64}};
    while (*++argv) {
        const char *word = *argv, *value;
        if (*word != '-' || !word[1]) {
            if (o->model)
                return report_argument(word, o->model);
            o->model = word;
            continue;
        }
        const Option *option = find_option(word, &value);
        if (lacks_dash(word))
            return bad_usage("unknown option '%s'; did you mean -%s?", word,
                             word);
        if (!option)
            return report_unknown(word);
        char argument = *name_end(option);
        if (value && !argument)
            return bad_usage("option '%s' takes no argument; see --help", word);
        if (!value && argument == ' ')
            value = *++argv;
        if (!value && argument == ' ')
            return bad_usage("option '%s' requires an argument; see --help",
                             word);
        if (given[option - OPTIONS] && is_text(option))
            return bad_usage(
                "%s is given twice; one text or file is accepted: quote a text with spaces",
                name_of(option));
        given[option - OPTIONS] = true;
        o->own_sampling |= option >= advised(0) && option < advised(N_ADVICE);
        int status = set_option(o, option, value);
        if (status >= 0)
            return status;
    }
    return check_options(o, given);
}

/* ---- options that a chat changes ---------------------------------------- */

static bool can_be_set(const Option *option) {
    static const char *const names[] = {
        "--steps",          "--temperature", "--top-p", "--top-k",  "--min-p",
        "--repeat-penalty", "--repeat-last", "--seed",  "--system", "--think"};
    for (size_t i = 0; i < COUNT(names); i++)
        if (option->kind != HEADING && !strcmp(name_of(option), names[i]))
            return true;
    return false;
}

/* Writes the names of these options that begin so, each with what ends it. */
static void add_names(Buffer *to, const char *begin, const char *end,
                      size_t n_end) {
    EACH(const Option, option, OPTIONS, N_OPTIONS) {
        if (!can_be_set(option))
            continue;
        const char *name = name_of(option) + strlen("--");
        if (strncmp(name, begin, strlen(begin)))
            continue;
        buffer_append(to, name, strlen(name));
        buffer_append(to, end, n_end);
    }
}

/* The option that a text begins with, and *value, its value or NULL. NULL: none
 * that can be set. */
static const Option *option_set(const char *text, const char **value) {
    char word[64];
    const char *name = text + strspn(text, "-");
    const size_t n = strcspn(name, " =");
    snprintf(word, sizeof word, "%s%.*s", n == 1 ? "-" : "--", (int)n, name);
    const Option *option = n ? find_option(word, value) : NULL;
    *value = name + n + strspn(name + n, " =");
    if (!**value)
        *value = NULL;
    return option && can_be_set(option) ? option : NULL;
}

/* The option that can be set and has about this name; NULL: none. */
static const Option *nearest_set(const char *text) {
    char name[24];
    const Option *nearest = NULL;
    int least = NEAR + 1;
    text += strspn(text, "-");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, " ="), text);
    EACH(const Option, option, OPTIONS, N_OPTIONS) {
        if (!can_be_set(option))
            continue;
        const int distance =
            edit_distance(name, name_of(option) + strlen("--"));
        if (distance < least) {
            least = distance;
            nearest = option;
        }
    }
    return nearest;
}

int options_set(Options *o, const char *text) {
    Options changed = *o;
    const char *value;
    const Option *option = option_set(text, &value);
    if (!option) {
        Buffer names = {0};
        const Option *nearest = nearest_set(text);
        add_names(&names, "", ", ", 2);
        if (nearest)
            fail("/set: '%.40s'; did you mean %s?", text,
                 name_of(nearest) + strlen("--"));
        else
            fail("/set: '%.40s', expected a value after one of %.*s", text,
                 names.n ? (int)names.n - 2 : 0, names.bytes);
        free(names.bytes);
        return -1;
    }
    if (!value)
        return fail("/set: %s lacks a value:%s", name_of(option),
                    name_end(option));
    if (set_option(&changed, option, value) >= 0)
        return -1;
    if (option->kind == UINT64 && !changed.sampling.seed)
        changed.sampling.seed = time(NULL);
    *o = changed;
    return 0;
}

void options_show(const Options *o) {
    EACH(const Option, option, OPTIONS, N_OPTIONS) {
        if (!can_be_set(option))
            continue;
        const void *field = (const char *)o + option->field;
        fprintf(stderr, "%-15s ", name_of(option) + strlen("--"));
        if (option->kind == FLOAT)
            fprintf(stderr, "%.7g\n", *(const float *)field);
        else if (option->kind == UINT64)
            fprintf(stderr, "%llu\n",
                    (unsigned long long)*(const uint64_t *)field);
        else if (option->kind == INT && *(const int *)field >= 0)
            fprintf(stderr, "%d\n", *(const int *)field);
        else if (option->kind != INT && *(const char *const *)field)
            fprintf(stderr, "%s\n", *(const char *const *)field);
        else
            fputs("not set\n", stderr);
    }
}

size_t options_complete(const char *text, Buffer *candidates) {
    const char *value, *name = text + strspn(text, "-");
    const Option *option = option_set(text, &value);
    if (!strchr(name, ' ')) {
        add_names(candidates, name, " ", 2); /* with the zero byte */
        return strlen(name);
    }
    if (!option || option->kind != CHOICE)
        return 0;
    const char *begin = value ? value : "", *choice = name_end(option) + 1;
    while (*choice) {
        const size_t n = strcspn(choice, "|");
        if (!strncmp(choice, begin, strlen(begin))) {
            buffer_append(candidates, choice, n);
            buffer_append(candidates, "", 1);
        }
        choice += n + (choice[n] == '|');
    }
    return strlen(begin);
}

void options_advise(Options *o, const Tokenizer *t) {
    char taken[512] = "", text[32];
    size_t n = 0;
    if (o->own_sampling || o->sampling_of || !(o->mode->bit & WRITES))
        return;
    print_failures_as_notes(true);
    for (int i = 0; i < N_ADVICE; i++) {
        snprintf(text, sizeof text, "%.7g", t->advice[i].value);
        if (t->advice[i].given && set_option(o, advised(i), text) < 0)
            n += snprintf(taken + n, sizeof taken - n, " %s %s",
                          name_of(advised(i)), text);
    }
    print_failures_as_notes(false);
    if (*t->ignored)
        n += snprintf(taken + n, sizeof taken - n, " (ignored:%s)", t->ignored);
    if (n)
        note("the model's own sampling:%s; --sampling llama2c turns it off",
             taken);
    else if (o->mode->bit & IN_chat) { /* measured: docs/notebook.md */
        o->sampling.temperature = 0.3f;
        o->sampling.repeat_penalty = 1.1f;
    }
}
