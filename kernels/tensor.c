/* tensor.c: looks into the table of weight types. */
#include "kernels/tensor.h"

#include <string.h>

enum { N_TYPES = sizeof TYPES / sizeof *TYPES };

const char *type_name(Type type) { return TYPES[type].name; }
uint32_t type_to_gguf(Type type) { return (uint32_t)TYPES[type].gguf; }
int type_file_type(Type type) { return TYPES[type].file; }
int type_block(Type type) { return TYPES[type].weights; }
bool type_wants_bytes(Type type) { return type == TYPE_I8 || TYPES[type].group > 0; }

int type_from_gguf(uint32_t number, Type *type) {
    for (int i = 0; i < N_TYPES; i++)
        if (TYPES[i].gguf == (int64_t)number) {
            *type = (Type)i;
            return 0;
        }
    return -1;
}

int type_from_name(const char *name, Type *type) {
    for (int i = 0; i < N_TYPES; i++)
        if (TYPES[i].file >= 0 && !strcmp(TYPES[i].name, name)) {
            *type = (Type)i;
            return 0;
        }
    return -1;
}

size_t tensor_bytes(const Tensor *w, int rows) {
    const size_t n = (size_t)rows * (size_t)w->cols;
    if (w->type == TYPE_I8) return n + n / (size_t)w->group * sizeof(float);
    return n / (size_t)TYPES[w->type].weights * (size_t)TYPES[w->type].bytes;
}
