/* sentencepiece.c: reads a tokenizer.model.
 *
 * Owns the format of the SentencePiece library: a protocol buffer, with the
 * numbers of fields in its sentencepiece_model.proto. Rules that change the
 * tokens are honoured or refused by name.
 * Tests: pieces, bpe.
 */
#include "formats/sentencepiece.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "formats/map.h"
#include "text/pieces.h"
#include <string.h>

/* A message of a protocol buffer. */
typedef struct {
    String rest; /* not read yet */
    bool broken;
    /* the last field: its number, and an integer or bytes and their number */
    uint64_t number, integer;
    String bytes;
} Message;

static uint64_t read_integer(Message *m) {
    uint64_t value = 0, byte = 128;
    for (int shift = 0; byte > 127 && m->rest.n && shift < 64; shift += 7) {
        byte = (uint8_t)*m->rest.text++;
        value |= (byte & 127) << shift;
        m->rest.n--;
    }
    m->broken |= byte > 127;
    return value;
}

/* Reads a field. Returns false after the last one. */
static bool next_field(Message *m) {
    enum { BYTES = 2, FLOAT = 5 }; /* kinds; 0: an integer */
    if (!m->rest.n)
        return false;
    uint64_t tag = read_integer(m), kind = tag % 8;
    m->number = tag / 8;
    m->broken |= !m->number;
    m->integer = kind == FLOAT ? sizeof(float) : read_integer(m);
    size_t n = kind ? m->integer : 0;
    m->broken |= n > m->rest.n || (kind && kind != BYTES && kind != FLOAT);
    if (m->broken)
        return false;
    m->bytes = (String){m->rest.text, n};
    m->rest.text += n;
    m->rest.n -= n;
    return true;
}

int sentencepiece_read(Tokenizer *t, const char *path) {
    enum { PIECE = 1, UNKNOWN, BYTE = 6, BPE = 2, MAX_BYTES = 1 << 28 };
    Pieces *p = &t->pieces;
    uint64_t model_type = 0, other_rules = 0, add_dummy_prefix = 1,
             remove_extra_whitespaces = 1;
    File file;
    if (map_model_file(&file, path))
        return -1;
    if (file.size > MAX_BYTES) {
        int failed = fail("%s: has %zu bytes, expected at most %d", path,
                          file.size, MAX_BYTES);
        file_unmap(&file);
        return failed;
    }
    Message m = {.rest = {(const char *)file.data, file.size}};
    char *to = p->texts[p->n_texts++] = allocate(file.size, 1);
    int n = 0, status = -!to;
    p->no_bytes = true;
    while (!status && next_field(&m)) {
        Message part = {.rest = m.bytes};
        String name = {"", 0}, score = name;
        uint64_t type = 1;
        while (next_field(&part))
            /* of the message and the field in it; extensions begin at 200 */
            if (part.number < 100)
                switch (m.number * 100 + part.number) {
                case 101: name = part.bytes; break;
                case 102: score = part.bytes; break;
                case 103: type = part.integer; break;
                case 203: model_type = part.integer; break;
                case 224: /* treat_whitespace_as_suffix */
                case 302: /* precompiled_charsmap */
                    other_rules |= part.integer;
                    break;
                case 303: add_dummy_prefix = part.integer; break;
                case 304: remove_extra_whitespaces = part.integer; break;
                case 305: other_rules |= !part.integer; /* escape_whitespaces */
                }
        m.broken |= part.broken;
        if (m.number != PIECE)
            continue;
        if ((status = pieces_set(p, path, n, name, type, &to)))
            break;
        /* the library compares with a text without spaces, only U+2581 */
        if (memchr(name.text, ' ', name.n))
            p->list[n].kind = PIECE_CONTROL;
        memcpy(&p->list[n].score, score.text, min_size(score.n, sizeof(float)));
        p->no_bytes &= type != BYTE;
        if (type == UNKNOWN)
            p->unk = n;
        n++;
    }
    file_unmap(&file);
    if (status)
        return -1;
    if (m.broken || !n)
        return fail("%s: is not a SentencePiece model, or damaged", path);
    if (model_type != BPE || remove_extra_whitespaces || other_rules)
        return fail(
            "%s: its model_type is not BPE, or it has remove_extra_whitespaces, precompiled_charsmap, treat_whitespace_as_suffix, or no escape_whitespaces",
            path);
    t->normalizer.replaces_invalid = t->normalizer.replaces_mark = true;
    t->space_prefix = add_dummy_prefix ? SPACE_ALWAYS : SPACE_NEVER;
    p->fuses_unknown = p->no_bytes;
    return 0;
}
