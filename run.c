/* run.c: the program: reads the options, opens the model, runs the mode, closes
 * everything.
 * Tests: cli. */
#include "base/file.h"
#include "base/platform.h"
#include "base/process.h"
#include "base/ranks.h"
#include "cluster/follow.h"
#include "cluster/share.h"
#include "formats/open.h"
#include "formats/pack.h"
#include "kernels/team.h"
#include "lab/norm_spec.h"
#include "lab/profile.h"
#include "lab/tune.h"
#include "modes/common.h"
#include "modes/guess.h"
#include "modes/input.h"
#include "modes/options.h"
#include "plain.h"
#include "session.h"
#include "tokenizer.h"
#include <stdlib.h>
#include <string.h>

/* The bundled model: next to the program, or where `make install` puts it. */
static const char *bundled_model(void) {
    const char *path = program_file("models/stories.gguf");
    if (!path)
        path = program_file("../share/norma/stories.gguf");
    if (!path)
        fail(
            "no model given; try: run MODEL -i \"Once upon a time\", or run --help");
    return path;
}

static int open_session(Run *run, const Mode *mode) {
    enum { SMALL_MODEL = 64 << 20 /* bytes */ };
    const Options *o = run->options;
    Model *model = &run->model;
    Session *s = &run->session;
    KvType kv_type = !o->kv                 ? model->kv_type
                     : strcmp(o->kv, "f32") ? KV_F16
                                            : KV_F32;
    if (!o->plain &&
        (model->decode_bytes <= SMALL_MODEL || mode->bit & DECODES))
        model_pack(model, o->threads);
    if (session_open(s, model, o->threads, o->batch, o->context, kv_type))
        return -1;
    s->plain = o->plain ? &PLAIN : NULL;
    if (o->plain || mode->bit & REWINDS)
        session_keep_all(s);
    if (o->context > s->context)
        note("-c %d exceeds the model's context; using %d", o->context,
             s->context);
    if (o->verbose && model->long_factors)
        note("LongRoPE with its %s factors",
             s->context > model->config.context ? "long" : "short");
    About about = {o->model, o->norm, s->n_threads};
    if (!own_rank && (o->profile || o->dump) &&
        !(run->profile = profile_open(s, about)))
        return -1;
    /* after the profile, because an observed session keeps its number of
     * threads */
    tuning_open(&run->tuning, s);
    /* a profile measures single tokens unless --lookup is given */
    guesser_open(&run->guesser, o->lookup >= 0 ? o->lookup
                                : o->profile   ? 0
                                               : MAX_LOOKUP);
    return 0;
}

/* Opens everything that the mode needs. Returns 0 or an exit status. */
static int open_model(Run *run, const Mode *mode) {
    const Options *o = run->options;
    Model *model = &run->model;
    if ((mode->bit & TAKES_VOCABULARY ? model_open_vocabulary
                                      : model_open)(model, o->model))
        return 1;
    if (mode->bit & RUNS_PASSES && model_share(model))
        return 1;
    if (o->norm && model_swap_norms(model, o->norm))
        return EXIT_BAD_USAGE;
    TokenizerUse use = o->tokens && mode->bit & RUNS_MODEL
                           ? TOKENIZER_IF_READABLE
                           : mode->tokenizer;
    if (!own_rank && model_open_tokenizer(&run->tokenizer, model, o->model,
                                          o->tokenizer, use) < 0)
        return 1;
    return mode->bit & RUNS_MODEL && open_session(run, mode) ? 1 : 0;
}

/* Runs the mode, or the passes of rank 0. */
static void run_passes(void *run) {
    Run *r = run;
    r->status =
        own_rank ? follow(&r->session, &r->tuning) : r->options->mode->run(r);
}

static int run_mode(const Mode *mode, Options *options) {
    Run run = {.options = options};
    bool takes_ranks = mode->bit & RUNS_PASSES;
    if (!takes_ranks && own_rank)
        return 0;
    int status = options->model ? open_model(&run, mode) : 0;
    if (!status)
        options_advise(options, &run.tokenizer);
    if (takes_ranks &&
        !(status = model_agree(status, &run.session, options->norm)))
        run.session.mirror = follow_mirror();
    if (!status) {
        team_keep(run.tuning.max_threads, run_passes, &run);
        status = run.status;
    }
    if (status < 0)
        status = EXIT_BAD_INPUT;
    if (interrupted)
        status = EXIT_INTERRUPTED; /* which may have caused a failure */
    if (run.session.mirror)
        follow_end(status);
    if ((!status || status == EXIT_INTERRUPTED) && options->profile &&
        run.profile &&
        profile_report(run.profile, options->profile, options->verbose))
        status = 1;
    profile_close(run.profile);
    free(run.steps.bytes);
    session_close(&run.session);
    tokenizer_close(&run.tokenizer);
    model_close(&run.model);
    return status;
}

/* The exit status of the program. */
static int run(char **argv) {
    Options options;
    int status = options_parse(&options, argv);
    if (status >= 0)
        return status;
    const Mode *mode = options.mode;
    if (!options.model && !(mode->bit & MODEL_OPTIONAL) &&
        !(options.model = bundled_model()))
        return EXIT_BAD_USAGE;
    if ((options.dump || options.norm_sweep || options.plain) && n_ranks > 1)
        return bad_usage(
            "--dump, --norm-sweep and --plain work on one machine only");
    if (options.model && !(options.model = model_find(options.model)))
        return EXIT_BAD_INPUT;
    if (options.norm && !options.model)
        return bad_usage("--norm needs a model");
    handle_signals();
    if (mode->bit & RUNS_MODEL)
        options.threads = start_threads(options.threads);
    outputs_announce(options.output, options.profile);
    if (mode->bit & IN_chat && !options.prompts)
        input_edits(false); /* keys typed from now on wait for the prompt */
    status = run_mode(mode, &options);
    terminal_close();
    return status;
}

int main(int argc, char **argv) {
    (void)argc;
    open_standard_streams();
    ranks_open();
    return ranks_close(run(argv));
}
