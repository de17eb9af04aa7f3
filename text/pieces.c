/* pieces.c: the vocabulary: a table of pieces, one for each token.
 *
 * Owns its hash tables and what the names of pieces stand for: "<0x0A>" for a
 * byte, U+2581 for a space, in byte-level vocabularies a printable character for
 * each byte. Which pieces merge is merges.c's; from files they come by formats/.
 */
#include "text/pieces.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/utf8.h"
#include <stdlib.h>
#include <string.h>

/* ---- hash tables -------------------------------------------------------------------------- */

static uint32_t hash_byte(uint32_t h, char byte) { return (h ^ (uint8_t)byte) * 16777619u; }

static uint32_t hash_bytes(const Pieces *p, const char *s, int n) {
    uint32_t h = p->hash_start;
    for (int i = 0; i < n; i++) h = hash_byte(h, s[i]);
    return h;
}

static int open_table(IdTable *table, size_t n) {
    size_t size = 16;
    while (size < 2 * n) size *= 2; /* at most 2^32 */
    free(table->slots);
    *table = (IdTable){.slots = allocate(size, sizeof *table->slots), .mask = (uint32_t)(size - 1)};
    if (table->slots) memset(table->slots, 0xff, size * sizeof *table->slots);
    return table->slots ? 0 : -1;
}

/* The slot of a piece with this text and its hash, or the free slot where it would go. */
static uint32_t find_slot(const Pieces *p, const IdTable *table, uint32_t hash, const char *s, int n) {
    uint32_t slot = (hash ^ hash >> 15) & table->mask;
    for (; table->slots[slot] >= 0; slot = (slot + 1) & table->mask) {
        const Piece *piece = &p->list[table->slots[slot]];
        if (piece->length == n && !memcmp(piece->text, s, (size_t)n)) break;
    }
    return slot;
}

/* Of two equal pieces the first stays. */
static void enter(const Pieces *p, IdTable *table, int id) {
    const Piece *piece = &p->list[id];
    const uint32_t hash = hash_bytes(p, piece->text, piece->length);
    int32_t *slot = &table->slots[find_slot(p, table, hash, piece->text, piece->length)];
    if (*slot < 0) *slot = id;
    if (piece->length > table->max_length) table->max_length = piece->length;
}

int pieces_find(const Pieces *p, const char *s, int n) {
    if (n > p->merged.max_length) return -1;
    const int id = p->merged.slots[find_slot(p, &p->merged, hash_bytes(p, s, n), s, n)];
    return id >= 0 && p->list[id].kind != PIECE_CONTROL ? id : -1;
}

static bool is_matched(const Piece *p) { return p->length > 0 && (p->kind == PIECE_USER || p->kind == PIECE_SPECIAL); }

int pieces_match(const Pieces *p, const char *s, size_t left, bool raw) {
    const int most = left < (size_t)p->matched.max_length ? (int)left : p->matched.max_length;
    int longest = -1;
    if (!p->begins_match[(uint8_t)s[0]]) return -1;
    uint32_t hash = p->hash_start;
    for (int n = 1; n <= most; n++) {
        hash = hash_byte(hash, s[n - 1]);
        const int id = p->matched.slots[find_slot(p, &p->matched, hash, s, n)];
        if (id >= 0 && p->list[id].raw == raw && is_matched(&p->list[id])) longest = id;
    }
    return longest;
}

/* ---- building ------------------------------------------------------------------------------ */

int pieces_open(Pieces *p, int n, size_t text_bytes) {
    p->list = allocate((size_t)n, sizeof *p->list);
    if (!p->list || (text_bytes && !(p->text = allocate(text_bytes, 1)))) return -1;
    for (int id = 0; id < n; id++) p->list[id] = (Piece){.text = "", .kind = PIECE_CONTROL};
    p->n = n;
    return 0;
}

void pieces_close(Pieces *p) {
    free(p->list);
    free(p->text);
    free(p->merged.slots);
    free(p->matched.slots);
    *p = (Pieces){0};
}

/* The byte that a name such as "<0x0A>" stands for; -1: none. */
static int byte_of_name(const char *s, int n) {
    static const char digits[] = "0123456789ABCDEF";
    if (n != 6 || memcmp(s, "<0x", 3) || s[5] != '>' || !s[3] || !s[4]) return -1;
    const char *high = strchr(digits, s[3]), *low = strchr(digits, s[4]);
    return high && low ? (int)((high - digits) * 16 + (low - digits)) : -1;
}

/* Text pieces that have the name of a byte become byte pieces. */
static void find_byte_pieces(Pieces *p) {
    for (int id = 0; id < p->n; id++) {
        Piece *piece = &p->list[id];
        const int byte = piece->kind == PIECE_BYTE   ? (uint8_t)*piece->text
                         : piece->kind == PIECE_TEXT ? byte_of_name(piece->text, piece->length)
                                                     : -1;
        if (byte < 0) continue;
        *piece = (Piece){.text = (const char *)&p->bytes[byte], .length = 1, .kind = PIECE_BYTE};
        p->byte_piece[byte] = id;
    }
}

int pieces_index(Pieces *p) {
    const double seconds = now();
    uint64_t bits;
    size_t n_matched = 0;
    memcpy(&bits, &seconds, sizeof bits);
    /* FNV-1a begins with a number that no file knows: else a file could make all its pieces meet in one slot */
    p->hash_start = 2166136261u ^ (uint32_t)(bits * 0x9e3779b97f4a7c15u >> 32);
    for (int b = 0; b < 256; b++) p->bytes[b] = (uint8_t)b, p->byte_piece[b] = p->unk;
    if (!p->byte_level) find_byte_pieces(p);
    for (int id = 0; id < p->n; id++) n_matched += is_matched(&p->list[id]);
    if (open_table(&p->merged, (size_t)p->n) || open_table(&p->matched, n_matched)) return -1;
    for (int id = 0; id < p->n; id++) {
        const Piece *piece = &p->list[id];
        if (piece->kind == PIECE_TEXT || piece->also_merged) enter(p, &p->merged, id);
        if (!is_matched(piece)) continue;
        enter(p, &p->matched, id);
        p->begins_match[(uint8_t)piece->text[0]] = true;
    }
    for (int b = 0; b < 256 && p->byte_level; b++) {
        const int id = pieces_find(p, (const char *)&p->bytes[b], 1);
        if (id >= 0) p->byte_piece[b] = id;
    }
    return 0;
}

/* ---- names --------------------------------------------------------------------------------- */

int unmark_spaces(char *s, int n) {
    int length = 0;
    for (int at = 0; at < n; length++) {
        const bool marked = n - at >= 3 && !memcmp(s + at, SPACE_MARK, 3);
        s[length] = marked ? ' ' : s[at];
        at += marked ? 3 : 1;
    }
    return length;
}

/* Printable Latin-1 is its own name; the other bytes are named U+0100, U+0101, ... in their order. */
static bool names_itself(uint32_t code) { return (code > 0x20 && code < 0x7f) || (code > 0xa0 && code != 0xad); }

static uint32_t name_code(uint8_t byte) {
    uint32_t code = 0x100;
    if (names_itself(byte)) return byte;
    for (uint32_t b = 0; b < byte; b++) code += !names_itself(b);
    return code;
}

int byte_name(char name[2], uint8_t byte) { return utf8_encode(name, name_code(byte)); }

enum { N_CODES = 0x144 }; /* code points of names are below */

/* Writes the bytes that s[n] names over it; returns how many. -1, and s stays, if it has a character that
 * names none. bytes[N_CODES]: by code point of their names, -1: none. */
static int decode_name(const int16_t bytes[N_CODES], char *s, int n) {
    int length = 0;
    for (int writes = 0; writes < 2; writes++) {
        length = 0;
        for (size_t at = 0, step; at < (size_t)n; at += step) {
            const uint32_t code = utf8_read(s + at, (size_t)n - at, &step);
            if (code >= N_CODES || bytes[code] < 0) return -1;
            if (writes) s[length] = (char)bytes[code];
            length++;
        }
    }
    return length;
}

void pieces_decode_names(Pieces *p) {
    int16_t bytes[N_CODES];
    for (int code = 0; code < N_CODES; code++) bytes[code] = -1;
    for (int byte = 0; byte < 256; byte++) bytes[name_code((uint8_t)byte)] = (int16_t)byte;
    for (int id = 0; id < p->n; id++) {
        Piece *piece = &p->list[id];
        if (piece->kind != PIECE_TEXT) continue;
        char *name = p->text + (piece->text - p->text);
        const int n = p->byte_level ? decode_name(bytes, name, piece->length) : unmark_spaces(name, piece->length);
        if (n < 0)
            piece->kind = PIECE_CONTROL;
        else
            piece->length = n;
    }
}
