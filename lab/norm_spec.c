/* norm_spec.c: parses --norm. The sites are in the table of parts
 * (formats/parts.h).
 * Tests: lab. */
#include "lab/norm_spec.h"
#include "base/error.h"
#include "base/probe.h"
#include "formats/parts.h"
#include "norm.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sets the kind and alpha of a norm. Returns false if the name is unknown. */
static bool parse_kind(Norm *norm, const char *name) {
    char known[8] = "", end;
    int kind = 0;
    norm->alpha = 0;
    int n = sscanf(name, "%7[^:]:%f%c", known, &norm->alpha, &end);
    while (kind < N_NORM_KINDS && strcmp(known, norm_spec_name(kind)) != 0)
        kind++;
    norm->kind = kind;
    if (kind == NORM_DYT)
        return n == 2 && isfinite(norm->alpha) && norm->alpha > 0;
    return kind < N_NORM_KINDS && !strcmp(known, name);
}

/* Parses layers from 0, "3." or "0-2.". Returns what follows; NULL if they are
 * invalid. */
static const char *parse_layers(const char *text, int n_layers, long *first,
                                long *last) {
    char *end;
    *first = *last = strtol(text, &end, 10);
    if (*end == '-')
        *last = strtol(end + 1, &end, 10);
    return isdigit((uint8_t)*text) && isdigit((uint8_t)end[-1]) &&
                   *end == '.' && *first <= *last && *last < n_layers
               ? end + 1
               : NULL;
}

/* Applies the first item of a list: a kind, for all norms, or SITE=KIND. */
static int swap_item(Model *model, const char *spec) {
    char left[32] = "", kind[32];
    int n_layers = model->config.n_layers, length = (int)strcspn(spec, ","),
        n = sscanf(spec, "%31[^=,]=%31[^,]", left, kind);
    long first = NO_LAYER, last = n_layers - 1;
    const char *site = left;
    Norm swapped;
    bool found = false;
    if (n == 2 && strchr(left, '.'))
        site = parse_layers(left, n_layers, &first, &last);
    if (!site || !parse_kind(&swapped, n == 2 ? kind : left))
        return fail(
            "--norm: '%.*s' is not KIND or [LAYERS.]SITE=KIND, as in layer or 0-2.attn=rms; kinds are " NORM_KIND_LIST(
                "and") " with a positive number, layers are 0 to %d",
            length, spec, n_layers - 1);
    PART_EACH(at, model) {
        int layer = at.part->owner == OF_MODEL ? NO_LAYER : at.layer;
        Norm *norm = part_norm(&at);
        if (!norm || layer < first || layer > last ||
            (n == 2 && strcmp(site, at.part->site) != 0))
            continue;
        norm->kind = swapped.kind;
        norm->alpha = swapped.alpha;
        found = true;
    }
    if (!found)
        return fail(
            "--norm: '%.*s' names a norm that this model does not have; sites are attn, mlp, q, k, attn_post, "
            "mlp_post and final",
            length, spec);
    if (swapped.kind == NORM_NONE)
        note(
            "--norm none is for timing only: the model generates meaningless text");
    return 0;
}

int model_swap_norms(Model *model, const char *spec) {
    do {
        if (swap_item(model, spec))
            return -1;
        spec += strcspn(spec, ",");
    } while (*spec++);
    return 0;
}
