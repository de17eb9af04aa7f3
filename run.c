/* run.c: the program.
 *
 * Owns main, the command line, and the story of a run: read the options, open
 * the model, do what the mode says, close everything. The short modes (generate,
 * tokenize, logits) are here; those with a life of their own have files.
 */
#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "formats/build.h"
#include "formats/gguf.h"
#include "formats/gguf_tokenizer.h"
#include "formats/open.h"
#include "formats/pack.h"
#include "formats/tokenizer_json.h"
#include "kv_cache.h"
#include "lab/norm_spec.h"
#include "lab/profile.h"
#include "model.h"
#include "modes/common.h"
#include "modes/options.h"
#include "sampler.h"
#include "tokenizer.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <omp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- the command line ---------------------------------------------------------------- */

static const char HELP[] = "run [MODEL] [-m MODE] [options]   MODEL: a llama2.c checkpoint (.bin v0, v1, v2),\n"
                           "                                  a GGUF file or a Hugging Face folder; without\n"
                           "                                  one: the bundled model\n"
                           "\n"
                           "  -m, --mode MODE       generate (default), chat, perplexity, bench, norms,\n"
                           "                        tokenize, logits, info, convert\n"
                           "  -i, --prompt TEXT     the prompt\n"
                           "  -f, --file FILE       read the prompt (perplexity: the text) from a file\n"
                           "                        (\"-\": standard input)\n"
                           "      --tokens LIST     token ids instead of text, exactly as given: 1,403,407\n"
                           "  -n, --steps N         generate: positions to run, prompt included [256;\n"
                           "                        0: the whole context]; chat: [the whole context];\n"
                           "                        bench: tokens to generate [64]\n"
                           "  -t, --temperature T   [1.0; 0: always the likeliest token]\n"
                           "  -p, --top-p P         the likeliest tokens that sum to P [0.9; 0 or 1: off]\n"
                           "  -k, --top-k K         the K likeliest tokens [off]\n"
                           "      --min-p P         tokens at least P times as likely as the likeliest [off]\n"
                           "      --repeat-penalty R  divides the logits of the last 64 tokens [1: off]\n"
                           "  -s, --seed N          [0: from the clock]\n"
                           "  -z, --tokenizer FILE  [a GGUF file's own, a folder's tokenizer.json; else\n"
                           "                        tokenizer.bin beside the model, else here]\n"
                           "  -y, --system TEXT     system prompt for chat\n"
                           "  -o, --output FILE     logits: where they go, float32 [tokens, vocabulary];\n"
                           "                        convert: the GGUF file\n"
                           "  -q, --type TYPE       convert: type of the weights: f32 f16 bf16 q8_0 q4_0\n"
                           "  -j, --threads N       [OMP_NUM_THREADS, else the cores]\n"
                           "  -b, --batch N         tokens of a prompt to run at once [512]\n"
                           "  -c, --context N       longest sequence [the model's]\n"
                           "      --kv f32|f16      type of the KV cache [f32 for float32 weights, else f16]\n"
                           "      --prompt-tokens N bench: length of the prompt [256]\n"
                           "      --json            bench, norms: machine-readable\n"
                           "      --profile[=FILE]  the time of every layer and site, on stderr; FILE.csv, or\n"
                           "                        FILE.json for trace viewers, holds more\n"
                           "      --norm SPEC       run with other norms: KIND or [LAYERS.]SITE=KIND, ...;\n"
                           "                        KIND rms or layer, SITE attn, mlp, q, k or final, LAYERS\n"
                           "                        n or n-m: --norm layer, --norm 0-2.attn=layer,final=rms\n"
                           "  -v, --verbose         tokenize: ids with their pieces\n"
                           "  -h, --help            this text\n"
                           "      --version         the version\n";

enum {
    OPT_TOKENS = 256,
    OPT_MIN_P,
    OPT_REPEAT_PENALTY,
    OPT_KV,
    OPT_PROMPT_TOKENS,
    OPT_JSON,
    OPT_PROFILE,
    OPT_NORM,
    OPT_VERSION
};

static const struct option LONG_OPTIONS[] = {
    {"mode", required_argument, NULL, 'm'},
    {"prompt", required_argument, NULL, 'i'},
    {"file", required_argument, NULL, 'f'},
    {"tokens", required_argument, NULL, OPT_TOKENS},
    {"steps", required_argument, NULL, 'n'},
    {"temperature", required_argument, NULL, 't'},
    {"top-p", required_argument, NULL, 'p'},
    {"top-k", required_argument, NULL, 'k'},
    {"min-p", required_argument, NULL, OPT_MIN_P},
    {"repeat-penalty", required_argument, NULL, OPT_REPEAT_PENALTY},
    {"seed", required_argument, NULL, 's'},
    {"tokenizer", required_argument, NULL, 'z'},
    {"system", required_argument, NULL, 'y'},
    {"output", required_argument, NULL, 'o'},
    {"type", required_argument, NULL, 'q'},
    {"threads", required_argument, NULL, 'j'},
    {"batch", required_argument, NULL, 'b'},
    {"context", required_argument, NULL, 'c'},
    {"kv", required_argument, NULL, OPT_KV},
    {"prompt-tokens", required_argument, NULL, OPT_PROMPT_TOKENS},
    {"json", no_argument, NULL, OPT_JSON},
    {"profile", optional_argument, NULL, OPT_PROFILE},
    {"norm", required_argument, NULL, OPT_NORM},
    {"verbose", no_argument, NULL, 'v'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, OPT_VERSION},
    {0},
};

/* The value of a whole number option; out of range, *bad is set. */
static uint64_t whole(const char *name, uint64_t least, uint64_t most, bool *bad) {
    char *end;
    errno = 0;
    const unsigned long long value = strtoull(optarg, &end, 10);
    if (*optarg >= '0' && *optarg <= '9' && !*end && !errno && value >= least && value <= most) return value;
    fail("%s is '%s', expected a whole number from %llu to %llu", name, optarg, (unsigned long long)least,
         (unsigned long long)most);
    *bad = true;
    return 0;
}

/* The value of a real number option in [least, most]. */
static float real(const char *name, float least, float most, bool *bad) {
    char *end;
    const float value = strtof(optarg, &end);
    if (end != optarg && !*end && value >= least && value <= most) return value;
    fail("%s is '%s', expected a number from %g to %g", name, optarg, (double)least, (double)most);
    *bad = true;
    return 0;
}

/* For -h and --version; returns the exit status. */
static int print(const char *text) {
    return fputs(text, stdout) < 0 || fflush(stdout) ? (fail("cannot write the output"), 1) : 0;
}

/* Exit status if the program ends here (help, mistakes), else -1. */
static int parse_options(Options *o, int argc, char **argv) {
    bool bad = false;
    *o = (Options){.mode = "generate", .steps = -1, .batch = 512, .prompt_tokens = 256, .kv = -1};
    o->sampling = (Sampling){.temperature = 1.0f, .top_p = 0.9f, .repeat_penalty = 1.0f};
    o->threads = omp_get_max_threads();
    for (int c; !bad && (c = getopt_long(argc, argv, "m:i:f:n:t:p:k:s:z:y:o:q:j:b:c:vh", LONG_OPTIONS, NULL)) != -1;) {
        switch (c) {
        case 'm': o->mode = optarg; break;
        case 'i': o->prompt = optarg; break;
        case 'f': o->prompt_file = optarg; break;
        case OPT_TOKENS: o->tokens = optarg; break;
        case 'n': o->steps = (int)whole("-n", 0, INT_MAX, &bad); break;
        case 't': o->sampling.temperature = real("-t", 0, 1000, &bad); break;
        case 'p': o->sampling.top_p = real("-p", 0, 1, &bad); break;
        case 'k': o->sampling.top_k = (int)whole("-k", 0, INT_MAX, &bad); break;
        case OPT_MIN_P: o->sampling.min_p = real("--min-p", 0, 1, &bad); break;
        case OPT_REPEAT_PENALTY: o->sampling.repeat_penalty = real("--repeat-penalty", 0.01f, 100, &bad); break;
        case 's': o->sampling.seed = whole("-s", 0, UINT64_MAX, &bad); break;
        case 'z': o->tokenizer = optarg; break;
        case 'y': o->system = optarg; break;
        case 'o': o->output = optarg; break;
        case 'q': o->type = optarg; break;
        case 'j': o->threads = (int)whole("-j", 1, 1024, &bad); break;
        case 'b': o->batch = (int)whole("-b", 1, 1 << 16, &bad); break;
        case 'c': o->context = (int)whole("-c", 1, INT_MAX, &bad); break;
        case OPT_KV:
            o->kv = !strcmp(optarg, "f32") ? KV_F32 : KV_F16;
            if (strcmp(optarg, "f32") && strcmp(optarg, "f16")) {
                fail("--kv is '%s', expected f32 or f16", optarg);
                bad = true;
            }
            break;
        case OPT_PROMPT_TOKENS: o->prompt_tokens = (int)whole("--prompt-tokens", 1, INT_MAX, &bad); break;
        case OPT_JSON: o->json = true; break;
        case OPT_PROFILE:
            o->profile = true;
            o->profile_file = optarg;
            if (!profile_format(optarg)) {
                fail("--profile is '%s', expected a name that ends in .csv or .json", optarg);
                bad = true;
            }
            break;
        case OPT_NORM: o->norm = optarg; break;
        case 'v': o->verbose = true; break;
        case 'h': return print(HELP);
        case OPT_VERSION: return print("norma " NORMA_VERSION "\n");
        default: return 2; /* getopt has said what is wrong */
        }
    }
    if (bad) return 2;
    if (optind < argc) o->model = argv[optind++];
    if (optind < argc) {
        fail("'%s' is one argument too many; text for the model goes after -i", argv[optind]);
        return 2;
    }
    if (!!o->prompt + !!o->prompt_file + !!o->tokens > 1) {
        fail("-i, -f and --tokens exclude each other");
        return 2;
    }
    if (!o->sampling.seed) o->sampling.seed = (uint64_t)time(NULL);
    return -1;
}

/* ---- main -------------------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    int (*run)(Run *run);
    bool text;    /* works on text: needs a tokenizer, or --tokens */
    bool session; /* runs the model */
    bool alone;   /* does something without a model, too */
} Mode;

static const Mode MODES[] = {
    {"generate", mode_generate, true, true, false},     {"chat", mode_chat, true, true, false},
    {"perplexity", mode_perplexity, true, true, false}, {"bench", mode_bench, false, true, false},
    {"norms", mode_norms, false, true, true},           {"tokenize", mode_tokenize, true, false, false},
    {"logits", mode_logits, true, true, false},         {"info", mode_info, false, false, false},
    {"convert", mode_convert, true, false, false},
};

static const Mode *find_mode(const char *name) {
    for (size_t i = 0; i < sizeof MODES / sizeof *MODES; i++)
        if (!strcmp(MODES[i].name, name)) return &MODES[i];
    fail("mode is '%s', expected generate, chat, perplexity, bench, norms, tokenize, logits, info or "
         "convert",
         name);
    return NULL;
}

/* Where the tokenizer of a model that does not hold it is: -z, else tokenizer.json in its folder, or
 * tokenizer.bin beside its file, else here. NULL and, if it is `needed`, a message: nowhere. */
static const char *find_tokenizer(const Options *o, bool needed) {
    static char beside[PATH_MAX];
    const char *slash = strrchr(o->model, '/');
    if (o->tokenizer) return o->tokenizer;
    if (is_folder(o->model)) {
        snprintf(beside, sizeof beside, "%s/tokenizer.json", o->model);
        if (file_exists(beside)) return beside;
        if (needed) fail("no tokenizer: %s is not there; name one with -z", beside);
        return NULL;
    }
    snprintf(beside, sizeof beside, "%.*stokenizer.bin", slash ? (int)(slash - o->model) + 1 : 0, o->model);
    if (file_exists(beside)) return beside;
    if (file_exists("tokenizer.bin")) return "tokenizer.bin";
    if (needed) fail("no tokenizer: neither %s nor ./tokenizer.bin is there; name one with -z", beside);
    return NULL;
}

/* Only tokens can do without a tokenizer, where text is not the point: they are then shown as ids. */
static int open_tokenizer(Run *run) {
    const Options *o = run->options;
    const int vocab_size = run->model.config.vocab_size;
    run->tokenizer = (Tokenizer){.bos = run->model.bos, .eos = run->model.eos, .eot = -1};
    const bool convert = !strcmp(o->mode, "convert"),
               to_text = !strcmp(o->mode, "chat") || !strcmp(o->mode, "tokenize"),
               needed = !convert && (!o->tokens || to_text);
    if (!o->tokenizer && gguf_is(run->model.files)) {
        const int found = gguf_read_tokenizer(&run->tokenizer, run->model.files, o->model, vocab_size, needed);
        run->has_tokenizer = found > 0;
        return found < 0 ? -1 : 0;
    }
    const char *path = find_tokenizer(o, needed);
    if (!path) return needed ? -1 : 0;
    const size_t n = strlen(path);
    const bool json = n > 5 && !strcmp(path + n - 5, ".json");
    run->has_tokenizer = !(json ? tokenizer_open_json : tokenizer_open)(&run->tokenizer, path, vocab_size);
    if (!run->has_tokenizer) run->tokenizer.bos = run->tokenizer.eos = run->tokenizer.eot = -1;
    return run->has_tokenizer || (json && !needed && !convert) ? 0 : -1;
}

static int open_session(Run *run) {
    const Options *o = run->options;
    model_pack(&run->model, o->threads, 0);
    if (session_open(&run->session, &run->model, o->threads, o->batch, o->context,
                     o->kv < 0 ? run->model.kv_type : (KvType)o->kv))
        return -1;
    if (o->profile) {
        const bool traces = profile_format(o->profile_file) == PROFILE_TRACE;
        run->profile = profile_open(&run->session, traces);
        if (!run->profile) return -1;
    }
    return sampler_open(&run->sampler, &o->sampling, run->model.config.vocab_size);
}

/* The exit status; 0: everything that the mode needs is open. */
static int open_model(Run *run, const Mode *mode) {
    const Options *o = run->options;
    if (model_open(&run->model, o->model)) return 1;
    if (o->norm && model_swap_norms(&run->model, o->norm)) return 2;
    return (mode->text && open_tokenizer(run)) || (mode->session && open_session(run)) ? 1 : 0;
}

static int run_mode(const Mode *mode, const Options *options) {
    Run run = {.options = options};
    int status = options->model ? open_model(&run, mode) : 0;
    if (!status) status = mode->run(&run);
    if (run.profile && (status == 0 || status == EXIT_INTERRUPTED) &&
        profile_report(run.profile, options->profile_file))
        status = 1;
    profile_close(run.profile);
    sampler_close(&run.sampler);
    if (run.session.model) session_close(&run.session);
    tokenizer_close(&run.tokenizer);
    model_close(&run.model);
    return status;
}

/* What does not fit together, before anything is opened. */
static int check_options(const Options *o, const Mode *mode) {
    if (o->profile && (!mode->session || mode->alone)) { /* norms has profiles of its own */
        fail("--profile: not in mode %s; generate, chat, perplexity, bench and logits take it", mode->name);
        return 2;
    }
    if (o->norm && !o->model) {
        fail("--norm needs a model");
        return 2;
    }
    return 0;
}

/* At a barrier libgomp's threads spin for milliseconds before they sleep. When
 * another program has one of the cores, each barrier then waits for a thread
 * that is not running: 9 tokens/s instead of 790 (docs/performance.md). How long
 * they spin is read from the environment as the program is loaded, so it is
 * loaded once more. */
static void limit_spinning(char **argv) {
    if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY")) return;
    if (!setenv("GOMP_SPINCOUNT", "1000", 1)) execv("/proc/self/exe", argv); /* if not, it is only slower */
}

/* The bundled model: beside the program, or where `make install` puts it. */
static const char *bundled_model(void) {
    static const char *const places[] = {"models/stories.gguf", "../share/norma/stories.gguf"};
    static char path[PATH_MAX + 32];
    const ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
    char *end = n > 0 && n < PATH_MAX ? memrchr(path, '/', (size_t)n) : NULL;
    for (size_t i = 0; end && i < sizeof places / sizeof *places; i++) {
        strcpy(end + 1, places[i]);
        if (file_exists(path)) return path;
    }
    fail("no model given; try: run MODEL -i \"Once upon a time\", or run --help");
    return NULL;
}

int main(int argc, char **argv) {
    Options options;
    const int done = parse_options(&options, argc, argv);
    if (done >= 0) return done;
    const Mode *mode = find_mode(options.mode);
    if (!mode || (!options.model && !mode->alone && !(options.model = bundled_model()))) return 2;
    if (check_options(&options, mode)) return 2;
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error that write reports */
    if (options.threads > 1) limit_spinning(argv);
    if (watch_interrupts()) return 1;
    return run_mode(mode, &options);
}
