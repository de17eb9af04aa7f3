/* logits.c: the mode that writes the logits of every position into a file. */
#include "base/file.h"
#include "lab/dump.h"
#include "modes/common.h"
#include <stdlib.h>

/* Writes float32 [tokens->n][vocab_size], in the byte order of the machine. */
static int write_logits(Run *run, const Tokens *tokens, OutputFile *out) {
    const size_t row = sizeof(float) * (size_t)run->model.config.vocab_size;
    const int batch = run->session.batch;
    for (int pos = 0; pos < tokens->n && !interrupted; pos += batch) {
        const int n = tokens->n - pos < batch ? tokens->n - pos : batch;
        const float *logits = run_logits(run, tokens->ids + pos, n, pos);
        if (!logits) return -1;
        if (fwrite(logits, row, (size_t)n, out->stream) != (size_t)n) break;
    }
    return 0;
}

static int write_file(Run *run, const Tokens *tokens) {
    OutputFile out;
    if (output_open(&out, run->options->output)) return -1;
    const int status = write_logits(run, tokens, &out);
    return output_close(&out, !status && !interrupted) ? -1 : status;
}

int mode_logits(Run *run) {
    const Options *o = run->options;
    Tokens tokens;
    Dump dump;
    if (!o->output) return bad_usage("logits need an output file: -o FILE");
    if (run_tokens(run, true, &tokens)) return -1;
    int status = o->dump ? dump_open(&dump, &run->model, o->dump, tokens.n) : 0;
    if (o->dump) run->profile->dump = &dump;
    if (!status) {
        status = write_file(run, &tokens);
        if (o->dump && dump_close(&dump, !status && !interrupted)) status = -1;
    }
    free(tokens.ids);
    return status;
}
