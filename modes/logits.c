/* logits.c: the logits of every position.
 *
 * Owns the mode that writes them into a file.
 */
#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "model.h"
#include "modes/common.h"
#include "modes/modes.h"
#include "modes/options.h"
#include "tokenizer.h"

#include <stdlib.h>

/* Writes float32 [tokens->n][vocab_size], in the byte order of the machine. */
static int write_logits(Run *run, const Tokens *tokens, OutputFile *out) {
    const size_t vocab_size = (size_t)run->model.config.vocab_size;
    const int batch = run->session.batch;
    for (int pos = 0; pos < tokens->n && !interrupted; pos += batch) {
        const int n = tokens->n - pos < batch ? tokens->n - pos : batch;
        const float *logits = model_forward(&run->session, tokens->ids + pos, n, pos, n);
        if (!logits || check_logits(logits, (size_t)n * vocab_size)) return -1;
        if (fwrite(logits, sizeof *logits * vocab_size, (size_t)n, out->stream) != (size_t)n) break;
    }
    return 0;
}

int mode_logits(Run *run) {
    Tokens tokens;
    OutputFile out;
    if (!run->options->output) return bad_usage("logits need a file to go to: -o FILE");
    if (run_tokens(run, true, &tokens)) return 1;
    int status = output_open(&out, run->options->output);
    if (!status) {
        status = write_logits(run, &tokens, &out);
        status |= output_close(&out, !status && !interrupted);
    }
    free(tokens.ids);
    return run_exit_status(status);
}
