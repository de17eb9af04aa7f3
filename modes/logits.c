/* logits.c: the mode that writes the logits of every position into a file.
 * Tests: cli, lab. */
#include "base/file.h"
#include "lab/dump.h"
#include "modes/common.h"
#include <stdlib.h>

/* Checks that the text fits in the context, before a file is created. */
static int check_length(const Run *run, int n) {
    const int context = run->session.context;
    if (n <= context)
        return 0;
    return fail("the text has %d tokens, the context is %d%s", n, context,
                context < run->model.config.context
                    ? "; a larger -c allows more"
                    : "; shorten the text");
}

int mode_logits(Run *run) {
    const char *folder = run->options->dump;
    Tokens tokens;
    Dump dump;
    OutputFile out;
    if (!run->options->output)
        return bad_usage("-m logits needs an output file: -o FILE");
    if (run_tokens(run, true, &tokens))
        return -1;
    int status = check_length(run, tokens.n);
    if (!status && folder)
        status = dump_open(&dump, &run->model, folder, tokens.n);
    bool dumps = folder && !status;
    if (!status)
        status = output_open(&out, run->options->output);
    bool is_open = !status;
    if (dumps)
        run->profile->dump = &dump;
    ends_soon = true;
    size_t row = sizeof(float) * run->model.config.vocab_size;
    if (is_open)
        note("-o writes %.1f MB", 1e-6 * (double)row * tokens.n);
    for (int pos = 0, n; is_open && !status && pos < tokens.n && !interrupted;
         pos += n) {
        n = min_int(tokens.n - pos, run_piece(run, 0));
        const float *logits = run_logits(run, tokens.ids + pos, n, pos);
        if (!logits)
            status = interrupted ? 0 : -1;
        if (logits && fwrite(logits, row, n, out.stream) != (size_t)n)
            break;
    }
    if (dumps && dump_close(&dump, !status && !interrupted))
        status = -1;
    /* kept only if the dump is */
    if (is_open && output_close(&out, !status && !interrupted))
        status = -1;
    free(tokens.ids);
    return status;
}
