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

/* How a field is stored, as its tag says; other ways are refused. */
typedef enum { STORED_INTEGER = 0, STORED_BYTES = 2, STORED_FLOAT = 5 } Storage;

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
    if (!m->rest.n)
        return false;
    const uint64_t tag = read_integer(m), storage = tag % 8;
    uint64_t n = 0;
    m->number = tag / 8;
    m->integer = 0;
    switch (storage) {
    case STORED_INTEGER: m->integer = read_integer(m); break;
    case STORED_BYTES: n = read_integer(m); break;
    case STORED_FLOAT: n = sizeof(float); break;
    default: m->broken = true;
    }
    m->broken |= !m->number || n > m->rest.n;
    if (m->broken)
        return false;
    m->bytes = (String){m->rest.text, n};
    m->rest.text += n;
    m->rest.n -= n;
    return true;
}

/* What the file says besides its pieces; the defaults are the library's. */
typedef struct {
    uint64_t model_type, add_dummy_prefix, remove_extra_whitespaces;
    /* rules that norma lacks */
    bool suffixes, maps_characters, keeps_spaces;
} Rules;

typedef struct {
    Tokenizer *t;
    const char *path;
    char *to; /* where the next piece's text goes */
    int n;    /* pieces read */
    Rules rules;
} Loader;

/* Reads a message of the file; returns -1 and a message on failure. Sets
 * m->broken if it is damaged. */
typedef int Read(Loader *l, Message *m);

static int read_piece(Loader *l, Message *m) {
    enum { NAME = 1, SCORE, TYPE };
    enum { NORMAL = 1, UNKNOWN, BYTE = 6 };
    Pieces *p = &l->t->pieces;
    String name = {"", 0};
    float score = 0;
    uint64_t type = NORMAL;
    while (next_field(m)) {
        if (m->number == NAME)
            name = m->bytes;
        if (m->number == TYPE)
            type = m->integer;
        if (m->number != SCORE)
            continue;
        if (m->bytes.n == sizeof score)
            memcpy(&score, m->bytes.text, sizeof score);
        else
            m->broken = true;
    }
    if (pieces_set(p, l->path, l->n, name, type, &l->to))
        return -1;
    Piece *piece = &p->list[l->n];
    piece->score = score;
    /* the library compares text without spaces, with U+2581 for each */
    if (memchr(name.text, ' ', name.n))
        piece->kind = PIECE_CONTROL;
    if (type == BYTE)
        p->no_bytes = false;
    if (type == UNKNOWN)
        p->unk = l->n;
    l->n++;
    return 0;
}

static int read_trainer(Loader *l, Message *m) {
    enum { MODEL_TYPE = 3, TREAT_WHITESPACE_AS_SUFFIX = 24 };
    while (next_field(m)) {
        if (m->number == MODEL_TYPE)
            l->rules.model_type = m->integer;
        if (m->number == TREAT_WHITESPACE_AS_SUFFIX)
            l->rules.suffixes = m->integer;
    }
    return 0;
}

static int read_normalizer(Loader *l, Message *m) {
    enum {
        PRECOMPILED_CHARSMAP = 2,
        ADD_DUMMY_PREFIX,
        REMOVE_EXTRA_WHITESPACES,
        ESCAPE_WHITESPACES
    };
    while (next_field(m)) {
        if (m->number == PRECOMPILED_CHARSMAP)
            l->rules.maps_characters = m->bytes.n > 0;
        if (m->number == ADD_DUMMY_PREFIX)
            l->rules.add_dummy_prefix = m->integer;
        if (m->number == REMOVE_EXTRA_WHITESPACES)
            l->rules.remove_extra_whitespaces = m->integer;
        if (m->number == ESCAPE_WHITESPACES)
            l->rules.keeps_spaces = !m->integer;
    }
    return 0;
}

static int read_file(Loader *l, const File *file) {
    /* by the number of the field; others change no tokens */
    static Read *const readers[] = {NULL, read_piece, read_trainer,
                                    read_normalizer};
    Message m = {.rest = {(const char *)file->data, file->size}};
    while (next_field(&m)) {
        Message part = {.rest = m.bytes};
        if (m.number >= COUNT(readers))
            continue;
        if (readers[m.number](l, &part))
            return -1;
        m.broken |= part.broken;
    }
    if (m.broken || !l->n)
        return fail("%s: is not a SentencePiece model, or damaged", l->path);
    return 0;
}

static int check_rules(const Loader *l) {
    enum { BPE = 2 };
    const Rules *r = &l->rules;
    if (r->model_type == BPE && !r->remove_extra_whitespaces && !r->suffixes &&
        !r->maps_characters && !r->keeps_spaces)
        return 0;
    return fail(
        "%s: its model_type is not BPE, or it has remove_extra_whitespaces, precompiled_charsmap, treat_whitespace_as_suffix, or no escape_whitespaces",
        l->path);
}

int sentencepiece_read(Tokenizer *t, const char *path) {
    enum { MAX_BYTES = 1 << 28 };
    Pieces *p = &t->pieces;
    File file;
    if (map_model_file(&file, path))
        return -1;
    if (file.size > MAX_BYTES) {
        fail("%s: has %zu bytes, expected at most %d", path, file.size,
             MAX_BYTES);
        file_unmap(&file);
        return -1;
    }
    Loader l = {
        .t = t,
        .path = path,
        .to = allocate(file.size, 1),
        .rules = {.add_dummy_prefix = true, .remove_extra_whitespaces = true}};
    p->texts[p->n_texts++] = l.to;
    p->no_bytes = true;
    int status = l.to ? read_file(&l, &file) : -1;
    file_unmap(&file);
    if (status || check_rules(&l))
        return -1;
    t->normalizer.replaces_invalid = t->normalizer.replaces_mark = true;
    t->space_prefix = l.rules.add_dummy_prefix ? SPACE_ALWAYS : SPACE_NEVER;
    p->fuses_unknown = p->no_bytes;
    return 0;
}
