/* swap.c: other norms at other sites, while the program runs.
 *
 * Owns the little language of --norm. A swap changes a site's kind and nothing
 * else: gamma and eps stay, and so does beta, which RMSNorm does not look at and
 * which is 0 where the checkpoint has none. It computes nothing (norm.c).
 */
#include "model.h"

#include <stdlib.h>
#include <string.h>

/* One item of a specification, cut out of it. */
typedef struct {
    char text[48];
    NormKind kind;
    int first, last;       /* layers */
    bool attn, mlp, final; /* sites */
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
    if (!equals) {
        item->attn = item->mlp = item->final = true;
        return parse_kind(item, item->text);
    }
    const size_t n = equals > site ? (size_t)(equals - site) : 0;
    item->attn = n == 4 && !memcmp(site, "attn", n);
    item->mlp = n == 3 && !memcmp(site, "mlp", n);
    item->final = n == 5 && !memcmp(site, "final", n);
    if (n == 1 && (*site == 'q' || *site == 'k')) return bad_item(item, "names a norm that this model does not have");
    if (!item->attn && !item->mlp && !item->final) return bad_item(item, "has a site other than attn, mlp and final");
    if (item->final && dot) return bad_item(item, "gives the final norm a layer");
    if (dot && parse_layers(item, item->text, dot, n_layers)) return -1;
    return parse_kind(item, equals + 1);
}

int model_swap_norms(Model *model, const char *spec) {
    for (const char *at = spec, *end;; at = end + 1) {
        Item item;
        end = strchrnul(at, ',');
        if (parse_item(&item, at, (size_t)(end - at), model->config.n_layers)) return -1;
        for (int l = item.first; l <= item.last; l++) {
            if (item.attn) model->layers[l].attn_norm.kind = item.kind;
            if (item.mlp) model->layers[l].mlp_norm.kind = item.kind;
        }
        if (item.final) model->final_norm.kind = item.kind;
        if (!*end) return 0;
    }
}
