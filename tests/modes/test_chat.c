/* test_chat.c: conversations at a terminal and through a pipe. */
#include "base/file.h"
#include "formats/json.h"

#include "tests/support/binary.h"
#include "tests/support/test.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char model[PATH_MAX];

static bool open_model(void) {
    if (!*model) binary_folder("chat");
    return realpath("models/stories.gguf", model);
}

static int talk(const char *const *typed, const char *options) {
    setup.terminal = true;
    setup.typed = typed;
    return run("%s -m chat -n 12 -s 3 %s", model, options);
}

/* The content of message i of a saved conversation; "": there is none. The string is valid until the next call. */
static const char *message(const char *file, int i, const char *role) {
    static char content[1 << 16];
    JsonFile json;
    *content = '\0';
    if (json_open(&json, inside(file))) return content;
    const Json *m = json_members(json.values, JSON_ARRAY);
    while (m && i--) m = json_next(json.values, m);
    if (m && json_is(json_get(m, "role"), role))
        snprintf(content, sizeof content, "%s", json_shown(json_get(m, "content")));
    json_close(&json);
    return content;
}

static void a_paste_is_one_message(void) {
    static const char *const typed[] = {"\033[200~one\ntwo words\n\nfour\nfive\033[201~\n",
                                        "Read: \033[200~a\nb\033[201~ now\n",
                                        "\"\"\"x\ny\"\"\"\n",
                                        "/save c.json\n",
                                        "/bye\n",
                                        NULL};
    CHECK(open_model(), "models/stories.gguf is missing");
    CHECK(talk(typed, "-y 'Be kind.'") == 0, "status %d, %s", status, err);
    CHECK(!strcmp(message("c.json", 0, "system"), "Be kind."), "%s", message("c.json", 0, "system"));
    CHECK(!strcmp(message("c.json", 1, "user"), "one\ntwo words\n\nfour\nfive"), "%s", message("c.json", 1, "user"));
    CHECK(!strcmp(message("c.json", 3, "user"), "Read: a\nb now"), "%s", message("c.json", 3, "user"));
    CHECK(!strcmp(message("c.json", 5, "user"), "x\ny"), "%s", message("c.json", 5, "user"));
    CHECK(*message("c.json", 6, "assistant") && !*message("c.json", 7, "user"), "%s", err);
}

/* A file continues the conversation that it was saved from, and an answer to its last message follows. */
static void conversations_are_saved_and_loaded(void) {
    static const char *const typed[] = {"hello\n",
                                        "/save a.json\n",
                                        "/clear\n",
                                        "/load a.json\n",
                                        "/save b.json\n",
                                        "/regen\n",
                                        "/save c.json\n",
                                        "/load d.json\n",
                                        "/load e.json\n",
                                        "/save f.json\n",
                                        "\4",
                                        NULL};
    CHECK(open_model(), "models/stories.gguf is missing");
    write_file("d.json", "[{\"role\": \"assistant\", \"content\": \"A\"}]");
    write_file("e.json", "[{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", \"content\": \"U\"}]");
    CHECK(talk(typed, "") == 0, "status %d, %s", status, err);
    char first[1 << 12];
    snprintf(first, sizeof first, "%s", message("a.json", 1, "assistant"));
    CHECK(*first && !strcmp(message("b.json", 1, "assistant"), first), "loaded: '%s', saved '%s'",
          message("b.json", 1, "assistant"), first);
    CHECK(*message("c.json", 1, "assistant") && strcmp(message("c.json", 1, "assistant"), first), "/regen: '%s'",
          first);
    CHECK(strstr(err, "\"role\" is assistant, expected user, then assistant"), "%s", err);
    CHECK(!strcmp(message("f.json", 0, "system"), "S") && *message("f.json", 2, "assistant"), "%s", err);
}

/* The terminal cuts a line of 5,000 bytes; the next message is read. */
static void a_cut_line_is_reported(void) {
    static char line[5002];
    static const char *const typed[] = {line, "hello\n", "/save g.json\n", "\4", NULL};
    CHECK(open_model(), "models/stories.gguf is missing");
    memset(line, 'a', 5000);
    line[5000] = '\n';
    CHECK(talk(typed, "") == 0, "status %d, %s", status, err);
    CHECK(strstr(err, "note: ignored: a line that the terminal cut at 4095 bytes"), "%s", err);
    CHECK(!strcmp(message("g.json", 0, "user"), "hello"), "%s", message("g.json", 0, "user"));
}

/* With a full context the oldest turns go, and the answers go on. A pipe takes long lines. */
static void a_full_context_drops_the_oldest_turns(void) {
    static char input[21000];
    CHECK(open_model(), "models/stories.gguf is missing");
    memset(input, 'a', 20000);
    strcpy(input + 20000, "\nhello there\nand now\nwhat else\nthe end\n");
    setup.input = input;
    CHECK_RUN("%s -m chat -n 30 -s 3 -c 90 --json", model);
    int answers = 0, notes = 0;
    for (const char *s = out; (s = strstr(s, "\"tokens\": 30, \"finish_reason\": \"length\"}\n")); s++) answers++;
    for (const char *s = err; (s = strstr(s, "; dropped the oldest turns: ")); s++) notes++;
    CHECK(answers == 4 && notes >= 1 && strstr(err, "too small for the message"), "%d answers, %d notes: %s%s", answers,
          notes, out, err);
}

/* Messages of a file are rendered by the template, and each is answered as in a conversation of its own. */
static void prompts_are_messages(void) {
    CHECK(open_model(), "models/stories.gguf is missing");
    write_file("p.txt", "hello there\nand now\n");
    CHECK_RUN("%s -m chat --prompts p.txt -t 0 -n 60", model);
    char both[1 << 14];
    memcpy(both, out, sizeof both);
    for (int i = 0; i < 2; i++) {
        setup.input = i ? "and now\n" : "hello there\n";
        CHECK_RUN("%s -m chat -t 0 -n 60", model);
        const char *header = strstr(both, i ? "=== prompt 2" : "=== prompt 1"),
                   *text = header ? strchr(header, '\n') : NULL;
        const size_t n = text ? strcspn(text + 1, "\n") : 0; /* -n counts the prompt, too */
        CHECK(n > 20 && !strncmp(out, text + 1, n), "'%s', expected '%s'", both, out);
    }
}

void suite_chat(void) {
    TEST(a_full_context_drops_the_oldest_turns);
    TEST(prompts_are_messages);
    if (test_fast()) return;
    TEST(a_paste_is_one_message);
    TEST(conversations_are_saved_and_loaded);
    TEST(a_cut_line_is_reported);
}
