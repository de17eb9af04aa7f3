/* tokenizer_bin.c: llama2.c's tokenizer.bin.
 *
 * Owns its layout: int max_token_length, then for each piece float score, int
 * length, bytes. Pieces 0 to 2 are <unk>, BOS and EOS.
 */
#include "formats/tokenizer_bin.h"

#include "base/error.h"
#include "base/file.h"
#include "text/pieces.h"
#include "tokenizer.h"

#include <math.h>
#include <string.h>

static int read_pieces(Pieces *pieces, const char *path, const File *file, int vocab_size) {
    const uint8_t *data = file->data;
    size_t at = 4, size = file->size;
    if (vocab_size < 3)
        return fail("%s: the model's vocabulary is %d, expected at least <unk>, BOS and EOS", path, vocab_size);
    if (size < 4 || (size - 4) / 8 < (size_t)vocab_size)
        return fail("%s: file is %zu bytes, too short for the model's %d pieces", path, size, vocab_size);
    if (pieces_open(pieces, vocab_size, 0)) return -1;
    for (int i = 0; i < vocab_size; i++) {
        Piece *p = &pieces->list[i];
        if (size - at < 8) return fail("%s: ends in piece %d, the model's vocabulary is %d", path, i, vocab_size);
        memcpy(&p->score, data + at, 4);
        memcpy(&p->length, data + at + 4, 4);
        at += 8;
        if (p->length < 0 || (size_t)p->length > size - at)
            return fail("%s: length of piece %d is %d, the file has %zu bytes left", path, i, p->length, size - at);
        if (isnan(p->score)) return fail("%s: score of piece %d is not a number", path, i);
        p->text = (const char *)data + at;
        if (i > 2 && p->length > 0) p->kind = PIECE_TEXT;
        at += (size_t)p->length;
    }
    if (at != size)
        return fail("%s: %zu bytes follow the model's %d pieces (a tokenizer for another vocabulary?)", path, size - at,
                    vocab_size);
    return 0;
}

int tokenizer_open_bin(Tokenizer *t, const char *path, int vocab_size) {
    *t = (Tokenizer){.bos = 1, .eos = 2, .eot = -1};
    if (file_map(&t->file, path)) return -1;
    if (!read_pieces(&t->pieces, path, &t->file, vocab_size) && !pieces_index(&t->pieces)) return 0;
    tokenizer_close(t);
    return -1;
}
