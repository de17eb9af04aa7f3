/* pieces.c: the vocabulary: a table of pieces, one for each token.
 *
 * Owns its tables and the names of pieces: "<0x0A>" for a byte, U+2581 for a
 * space, in byte-level vocabularies a printable character for each byte. It
 * does not own merging (merges.c) or reading files (formats/).
 * Tests: pieces, tokenizer.
 */
#include "text/pieces.h"
#include "base/error.h"
#include "base/order.h"
#include "base/utf8.h"
#include "text/pretokenize.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- pieces that merging produces --------------------------------------- */

/* The slot of the piece s[n], or the free slot where it would go. */
static int32_t *find_slot(const Pieces *p, const char *s, int n) {
    size_t slot = hash_bytes(p->key, s, n) & p->mask;
    for (; p->slots[slot] >= 0; slot = (slot + 1) & p->mask) {
        const Piece *piece = &p->list[p->slots[slot]];
        if (piece->length == n && !memcmp(piece->text, s, n))
            break;
    }
    return &p->slots[slot];
}

/* Whether a text is looked up among pieces of this kind. */
static bool is_written(PieceKind kind) {
    return kind == PIECE_TEXT || kind == PIECE_USER || kind == PIECE_SPECIAL;
}

int pieces_find(const Pieces *p, const char *s, size_t n) {
    if (n > (size_t)p->max_length)
        return -1;
    int id = *find_slot(p, s, (int)n);
    return id >= 0 && is_written(p->list[id].kind) ? id : -1;
}

/* ---- pieces that match as a whole --------------------------------------- */

/* By text, then by id. */
static int compare_texts(const void *a, const void *b) {
    const Piece *const *first = a, *const *second = b;
    const Piece *x = *first, *y = *second;
    int order = memcmp(x->text, y->text, min_size(x->length, y->length));
    if (!order)
        order = x->length - y->length;
    return order ? order : (int)(x - y);
}

/* Byte i of a piece; -1 after its end. */
static int byte_at(const Piece *p, int i) {
    return i < p->length ? (uint8_t)p->text[i] : -1;
}

int pieces_match(const Pieces *p, const char *s, size_t left, bool raw) {
    const Piece *longest = NULL, **list = p->matched;
    size_t begin = 0, end = p->n_matched; /* pieces that begin with s[n] */
    for (int n = 0; begin < end; n++) {
        const Piece *shortest = list[begin];
        if (shortest->length == n && shortest->raw == raw)
            longest = shortest;
        if ((size_t)n == left)
            break;
        SEARCH(begin, begin, end, byte_at(list[begin], n) < (uint8_t)s[n]);
        SEARCH(end, begin, end, byte_at(list[end], n) <= (uint8_t)s[n]);
    }
    return longest ? (int)(longest - p->list) : -1;
}

size_t pieces_skip(const Pieces *pieces, int id, const char *text, size_t size,
                   size_t at, size_t from) {
    if (id < 0)
        return 1;
    const Piece *p = &pieces->list[id];
    if (p->single_word && is_in_word(text, size, at, p->length))
        return p->length;
    return p->after_space && (at == from || text[at - 1] != ' ');
}

/* ---- building ----------------------------------------------------------- */

int pieces_open(Pieces *p, int n) {
    size_t size = 16;
    while (size < 2 * (size_t)n)
        size *= 2;
    p->list = allocate(n, sizeof *p->list);
    if (!p->list)
        return -1;
    p->matched = allocate(n, sizeof(void *));
    if (!p->matched)
        return -1;
    p->slots = allocate(size, sizeof *p->slots);
    if (!p->slots || hash_key(&p->key))
        return -1;
    EACH(Piece, piece, p->list, n)
        *piece = (Piece){.text = "", .kind = PIECE_CONTROL};
    p->mask = size - 1;
    p->n = n;
    return 0;
}

void pieces_close(Pieces *p) {
    free(p->list);
    while (p->n_texts)
        free(p->texts[--p->n_texts]);
    free(p->slots);
    free(p->matched);
    free(p->rules);
    free(p->name.bytes);
    *p = (Pieces){0};
}

/* Finds the piece of each byte. A text piece with the name of a byte becomes a
 * byte piece. */
static void index_bytes(Pieces *p) {
    for (int b = 0; b < 256; b++) {
        char name[8] = {(char)b};
        int n = p->byte_level ? 1 : snprintf(name, sizeof name, "<0x%02X>", b),
            id = *find_slot(p, name, n);
        bool used = id >= 0 && !(p->no_bytes && !p->byte_level);
        p->byte_piece[b] = used ? id : p->unk;
        if (p->byte_level || id < 0 || p->list[id].kind != PIECE_TEXT)
            continue;
        Piece *piece = &p->list[id];
        piece->kind = used ? PIECE_BYTE : PIECE_TEXT;
        piece->byte = (char)b;
        piece->decoded = &piece->byte;
        piece->n_decoded = 1;
    }
}

int pieces_index(Pieces *p) {
    memset(p->slots, 0xff, (p->mask + 1) * sizeof *p->slots);
    p->max_length = 0;
    p->n_matched = 0;
    for (int id = 0; id < p->n; id++) {
        const Piece *piece = &p->list[id];
        PieceKind kind = piece->kind;
        if (isnan(piece->score))
            return fail("score of piece %d is not a number", id);
        if (kind == PIECE_TEXT || kind == PIECE_BYTE || piece->also_merged) {
            /* of two pieces with the same text, the first stays */
            int32_t *slot = find_slot(p, piece->text, piece->length);
            if (*slot < 0)
                *slot = id;
            if (piece->length > p->max_length)
                p->max_length = piece->length;
        }
        if (!piece->length || (kind != PIECE_USER && kind != PIECE_SPECIAL))
            continue;
        if (piece->length > MAX_MATCHED_BYTES)
            return fail("special piece %d has %d bytes, expected at most %d",
                        id, piece->length, MAX_MATCHED_BYTES);
        p->matched[p->n_matched++] = piece;
    }
    qsort(p->matched, p->n_matched, sizeof(Piece *), compare_texts);
    index_bytes(p);
    return 0;
}

/* ---- names -------------------------------------------------------------- */

int unmark_spaces(char *s, int n) {
    int length = 0;
    for (int at = 0; at < n; length++) {
        bool marked = n - at >= 3 && !memcmp(s + at, SPACE_MARK, 3);
        s[length] = marked ? ' ' : s[at];
        at += marked ? 3 : 1;
    }
    return length;
}

int pieces_set(Pieces *p, const char *path, int id, String name, uint64_t type,
               char **to) {
    static const PieceKind kinds[] = {
        [0] = PIECE_CONTROL, /* any other number */
        [PIECE_TYPE_NORMAL] = PIECE_TEXT,
        [PIECE_TYPE_UNKNOWN] = PIECE_CONTROL,
        [PIECE_TYPE_CONTROL] = PIECE_SPECIAL,
        [PIECE_TYPE_USER] = PIECE_USER,
        [PIECE_TYPE_UNUSED] = PIECE_CONTROL,
        [PIECE_TYPE_BYTE] = PIECE_TEXT, /* found by its name */
    };
    Piece *piece = &p->list[id];
    if (id >= p->n)
        return fail("%s: has more than the model's %d pieces", path, p->n);
    if (name.n > INT_MAX)
        return fail("%s: piece %d has %zu bytes", path, id, name.n);
    memcpy(*to, name.text, name.n);
    piece->text = *to;
    piece->length =
        p->byte_level ? (int)name.n : unmark_spaces(*to, (int)name.n);
    piece->kind = kinds[type < COUNT(kinds) ? type : 0];
    piece->raw = p->byte_level || piece->kind == PIECE_SPECIAL;
    *to += piece->length;
    return 0;
}

/* A printable Latin-1 byte is its own name. The other bytes are named U+0100,
 * U+0101, ... in ascending order. */
static uint32_t name_code(uint32_t byte) {
    if (byte <= ' ')
        return byte + 0x100;
    if (byte >= 0x7f && byte <= 0xa0)
        return byte + 0xa2;
    return byte == 0xad ? 0x143 : byte;
}

/* The byte with this name; -1 if it is not a name. */
static int named_byte(uint32_t code) {
    uint32_t byte = code;
    if (code >= 0x143)
        byte = 0xad;
    else if (code >= 0x121)
        byte = code - 0xa2;
    else if (code >= 0x100)
        byte = code - 0x100;
    return name_code(byte) == code ? (int)byte : -1;
}

int byte_name(char name[2], uint8_t byte) {
    return utf8_encode(name, name_code(byte));
}

/* Decodes the names in s[n] to bytes in place. Returns their number; -1, with s
 * unchanged, if a character is not a name. */
static int decode_name(char *s, int n) {
    int length = 0;
    for (int writes = 0; writes < 2; writes++) {
        length = 0;
        for (size_t at = 0, step; at < (size_t)n; at += step, length++) {
            int byte = named_byte(utf8_read(s + at, n - at, &step));
            if (byte < 0)
                return -1;
            if (writes)
                s[length] = (char)byte;
        }
    }
    return length;
}

void pieces_decode_names(Pieces *p) {
    EACH(Piece, piece, p->list, p->n) {
        if (piece->decoded && !p->byte_level)
            piece->n_decoded = unmark_spaces(piece->decoded, piece->n_decoded);
        if (piece->kind != PIECE_TEXT)
            continue;
        char *name = (char *)(uintptr_t)piece->text;
        int n = p->byte_level ? decode_name(name, piece->length)
                              : unmark_spaces(name, piece->length);
        if (n < 0)
            piece->kind = PIECE_CONTROL;
        else
            piece->length = n;
    }
}
