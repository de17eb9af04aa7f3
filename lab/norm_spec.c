/* norm_spec.c: parses --norm. The sites are in the table of parts (formats/parts.h). */
#include "lab/norm_spec.h"
#include "base/error.h"
#include "formats/parts.h"
#include "norm.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One item of a specification. */
typedef struct {
    char text[48];
    NormKind kind;
    float alpha;      /* of dyt:ALPHA */
    const Part *site; /* NULL: every norm */
    int first, last;  /* layers */
} Item;

static int bad_item(const Item *item, const char *problem) {
    return fail("--norm: '%s' %s, expected [LAYERS.]SITE=KIND or KIND, as in 0-2.attn=layer or rms", item->text,
                problem);
}

static int parse_kind(Item *item, const char *name) {
    const size_t n = strcspn(name, ":");
    char *end = item->text;
    if (name[n]) item->alpha = strtof(name + n + 1, &end);
    for (int kind = 0; kind < N_NORM_KINDS; kind++) {
        const char *known = norm_spec_name(item->kind = (NormKind)kind);
        if (strlen(known) != n || strncmp(name, known, n) != 0 || !name[n] != (kind != NORM_DYT)) continue;
        if (!name[n] || (!*end && isfinite(item->alpha) && item->alpha > 0)) return 0;
        return bad_item(item, "has an alpha that is not a positive number");
    }
    return bad_item(item, "has a kind other than " NORM_KIND_LIST("and"));
}

/* Parses "3" or "0-2", which must end at the dot `end`. */
static int parse_layers(Item *item, const char *text, const char *end, int n_layers) {
    char *rest;
    if (*text < '0' || *text > '9') return bad_item(item, "does not begin with a layer");
    const long first = strtol(text, &rest, 10);
    long last = first;
    if (*rest == '-' && rest[1] >= '0' && rest[1] <= '9') last = strtol(rest + 1, &rest, 10);
    if (rest != end) return bad_item(item, "does not have layers n or n-m before the dot");
    if (first > last || last >= n_layers)
        return fail("--norm: '%s' names layers %ld to %ld, the model has 0 to %d", item->text, first, last,
                    n_layers - 1);
    item->first = (int)first;
    item->last = (int)last;
    return 0;
}

static int parse_item(Item *item, const char *text, size_t size, const Model *model) {
    *item = (Item){.last = model->config.n_layers - 1};
    memcpy(item->text, text, size < sizeof item->text ? size : sizeof item->text - 1);
    if (size >= sizeof item->text) return bad_item(item, "is too long");
    const char *equals = strchr(item->text, '=');
    if (!equals) return parse_kind(item, item->text);
    const char *dot = memchr(item->text, '.', (size_t)(equals - item->text)), *site = dot ? dot + 1 : item->text;
    for (PartAt at = parts_of(model); next_slot(&at);) {
        const char *known = at.part->site;
        if (known && !strncmp(site, known, strlen(known)) && site + strlen(known) == equals) item->site = at.part;
    }
    if (!item->site) return bad_item(item, "has a site other than attn, mlp, q, k, attn_post, mlp_post and final");
    if (dot && item->site->owner == OF_MODEL)
        return bad_item(item, "gives layers for the final norm, which is outside the layers");
    if (dot && parse_layers(item, item->text, dot, model->config.n_layers)) return -1;
    return parse_kind(item, equals + 1);
}

static int swap_item(Model *model, const Item *item) {
    bool found = false;
    for (PartAt at = parts_of(model); next_part(&at);) {
        const bool in_layers = at.part->owner == OF_MODEL || (at.layer >= item->first && at.layer <= item->last);
        if (!part_norm(&at) || !in_layers || (item->site && item->site != at.part)) continue;
        part_norm(&at)->kind = item->kind;
        part_norm(&at)->alpha = item->alpha;
        found = true;
    }
    return found ? 0 : bad_item(item, "names a norm that this model does not have");
}

int model_swap_norms(Model *model, const char *spec) {
    bool none = false;
    const char *at = spec, *end;
    do {
        Item item;
        end = at + strcspn(at, ",");
        if (parse_item(&item, at, (size_t)(end - at), model) || swap_item(model, &item)) return -1;
        none = none || item.kind == NORM_NONE;
        at = end + 1;
    } while (*end);
    if (none) note("--norm none is for timing only: without its norms the model generates meaningless text");
    return 0;
}
