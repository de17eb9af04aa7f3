/* test_pack.c: pack.c: panels are made of all weights or of none, by the
 * available memory and the holes of the file.
 *
 * test_invariance.c tests that products have the same bits with and without
 * panels.
 */
#include "formats/open.h"
#include "formats/pack.h"
#include "formats/parts.h"
#include "kernels/panels.h"
#include "model.h"

#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static const HashModel medium = {256, 704, 2, 4, 2, 97, 64, true, 41};

static int n_packed(const Model *m) {
    int n = m->tied && m->output.panels;
    PART_EACH(at, m)
        n += part_weight(&at) && part_weight(&at)->panels;
    return n;
}

static int open_medium(Model *model, const char *path) {
    return hashmodel_write(&medium, path, 0, 0) || model_open(model, path) ? -1
                                                                           : 0;
}

/* Limits the memory that this process may still allocate; 0: removes the
 * limit. */
static void limit_memory(size_t bytes) {
    static struct rlimit before;
    unsigned long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (!before.rlim_max)
        getrlimit(RLIMIT_AS, &before);
    if (!statm || fscanf(statm, "%lu", &pages) != 1)
        abort();
    fclose(statm);
    size_t used = pages * (size_t)sysconf(_SC_PAGESIZE);
    setrlimit(RLIMIT_AS,
              &(struct rlimit){bytes ? used + bytes : before.rlim_cur,
                               before.rlim_max});
}

/* If memory suffices for little more than all panels, none is made, so that
 * memory is left for the rest of the run. */
static void all_panels_or_none(void) {
    Model model;
    if (test_fast()) {
        test_skip("NORMA_FAST: all_panels_or_none limits memory");
        return;
    }
    CHECK(!open_medium(&model, temporary("medium.bin")),
          "cannot make the model");
    limit_memory(model.decode_bytes + model.decode_bytes / 20);
    model_pack(&model, 1);
    limit_memory(0);
    CHECK(n_packed(&model) == 0, "%d weights packed", n_packed(&model));
    limit_memory(3 * model.decode_bytes);
    model_pack(&model, 1);
    limit_memory(0);
    CHECK(n_packed(&model) == 15, "%d weights packed, expected 15",
          n_packed(&model));
    model_close(&model);
}

/* Panels leave an eighth of the available memory. */
static void an_eighth_is_left(void) {
    Model model;
    size_t panels, available;
    CHECK(!open_medium(&model, temporary("medium.bin")),
          "cannot make the model");
    panels = model.tied ? panels_bytes(&model.output) : 0;
    PART_EACH(at, &model)
        if (part_weight(&at) && part_weight(&at) != &model.embedding)
            panels += panels_bytes(part_weight(&at));
    for (available = panels; available - available / 8 < panels;)
        available++;
    for (int less = 1; less >= 0; less--) {
        bytes_available = available - (size_t)less;
        model_pack(&model, 1);
        CHECK(n_packed(&model) == (less ? 0 : 15),
              "%zu bytes for %zu of panels: %d weights packed", bytes_available,
              panels, n_packed(&model));
    }
    bytes_available = 0;
    model_close(&model);
}

/* A sparse file with only a header. */
static void holes_are_not_packed(void) {
    const char *path = temporary("dense.bin"),
               *sparse = temporary("sparse.bin");
    Model model;
    char header[28];
    CHECK(!open_medium(&model, path), "cannot make the model");
    long size = (long)model.files->size;
    model_close(&model);
    FILE *in = fopen(path, "rb"), *out = fopen(sparse, "wb");
    CHECK(in && out && fread(header, 1, sizeof header, in) == sizeof header,
          "cannot read");
    CHECK(fwrite(header, 1, sizeof header, out) == sizeof header &&
              !fflush(out),
          "cannot write");
    CHECK(!ftruncate(fileno(out), size), "cannot make holes");
    fclose(in);
    fclose(out);
    CHECK(!model_open(&model, sparse), "does not open");
    model_pack(&model, 2);
    CHECK(n_packed(&model) == 0, "%d weights packed", n_packed(&model));
    model_close(&model);
}

void suite_pack(void) {
    TEST(all_panels_or_none);
    TEST(an_eighth_is_left);
    TEST(holes_are_not_packed);
}
