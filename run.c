/* run.c: the program: reads the options, opens the model, runs the mode, closes
 * everything.
 * Tests: cli. */
#include "base/error.h"
#include "base/file.h"
#include "base/platform.h"
#include "base/process.h"
#include "base/ranks.h"
#include "cluster/follow.h"
#include "cluster/share.h"
#include "formats/open.h"
#include "formats/pack.h"
#include "kernels/team.h"
#include "lab/dump.h"
#include "lab/norm_spec.h"
#include "lab/profile.h"
#include "lab/saved.h"
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

/* The type of the KV cache: --kv, or the default of the model. */
static KvType kv_type_of(const Options *o, const Model *model) {
    if (!o->kv)
        return model->kv_type;
    return strcmp(o->kv, "f32") == 0 ? KV_F32 : KV_F16;
}

/* Packs the weights, unless they would be read too seldom to pay it back.
 * plain.c reads them as they are. */
static void pack_weights(Model *model, const Options *o, const Mode *mode) {
    enum { SMALL_MODEL = 64 << 20 /* bytes */ };
    bool decodes = mode->bit & DECODES;
    if (!o->plain && (decodes || model->decode_bytes <= SMALL_MODEL))
        model_pack(model, o->threads);
}

/* Says what of the session is not as the command line or the file has it. */
static void note_context(const Session *s, const Options *o) {
    const Model *model = s->model;
    if (o->context > s->context)
        note("-c %d exceeds the model's context; using %d", o->context,
             s->context);
    if (o->verbose && model->long_factors)
        note("LongRoPE with its %s factors",
             s->context > model->config.context ? "long" : "short");
}

/* Opens the profile that --profile and --dump need. -1: failure. */
static int open_profile(Run *run) {
    const Options *o = run->options;
    if (own_rank || !(o->profile || o->dump))
        return 0;
    About about = {o->model, o->norm, run->session.n_threads};
    run->profile = profile_open(&run->session, about);
    return run->profile ? 0 : -1;
}

/* Draft tokens per pass. A profile measures single tokens, unless --lookup is
 * given. */
static int draft_tokens(const Options *o) {
    if (o->lookup >= 0)
        return o->lookup;
    return o->profile ? 0 : MAX_LOOKUP;
}

/* Shows on a terminal what happens before the first token, in 80 columns. */
static void show_progress(const Run *run, const char *doing) {
    const Options *o = run->options;
    const Model *m = &run->model;
    const char *name = o->model + folder_size(o->model);
    int context = m->config.context;
    double size = 0;
    if (own_rank || !(o->mode->bit & WRITES) || !on_terminal(stderr))
        return;
    for (int i = 0; i < m->n_files; i++)
        size += 1e-6 * (double)m->files[i].size;
    if (o->context)
        context = min_int(context, o->context);
    if (m->layers)
        show_status("%.38s, %.0f MB, context %d: %s", *name ? name : o->model,
                    size, context, doing);
    else
        show_status("%.38s: %s", *name ? name : o->model, doing);
}

static int open_session(Run *run, const Mode *mode) {
    const Options *o = run->options;
    Model *model = &run->model;
    Session *s = &run->session;
    show_progress(run, "packing weights");
    pack_weights(model, o, mode);
    show_progress(run, "first pass");
    if (session_open(s, model, o->threads, o->batch, o->context,
                     kv_type_of(o, model)))
        return -1;
    s->plain = o->plain ? &PLAIN : NULL;
    if (o->plain || mode->bit & REWINDS)
        session_keep_all(s);
    note_context(s, o);
    if (open_profile(run))
        return -1;
    /* after the profile, because an observed session keeps its number of
     * threads */
    tuning_open(&run->tuning, s);
    guesser_open(&run->guesser, draft_tokens(o));
    return 0;
}

/* Opens the file: its model, or only its vocabulary, if that is enough. */
static int open_file(Model *model, const Options *o, const Mode *mode) {
    return mode->bit & TAKES_VOCABULARY ? model_open_vocabulary(model, o->model)
                                        : model_open(model, o->model);
}

/* Opens everything that the mode needs. Returns 0 or an exit status. */
static int open_model(Run *run, const Mode *mode) {
    const Options *o = run->options;
    Model *model = &run->model;
    bool runs_model = mode->bit & RUNS_MODEL;
    if (!own_rank && o->profile_against &&
        saved_open(&run->saved, o->profile_against))
        return 1;
    show_progress(run, "opening");
    if (open_file(model, o, mode))
        return 1;
    if (mode->bit & RUNS_PASSES && model_share(model))
        return 1;
    if (o->norm && model_swap_norms(model, o->norm))
        return EXIT_BAD_USAGE;
    TokenizerUse use =
        o->tokens && runs_model ? TOKENIZER_IF_READABLE : mode->tokenizer;
    show_progress(run, "tokenizer");
    if (!own_rank && model_open_tokenizer(&run->tokenizer, model, o->model,
                                          o->tokenizer, use) < 0)
        return 1;
    return runs_model && open_session(run, mode) ? 1 : 0;
}

/* Runs the mode, or the passes of rank 0. */
static void run_passes(void *run) {
    Run *r = run;
    r->status =
        own_rank ? follow(&r->session, &r->tuning) : r->options->mode->run(r);
}

/* The exit status after a mode. Ctrl-C may have made it fail. */
static int exit_status(int status) {
    if (interrupted)
        return EXIT_INTERRUPTED;
    return status < 0 ? EXIT_BAD_INPUT : status;
}

/* Writes the profile of a mode that ran, also if Ctrl-C ended it. Returns its
 * exit status. */
static int report_profile(const Run *run, int status) {
    const Options *o = run->options;
    bool ran = status == 0 || status == EXIT_INTERRUPTED;
    if (!ran || !o->profile || !run->profile)
        return status;
    const ProfileReport how = {
        o->profile, o->profile_against ? &run->saved : NULL, o->verbose};
    return profile_report(run->profile, how) ? 1 : status;
}

static int run_mode(const Mode *mode, Options *options) {
    Run run = {.options = options};
    bool takes_ranks = mode->bit & RUNS_PASSES;
    if (!takes_ranks && own_rank)
        return 0;
    int status = open_model(&run, mode);
    if (!status)
        options_advise(options, &run.tokenizer);
    if (takes_ranks) {
        status = model_agree(status, &run.session, options->norm);
        if (!status)
            run.session.mirror = follow_mirror();
    }
    if (!status) {
        team_keep(run.tuning.max_threads, run_passes, &run);
        status = run.status;
    }
    hide_status();
    status = exit_status(status);
    if (run.session.mirror)
        follow_end(status);
    status = report_profile(&run, status);
    profile_close(run.profile);
    saved_close(&run.saved);
    free(run.steps.bytes);
    session_close(&run.session);
    tokenizer_close(&run.tokenizer);
    model_close(&run.model);
    return status;
}

/* Finds the model that is named, or the bundled one. Returns 0 or an exit
 * status. */
static int find_model(Options *o) {
    if (!o->model) {
        o->bundled = true;
        o->model = bundled_model();
        if (!o->model)
            return EXIT_BAD_USAGE;
    }
    o->model = model_find(o->model);
    return o->model ? 0 : EXIT_BAD_INPUT;
}

/* Checks that the files of the command line can be written, before the model
 * runs. */
static int check_outputs(const Options *o) {
    if (o->output && output_check(o->output))
        return -1;
    if (o->profile && *o->profile && output_check(o->profile))
        return -1;
    return o->dump ? dump_check(o->dump) : 0;
}

/* Without other input, a file or a pipe on standard input is the text. */
static void take_input(Options *o) {
    if (!(o->mode->bit & READS_INPUT) || o->prompt || o->prompt_file ||
        o->tokens || o->prompts)
        return;
    switch (input_state()) {
    case NO_INPUT: break;
    case GIVEN_INPUT: o->prompt_file = "-"; break;
    case SILENT_INPUT:
        note(
            "standard input is a pipe that sends nothing; not read; -f - waits for it");
    }
}

/* The exit status of the program. */
static int run(char **argv) {
    Options options;
    int status = options_parse(&options, argv);
    if (status >= 0)
        return status;
    const Mode *mode = options.mode;
    if ((options.dump || options.norm_sweep || options.plain) && n_ranks > 1)
        return bad_usage(
            "--dump, --norm-sweep and --plain work on one machine only");
    status = find_model(&options);
    if (status)
        return status;
    if (check_outputs(&options))
        return EXIT_BAD_INPUT;
    handle_signals();
    if (mode->bit & RUNS_MODEL)
        options.threads = start_threads(options.threads);
    outputs_announce(options.output, options.profile);
    take_input(&options);
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
