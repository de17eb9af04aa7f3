/* options.c: the command line.
 *
 * Owns the table of options, from which getopt's tables and --help (and by a test the list of docs/options.md) come: an
 * option is a row there and a field of Options.
 */
#include "modes/options.h"
#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "lab/profile.h"
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What an option does. The kinds up to UINT64 store its value, as this type, in a field of Options. */
typedef enum { STRING, TRUE, INT, FLOAT, UINT64, HELP, VERSION } Kind;

typedef struct {
    char letter; /* 0: none */
    Kind kind;
    const char *name;     /* after "--" */
    const char *argument; /* as --help shows it; "[=...]": it may be left out; NULL: there is none */
    size_t field;         /* where in Options the value is stored */
    double least, most;   /* of INT and FLOAT */
    const char *help;     /* in lines; print_option breaks what does not fit */
} Option;

#define INTO(field)             offsetof(Options, field), 0, 0
#define RANGE(field, ...)       offsetof(Options, field), __VA_ARGS__
#define DEFAULT_NAME(name, ...) #name " (default)"
#define NAME(name, ...)         ", " #name

static const Option OPTIONS[] = {
    {'m', STRING, "mode", "MODE", INTO(mode), MODES(DEFAULT_NAME, NAME)},
    {'i', STRING, "prompt", "TEXT", INTO(prompt), "the prompt"},
    {'f', STRING, "file", "FILE", INTO(prompt_file),
     "read the prompt (perplexity: the text) from a file\n(\"-\": standard input)"},
    {0, STRING, "tokens", "LIST", INTO(tokens), "token ids instead of text, exactly as given: 1,403,407"},
    {0, STRING, "prompts", "FILE", INTO(prompts),
     "generate: a text for each line (\"-\": standard input); in a .jsonl file a line is {\"prompt\": TEXT} and may "
     "have \"seed\": N and \"n\": N, its samples"},
    {0, INT, "samples", "N", RANGE(samples, 1, INT_MAX), "generate: texts for a prompt; the first has seed -s"},
    {0, INT, "parallel", "N", RANGE(parallel, 1, 4096), "texts that run at once [16, fewer if memory is short]"},
    {'n', INT, "steps", "N", RANGE(steps, 0, INT_MAX),
     "generate: positions to run, prompt included [256;\n0: the whole context]; chat: [the whole context];\n"
     "bench: tokens to generate [64]"},
    {'t', FLOAT, "temperature", "T", RANGE(sampling.temperature, 0, 1000), "[1.0; 0: always the likeliest token]"},
    {'p', FLOAT, "top-p", "P", RANGE(sampling.top_p, 0, 1), "the likeliest tokens that sum to P [0.9; 0 or 1: off]"},
    {'k', INT, "top-k", "K", RANGE(sampling.top_k, 0, INT_MAX), "the K likeliest tokens [off]"},
    {0, FLOAT, "min-p", "P", RANGE(sampling.min_p, 0, 1), "tokens at least P times as likely as the likeliest [off]"},
    {0, FLOAT, "repeat-penalty", "R", RANGE(sampling.repeat_penalty, 0.01, 100),
     "divides the logits of the last 64 tokens [1: off]"},
    {'s', UINT64, "seed", "N", INTO(sampling.seed), "[0: from the clock]"},
    {0, INT, "lookup", "N", RANGE(lookup, 0, MAX_LOOKUP),
     "generate, chat: drafts up to N tokens by prompt lookup; the text is unchanged [15; with --profile: 0]"},
    {0, STRING, "draft", "MODEL", INTO(draft),
     "generate, chat: a smaller model with the same vocabulary drafts tokens (not for --samples, --prompts, --json)"},
    {'z', STRING, "tokenizer", "FILE", INTO(tokenizer),
     "[a GGUF file's own, a folder's tokenizer.json; else tokenizer.bin beside the model, else here]"},
    {'y', STRING, "system", "TEXT", INTO(system), "system prompt for chat [the chat template's own, if any]"},
    {0, STRING, "template", "FAMILY", INTO(template), "the format of chat [the model's chat template's]"},
    {'o', STRING, "output", "FILE", INTO(output),
     "logits: where they go, float32 [tokens, vocabulary];\nconvert: the GGUF file"},
    {'q', STRING, "type", "TYPE", INTO(type), "convert: type of the weights: f32 f16 bf16 q8_0 q4_0"},
    {'j', INT, "threads", "N", RANGE(threads, 1, 1024), "[OMP_NUM_THREADS, else the cores]"},
    {'b', INT, "batch", "N", RANGE(batch, 1, 1 << 16), "tokens of a prompt to run at once [512]"},
    {'c', INT, "context", "N", RANGE(context, 1, INT_MAX), "longest sequence [the model's]"},
    {0, STRING, "kv", "f32|f16", INTO(kv), "type of the KV cache [f32 for float32 weights, else f16]"},
    {0, INT, "prompt-tokens", "N", RANGE(prompt_tokens, 1, INT_MAX), "bench: length of the prompt [256]"},
    {0, FLOAT, "seconds", "N", RANGE(seconds, 0, 1e6), "bench, norms: longest time to measure [10]"},
    {0, TRUE, "fold-norms", NULL, INTO(fold_norms), "convert: multiply gamma into the weights behind it"},
    {0, TRUE, "json", NULL, INTO(json),
     "bench, norms: machine-readable; generate: an\nobject for each text, on a line of its own"},
    {0, STRING, "profile", "[=FILE]", INTO(profile),
     "the time of every layer and site, on stderr; FILE.html draws it, FILE.csv and, for trace viewers, "
     "FILE.json\nhold more"},
    {0, STRING, "norm", "SPEC", INTO(norm),
     "run with other norms: KIND or [LAYERS.]SITE=KIND, ...; KIND " NORM_KIND_LIST(
         "or") "; SITE attn, mlp, q, k,\nattn_post, mlp_post or final; LAYERS n or n-m:\n--norm layer, --norm "
               "0-2.attn=layer,final=rms"},
    {'v', TRUE, "verbose", NULL, INTO(verbose), "tokenize: ids with their pieces; generate:\nhow tokens ran"},
    {'h', HELP, "help", NULL, 0, 0, 0, "this text"},
    {0, VERSION, "version", NULL, 0, 0, 0, "the version"},
};

enum { N_OPTIONS = sizeof OPTIONS / sizeof *OPTIONS };

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
    puts("run [MODEL] [-m MODE] [options]   MODEL: a llama2.c checkpoint (.bin v0, v1, v2),\n"
         "                                  a GGUF file or a Hugging Face folder; without\n"
         "                                  one: the bundled model\n");
    for (int i = 0; i < N_OPTIONS; i++) print_option(&OPTIONS[i]);
}

/* ---- values; functions return the exit status if the program ends here, else -1 --------------- */

static int set_whole(void *field, const Option *option, const char *name, const char *text) {
    const uint64_t least = (uint64_t)option->least, most = option->kind == INT ? (uint64_t)option->most : UINT64_MAX;
    char *end;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || value < least || value > most)
        return bad_usage("%s is '%s', expected a whole number from %llu to %llu", name, text, (unsigned long long)least,
                         (unsigned long long)most);
    if (option->kind == INT)
        *(int *)field = (int)value;
    else
        *(uint64_t *)field = value;
    return -1;
}

static int set_float(float *value, const Option *option, const char *name, const char *text) {
    char *end;
    *value = strtof(text, &end);
    if (end != text && !*end && *value >= (float)option->least && *value <= (float)option->most) return -1;
    return bad_usage("%s is '%s', expected a number from %g to %g", name, text, option->least, option->most);
}

static int set_option(Options *o, const Option *option, const char *text) {
    void *const field = (char *)o + option->field;
    char name[32] = {'-', option->letter};
    if (!option->letter) snprintf(name, sizeof name, "--%s", option->name);
    switch (option->kind) {
    case STRING: *(const char **)field = text ? text : TABLE_ONLY; return -1;
    case TRUE: *(bool *)field = true; return -1;
    case INT:
    case UINT64: return set_whole(field, option, name, text);
    case FLOAT: return set_float(field, option, name, text);
    case HELP: print_help(); break;
    case VERSION: puts("norma " NORMA_VERSION); break;
    }
    return stdout_finish() ? 1 : 0;
}

/* ---- the command line ------------------------------------------------------------------- */

/* What getopt returns for an option: its letter, else a number beyond all letters. */
static int code_of(int i) { return OPTIONS[i].letter ? OPTIONS[i].letter : 256 + i; }

/* Letters of the longer word, a[n] or b, beside the beginning and the end that both have. */
static size_t difference(const char *a, size_t n, const char *b) {
    const size_t m = strlen(b), least = n < m ? n : m;
    size_t begin = 0, end = 0;
    while (begin < least && a[begin] == b[begin]) begin++;
    while (begin + end < least && a[n - 1 - end] == b[m - 1 - end]) end++;
    return n + m - least - begin - end;
}

/* Says what getopt did not take at `word`: an option without its argument (code ':'), one with an argument that it does
 * not have, or none (or several, being cut short); then it names one that begins so, or the one most like it. */
static int refuse_option(int code, const char *word) {
    const char *nearest = NULL;
    if (code == ':') return bad_usage("option '%s' requires an argument; see --help", word);
    for (int i = 0; i < N_OPTIONS; i++)
        if (optopt == code_of(i)) return bad_usage("option '%s' takes no argument; see --help", word);
    if (optopt) return bad_usage("no option is named '-%c'; see --help", optopt);
    const size_t n = strcspn(word, "=") - 2;                    /* it begins with "--" */
    for (size_t i = 0, least = n / 3 + 2; i < N_OPTIONS; i++) { /* who differs more is another word */
        const char *name = OPTIONS[i].name;
        const size_t differs = strncmp(name, word + 2, n) ? difference(word + 2, n, name) : 0;
        if (differs >= least) continue;
        nearest = name;
        least = differs;
    }
    return bad_usage("no option is named '%.*s'; %s%s%ssee --help", (int)n + 2, word, nearest ? "did you mean --" : "",
                     nearest ? nearest : "", nearest ? "? " : "");
}

/* Sets all options of argv, and leaves its other arguments at its end, from optind on. */
static int set_options(Options *o, int argc, char **argv) {
    struct option names[N_OPTIONS + 1] = {{0}};
    char letters[2 * N_OPTIONS + 2] = ":", *end = letters + 1; /* ":": getopt tells the errors apart */
    for (int i = 0; i < N_OPTIONS; i++) {
        const char *argument = OPTIONS[i].argument;
        const int has = !argument ? no_argument : *argument == '[' ? optional_argument : required_argument;
        names[i] = (struct option){OPTIONS[i].name, has, NULL, code_of(i)};
        if (OPTIONS[i].letter) *end++ = OPTIONS[i].letter;
        if (OPTIONS[i].letter && argument) *end++ = ':';
    }
    *end = '\0';
    int status = -1;
    opterr = 0;
    for (int code; status < 0 && (code = getopt_long(argc, argv, letters, names, NULL)) != -1;) {
        int i = 0;
        while (i < N_OPTIONS && code_of(i) != code) i++;
        status = i < N_OPTIONS ? set_option(o, &OPTIONS[i], optarg) : refuse_option(code, argv[optind - 1]);
    }
    return status;
}

int options_parse(Options *o, int argc, char **argv) {
    *o = (Options){
        .steps = -1, .lookup = -1, .batch = 512, .prompt_tokens = 256, .seconds = 10, .threads = usual_threads()};
    o->sampling = (Sampling){.temperature = 1.0f, .top_p = 0.9f, .repeat_penalty = 1.0f};
    const int status = set_options(o, argc, argv);
    if (status >= 0) return status;
    if (optind < argc) o->model = argv[optind++];
    if (optind < argc)
        return bad_usage("'%s' is one argument too many; text for the model goes after -i", argv[optind]);
    if (o->kv && strcmp(o->kv, "f32") && strcmp(o->kv, "f16"))
        return bad_usage("--kv is '%s', expected f32 or f16", o->kv);
    if (o->profile && !profile_format(o->profile))
        return bad_usage("--profile is '%s', expected a name that ends in .csv, .html or .json", o->profile);
    if (!!o->prompt + !!o->prompt_file + !!o->tokens + !!o->prompts > 1)
        return bad_usage("-i, -f, --tokens and --prompts exclude each other");
    if ((o->samples || o->prompts || o->parallel) && o->mode && strcmp(o->mode, "generate"))
        return bad_usage("--samples, --prompts and --parallel are for mode generate, not %s", o->mode);
    if (o->draft && o->mode && strcmp(o->mode, "generate") && strcmp(o->mode, "chat"))
        return bad_usage("--draft is for modes generate and chat, not %s", o->mode);
    if (o->parallel && !o->samples && !o->prompts)
        return bad_usage("--parallel needs several texts: --samples N or --prompts FILE");
    if (!o->sampling.seed) o->sampling.seed = (uint64_t)time(NULL);
    return -1;
}
