/* fuzz/jinja.c: libFuzzer target for chat templates.
 *
 * The input is a template. Messages contain the byte 1: where the template does
 * not, each such byte in the text must have the mark of a message.
 */
#include "formats/jinja.h"

#include "tests/fuzz/use.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    JinjaText out;
    char *template = malloc(size + 1);
    expect(template != NULL);
    memcpy(template, data, size);
    template[size] = '\0';
    bool may_write = strchr(template, 1) != NULL;
    bool none[10] = {false};
    char m[] = " \1x<\1>\xc3\xa9\1\n";
    JinjaText messages[] = {{m, none, sizeof none, "user"},
                            {m, none, sizeof none, "assistant"},
                            {m, none, sizeof none, "user"}};
    if (!jinja_render(&(JinjaInput){.path = "fuzz",
                                    .template = template,
                                    .tokens = {{"<s>", 3}, {"", 0}},
                                    .messages = messages,
                                    .n = 3,
                                    .opens_answer = true},
                      &out)) {
        const char *marks = (const char *)out.marks;
        for (size_t i = 0; i < out.n; i++) {
            expect(marks[i] == 0 || marks[i] == 1);
            expect(may_write || out.text[i] != 1 || marks[i] == 0);
        }
        free(out.text);
    }
    free(template);
    return 0;
}
