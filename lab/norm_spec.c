/* swap.c: other norms at other sites, while the program runs.
 *
 * Owns the little language of --norm. A swap changes a site's kind and nothing
 * else: gamma and eps stay, and so does beta, which RMSNorm does not look at and
 * which is 0 where the checkpoint has none. It computes nothing (norm.c).
 */
#include "lab/norm_spec.h"

#include "base/error.h"
#include "model.h"
#include "norm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef enum { ATTN, MLP, Q, K, FINAL, N_NAMES } Name;

static const char *const NAMES[N_NAMES] = {[ATTN] = "attn", [MLP] = "mlp", [Q] = "q", [K] = "k", [FINAL] = "final"};

/* One item of a specification, cut out of it. */
typedef struct {
    char text[48];
    NormKind kind;
    int first, last; /* layers */
    bool named[N_NAMES];
} Item;

static int bad_item(const Item *item, const char *what) {
    return fail("--norm: '%s' %s, expected [LAYERS.]SITE=KIND or KIND, as in 0-2.attn=layer or rms", item->text, what);
}

static int parse_kind(Item *item, const char *text) {
    const bool rms = !strcmp(text, "rms");
    item->kind = rms ? NORM_RMS : NORM_LAYER;
    return rms || !strcmp(text, "layer") ? 0 : bad_item(item, "has a kind other than rms and layer");
}

/* "3" or "0-2", up to the dot at `end`. */
static int parse_layers(Item *item, const char *text, const char *end, int n_layers) {
    char *rest;
    if (*text < '0' || *text > '9') return bad_item(item, "begins with no layer");
    const long first = strtol(text, &rest, 10);
    long last = first;
    if (*rest == '-' && rest[1] >= '0' && rest[1] <= '9') last = strtol(rest + 1, &rest, 10);
    if (rest != end) return bad_item(item, "has no layers n or n-m before the dot");
    if (first > last || last >= n_layers)
        return fail("--norm: '%s' names layers %ld to %ld, the model has 0 to %d", item->text, first, last,
                    n_layers - 1);
    item->first = (int)first;
    item->last = (int)last;
    return 0;
}

static int parse_item(Item *item, const char *text, size_t size, int n_layers) {
    *item = (Item){.last = n_layers - 1};
    memcpy(item->text, text, size < sizeof item->text ? size : sizeof item->text - 1);
    if (size >= sizeof item->text) return bad_item(item, "is too long");
    const char *equals = strchr(item->text, '='), *dot = strchr(item->text, '.'), *site = dot ? dot + 1 : item->text;
    const size_t n = equals > site ? (size_t)(equals - site) : 0;
    bool any = false;
    for (Name name = 0; name < N_NAMES; name++)
        any |= item->named[name] = !equals || (n == strlen(NAMES[name]) && !memcmp(site, NAMES[name], n));
    if (!equals) return parse_kind(item, item->text);
    if (!any) return bad_item(item, "has a site other than attn, mlp, q, k and final");
    if (item->named[FINAL] && dot) return bad_item(item, "gives the final norm a layer");
    if (dot && parse_layers(item, item->text, dot, n_layers)) return -1;
    return parse_kind(item, equals + 1);
}

/* Gives a site its kind; 1: the site is there. */
static int swap_norm(const Item *item, Name name, Norm *norm) {
    if (!item->named[name] || !norm->gamma) return 0;
    norm->kind = item->kind;
    return 1;
}

static int swap_item(Model *model, const Item *item) {
    int found = swap_norm(item, FINAL, &model->final_norm);
    for (int l = item->first; l <= item->last; l++) {
        Layer *layer = &model->layers[l];
        found += swap_norm(item, ATTN, &layer->attn_norm) + swap_norm(item, MLP, &layer->mlp_norm) +
                 swap_norm(item, Q, &layer->q_norm) + swap_norm(item, K, &layer->k_norm);
    }
    return found ? 0 : bad_item(item, "names a norm that this model does not have");
}

int model_swap_norms(Model *model, const char *spec) {
    for (const char *at = spec, *end;; at = end + 1) {
        Item item;
        end = strchrnul(at, ',');
        if (parse_item(&item, at, (size_t)(end - at), model->config.n_layers) || swap_item(model, &item)) return -1;
        if (!*end) return 0;
    }
}
