/* test_chat.c: conversations at a terminal and through a pipe. */
#include "base/file.h"
#include "base/process.h"
#include "formats/gguf_file.h"
#include "formats/json.h"

#include "tests/support/binary.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static char model[PATH_MAX];

static bool open_model(void) {
    if (!*model)
        binary_folder("chat");
    return realpath("models/stories.gguf", model);
}

static int talk(const char *const *typed, const char *options) {
    setup.terminal = true;
    setup.typed = typed;
    return run("%s -m chat --template llama-2 -n 12 -s 3 %s", model, options);
}

/* The content of message i of a saved conversation; "": there is none. The
 * string is valid until the next call. */
static const char *message(const char *file, int i, const char *role) {
    static char content[1 << 16];
    JsonFile json;
    *content = '\0';
    if (json_open(&json, inside(file)))
        return content;
    const Json *m = json_members(json.values, JSON_ARRAY);
    while (m && i--)
        m = m->next;
    if (m && json_is(json_get(m, "role"), role))
        snprintf(content, sizeof content, "%s",
                 json_shown(json_get(m, "content")));
    json_close(&json);
    return content;
}

/* The marks of a paste may be in one line, and of two pastes. */
static void a_paste_may_be_a_line(void) {
    static const char *const typed[] = {
        "\033[200~one line\033[201~\n",
        "\033[200~a\033[201~ and \033[200~b\033[201~\n",
        "\033[200~c\nd\033[201~ then \033[200~e\nf\033[201~\n",
        "/save p1.json\n",
        "/bye\n",
        NULL};
    CHECK(open_model(), "models/stories.gguf is missing");
    CHECK(talk(typed, "") == 0, "status %d, %s", status, err);
    CHECK(!strcmp(message("p1.json", 0, "user"), "one line"), "%s",
          message("p1.json", 0, "user"));
    CHECK(!strcmp(message("p1.json", 2, "user"), "a and b"), "%s",
          message("p1.json", 2, "user"));
    CHECK(!strcmp(message("p1.json", 4, "user"), "c\nd then e\nf"), "%s",
          message("p1.json", 4, "user"));
}

static void a_paste_is_one_message(void) {
    static const char *const typed[] = {
        "\033[200~one\ntwo words\n\nfour\nfive\033[201~\n",
        "Read: \033[200~a\nb\033[201~ now\n",
        "\"\"\"x\ny\"\"\"\n",
        "\033[200~\"\"\"doc\nstring\033[201~\n",
        "/save c.json\n",
        "/bye\n",
        NULL};
    CHECK(open_model(), "models/stories.gguf is missing");
    CHECK(talk(typed, "-y 'Be kind.'") == 0, "status %d, %s", status, err);
    CHECK(!strcmp(message("c.json", 0, "system"), "Be kind."), "%s",
          message("c.json", 0, "system"));
    CHECK(!strcmp(message("c.json", 1, "user"), "one\ntwo words\n\nfour\nfive"),
          "%s", message("c.json", 1, "user"));
    CHECK(!strcmp(message("c.json", 3, "user"), "Read: a\nb now"), "%s",
          message("c.json", 3, "user"));
    CHECK(!strcmp(message("c.json", 5, "user"), "x\ny"), "%s",
          message("c.json", 5, "user"));
    CHECK(!strcmp(message("c.json", 7, "user"), "\"\"\"doc\nstring"), "%s",
          message("c.json", 7, "user"));
    CHECK(*message("c.json", 8, "assistant") && !*message("c.json", 9, "user"),
          "%s", err);
}

/* Lines of Windows' editors are the same messages: no byte order mark, no CR,
 * no message in an empty line. UTF-16 is refused. */
static void piped_lines_may_come_from_windows(void) {
    static const char *const forms[] = {
        "One cat.\nTwo\n", "One cat.\r\nTwo\r\n", "One cat.\r\n\r\nTwo\r",
        "\xef\xbb\xbfOne cat.\nTwo\n", "\xef\xbb\xbfOne cat.\r\n\r\nTwo\r\n"};
    static char answers[1 << 12], prompts[1 << 13];
    CHECK(open_model(), "models/stories.gguf is missing");
    for (int i = 0; i < 5; i++) {
        setup.input = forms[i];
        CHECK_RUN("%s -m chat --template llama-2 -n 12 -s 3 --verbose-prompt",
                  model);
        if (i == 0) {
            snprintf(answers, sizeof answers, "%.4000s", out);
            snprintf(prompts, sizeof prompts, "%.8000s", err);
        }
        CHECK(*answers && strstr(err, " cat"), "'%s', %s", out, err);
        CHECK(!strcmp(out, answers), "form %d: '%s', expected '%s'", i, out,
              answers);
        CHECK(!strcmp(err, prompts), "form %d: %s, expected %s", i, err,
              prompts);
    }
    setup.input = "\xff\xfeHi\n";
    CHECK(run("%s -m chat --template llama-2 -n 12", model) == 1 &&
              one_line(err) &&
              strstr(err, "standard input: is UTF-16, expected UTF-8"),
          "status %d, %s", status, err);
}

/* A file continues the conversation that it was saved from, and an answer to
 * its last message follows. */
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
                                        "/load d.json\n",
                                        "/save g.json\n",
                                        "\4",
                                        NULL};
    CHECK(open_model(), "models/stories.gguf is missing");
    write_file("d.json", "[{\"content\": \"A\"}]");
    write_file(
        "e.json",
        "[{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", \"content\": \"U\"}]");
    CHECK(talk(typed, "") == 0, "status %d, %s", status, err);
    char first[1 << 12];
    snprintf(first, sizeof first, "%s", message("a.json", 1, "assistant"));
    CHECK(*first && !strcmp(message("b.json", 1, "assistant"), first),
          "loaded: '%s', saved '%s'", message("b.json", 1, "assistant"), first);
    CHECK(*message("c.json", 1, "assistant") &&
              strcmp(message("c.json", 1, "assistant"), first),
          "/regen: '%s'", first);
    CHECK(strstr(err, "\"role\" is missing, expected a text") &&
              strstr(err, "note: a.json: loaded; messages: 2\n") &&
              strstr(err, "note: a.json: saved; messages: 2\n"),
          "%s", err);
    CHECK(!strcmp(message("f.json", 0, "system"), "S") &&
              *message("f.json", 2, "assistant"),
          "%s", err);
    CHECK(!strcmp(message("g.json", 2, "assistant"),
                  message("f.json", 2, "assistant")),
          "a bad file cleared it: %s", err);
}

/* The bytes of a file, at most 4095. */
static const char *text_of(const char *name) {
    static char text[1 << 12];
    FILE *in = fopen(inside(name), "rb");
    text[in ? fread(text, 1, sizeof text - 1, in) : 0] = '\0';
    if (in)
        fclose(in);
    return text;
}

/* Neither an input, under any name, nor a file that is no conversation is
 * replaced; the latter is, if "!" asks for it. A conversation that was loaded
 * can be saved again. */
static void saving_replaces_no_other_file(void) {
    static const char *const typed[] = {"/save in.gguf\n",
                                        "/save! in.gguf\n",
                                        "/save! same.gguf\n",
                                        "/save in.jinja\n",
                                        "/save! in.jinja\n",
                                        "/save notes.txt\n",
                                        "/save list.json\n",
                                        "/load old.json\n",
                                        "/save old.json\n",
                                        "/save! more.txt\n",
                                        "/save new.json\n",
                                        "/save new.json\n",
                                        "/bye\n",
                                        NULL};
    char command[2 * PATH_MAX + 64];
    CHECK(open_model(), "models/stories.gguf is missing");
    snprintf(command, sizeof command, "cp %s %s", model, inside("in.gguf"));
    CHECK(!system(command) && !link(inside("in.gguf"), inside("same.gguf")),
          "no copy");
    /* a template that could be a conversation */
    write_file("in.jinja", "[]");
    write_file("notes.txt", "notes");
    write_file("more.txt", "more");
    write_file("list.json", "[1]");
    write_file("old.json", "[{\"role\": \"user\", \"content\": \"U\"}]");
    setup.terminal = true;
    setup.typed = typed;
    CHECK_RUN("in.gguf -m chat --template in.jinja -n 3 -s 3");
    CHECK(!strncmp(text_of("in.gguf"), "GGUF", 4) &&
              !strncmp(text_of("same.gguf"), "GGUF", 4),
          "the model is replaced");
    CHECK(!strcmp(text_of("in.jinja"), "[]"), "the template is replaced");
    CHECK(!strcmp(text_of("notes.txt"), "notes"), "%s", text_of("notes.txt"));
    CHECK(!strcmp(text_of("list.json"), "[1]"), "%s", text_of("list.json"));
    CHECK(*message("old.json", 1, "assistant"), "%s", text_of("old.json"));
    CHECK(*message("more.txt", 1, "assistant"), "%s", text_of("more.txt"));
    CHECK(*message("new.json", 1, "assistant"), "%s", text_of("new.json"));
    int inputs = 0, others = 0;
    for (const char *s = err; (s = strstr(s, ": is an input of this run")); s++)
        inputs++;
    for (const char *s = err; (s = strstr(s, ": is no conversation")); s++)
        others++;
    CHECK(inputs == 5 && others == 2, "%d inputs, %d others: %s", inputs,
          others, err);
}

/* A template that writes nothing for a single message, so that no prompt is
 * left after the oldest turns are dropped, and a tokenizer without BOS. */
static void an_empty_prompt_ends_a_chat(void) {
    static GgufFile file;
    static const HashModel tiny = {16, 16, 1, 2, 1, 1600, 64, false, 9};
    CHECK(open_model(), "models/stories.gguf is missing");
    gguf_make(&file, &tiny, 0);
    gguf_add_tokenizer(&file, 1600, &(GgufPiece){"\xc2\xb7", 1}, 1);
    gguf_set(&file, "tokenizer.ggml.add_bos_token", GGUF_BOOL, "", 1);
    gguf_set_text(
        &file, "tokenizer.chat_template",
        "{% if messages|length > 1 or messages[0].content == 'a' %}{% for m in messages %}{{ m.content }}{% endfor %}"
        "{% endif %}");
    gguf_write(&file, inside("empty.gguf"));
    gguf_free(&file);
    setup.input = "a\naa ba aa ba\naa ba aa ba\naa ba aa ba\n";
    run("empty.gguf -m chat -n 0 -s 3 -t 3");
    CHECK(status == 1 && strstr(err, "the chat template writes no text"),
          "status %d, %s", status, err);
}

/* Pieces of an answer that together spell a control piece stay what they are in
 * the next prompt. */
static void an_answer_spells_no_special_token(void) {
    static GgufFile file;
    static const HashModel tiny = {16, 16, 1, 2, 1, 1600, 64, false, 9};
    char marker[5] = "<x>", answer[10] = "";
    CHECK(open_model(), "models/stories.gguf is missing");
    for (int i = 0; i < 2; i++) {
        gguf_make(&file, &tiny, 0);
        gguf_add_tokenizer(&file, 1600, &(GgufPiece){marker, 3}, 1);
        gguf_set_text(&file, "tokenizer.chat_template",
                      "{% for m in messages %}{{ m.content }}{% endfor %}");
        gguf_write(&file, inside("spells.gguf"));
        gguf_free(&file);
        setup.input = "aa ba\naa\n";
        CHECK_RUN("spells.gguf -m chat -n 6 -t 0 --verbose-prompt");
        if (i == 0)
            snprintf(answer, sizeof answer, "%.9s", out);
        memcpy(marker, answer + 3, 4);
        CHECK(strlen(answer) == 9 && !strchr(answer, '\n') &&
                  !strncmp(out, answer, 9),
              "'%s', then '%s'", answer, out);
    }
    CHECK(!strstr(err, "   1599  '"), "'%s' is a token: %s", marker, err);
}

/* Dropped turns do not count in the next conversation. */
static void a_cleared_conversation_begins_anew(void) {
    static const char *const typed[] = {
        "hello there\n",   "and now\n", "what else\n",
        "the end\n",       "/clear\n",  "hello\n",
        "/save cl.json\n", "/bye\n",    NULL};
    CHECK(open_model(), "models/stories.gguf is missing");
    char answer[256];
    CHECK(talk(typed + 5, "-t 0 -c 90") == 0, "status %d, %s", status, err);
    snprintf(answer, sizeof answer, "%s", message("cl.json", 1, "assistant"));
    CHECK(talk(typed, "-t 0 -c 90") == 0, "status %d, %s", status, err);
    CHECK(strstr(err, "; dropped the oldest turns: 2\n") &&
              strstr(err, "note: a new conversation\n"),
          "%s", err);
    CHECK(*answer && !strcmp(message("cl.json", 1, "assistant"), answer),
          "'%s', expected '%s': %s", message("cl.json", 1, "assistant"), answer,
          err);
}

/* A BOS with the id 0 begins an empty prompt; a vocabulary without BOS and EOS
 * needs a text. */
static void an_empty_prompt_needs_a_first_token(void) {
    static const HashModel tiny = {16, 16, 1, 2, 1, 300, 64, false, 9};
    static GgufFile file;
    CHECK(open_model(), "models/stories.gguf is missing");
    for (int first = 0; first < 2; first++) {
        gguf_make(&file, &tiny, 0);
        gguf_add_tokenizer(&file, 300, NULL, 0);
        gguf_set_int(&file, "tokenizer.ggml.bos_token_id", first ? -1 : 0);
        gguf_set_int(&file, "tokenizer.ggml.eos_token_id", -1);
        gguf_set(&file, "tokenizer.ggml.add_bos_token", GGUF_BOOL, "", 1);
        gguf_write(&file, inside("first.gguf"));
        gguf_free(&file);
        run("first.gguf -n 5 -t 0 -i ''");
        CHECK(first ? status == 1 && strstr(err, "the prompt is empty")
                    : status == 0 && n_out > 1,
              "BOS %d: status %d, %s", first ? -1 : 0, status, err);
    }
}

/* A stop string at the beginning of a long token: the token's bytes are not in
 * the answer. (The token is so long that a write beyond the answer ends the
 * program.) */
static void an_answer_ends_in_a_long_token(void) {
    enum { VOCAB = 1000, LENGTH = 3000 };
    static char text[LENGTH + 1];
    static const HashModel tiny = {16, 16, 1, 2, 1, VOCAB, 64, false, 9};
    int max_length = LENGTH;
    CHECK(open_model(), "models/stories.gguf is missing");
    hashmodel_write(&tiny, inside("long.bin"), 0, 0);
    FILE *tokenizer = fopen(inside("long.tok"), "wb");
    CHECK(tokenizer, "no tokenizer");
    fwrite(&max_length, sizeof max_length, 1, tokenizer);
    for (int i = 0; i < VOCAB; i++) {
        float score = -(float)i;
        if (i < 3 || i >= 259 + 95) { /* after the bytes and ASCII */
            memset(text, 'z', LENGTH);
            snprintf(text + LENGTH - 4, 5, "%u", (unsigned)i % 10000);
        } else
            sprintf(text, i < 259 ? "<0x%02X>" : "%c",
                    i < 259 ? i - 3 : ' ' + i - 259);
        int n = (int)strlen(text);
        fwrite(&score, sizeof score, 1, tokenizer);
        fwrite(&n, sizeof n, 1, tokenizer);
        fwrite(text, 1, (size_t)n, tokenizer);
    }
    fclose(tokenizer);
    setup.input = "a\nb\nc\nd\n";
    CHECK_RUN(
        "long.bin -z long.tok -m chat --template chatml -n 9 -s 3 -t 5 --stop z");
    CHECK(!strchr(out, 'z') && n_out > 4, "%s", out);
}

/* A zero byte ends a C string: what follows it would be lost. */
static void zero_bytes_are_refused(void) {
    CHECK(open_model(), "models/stories.gguf is missing");
    write_file(
        "z.jsonl",
        "{\"prompt\": \"a\\u0000b\"}\n{\"messages\": [{\"role\": \"user\", \"content\": "
        "\"a\\u0000b\"}]}\n{\"prompt\": \"a\"}\n");
    run("%s -m chat --prompts z.jsonl -t 0 -n 3", model);
    CHECK(status == 1 && strstr(err, "z.jsonl: line 1: a zero byte") &&
              strstr(err, "z.jsonl: line 2: \"content\" is a, expected a text"),
          "status %d: %s", status, err);
    CHECK(strstr(out, "=== prompt 3") && !strstr(out, "=== prompt 1"), "%s",
          out);
}

/* /set changes the sampling as the option does, or refuses as it does. */
static void set_changes_the_sampling(void) {
    static const char *const typed[] = {"/set temperature 0\n",
                                        "/set temperature 5000\n",
                                        "/set top-x 1\n",
                                        "/set color 1\n",
                                        "/set -t 0,2\n",
                                        "/set temperature\n",
                                        "/set top-k 1.5\n",
                                        "hello there\n",
                                        "/save set.json\n",
                                        "/bye\n",
                                        NULL};
    static const char *const greedy[] = {"hello there\n", "/save greedy.json\n",
                                         "/bye\n", NULL};
    static const char *const lines[] = {
        "note: temperature 0: from the next answer on\n",
        "run: --temperature is '5000', expected a number from 0 to 1000\n",
        "run: /set: 'top-x 1'; did you mean top-p?\n",
        "run: /set: 'color 1', expected a value after one of steps, temperature, top-p, top-k, min-p, ",
        "run: /set: --temperature lacks a value: T\n",
        "run: --temperature is '0,2', expected a number from 0 to 1000; decimals follow a point\n",
        "run: --top-k is '1.5', expected a whole number from 0 to "};
    char answer[1 << 10];
    CHECK(open_model(), "models/stories.gguf is missing");
    CHECK(talk(typed, "") == 0, "status %d, %s", status, err);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        CHECK(strstr(err, lines[i]), "no '%s' in %s", lines[i], err);
    snprintf(answer, sizeof answer, "%s", message("set.json", 1, "assistant"));
    CHECK(talk(greedy, "-t 0 --repeat-penalty 1.1") == 0, "status %d, %s",
          status, err);
    CHECK(*answer && !strcmp(message("greedy.json", 1, "assistant"), answer),
          "'%s', with -t 0 '%s'", answer,
          message("greedy.json", 1, "assistant"));
    CHECK(talk(greedy, "") == 0 &&
              strcmp(message("greedy.json", 1, "assistant"), answer) != 0,
          "sampled: '%s'", answer);
}

/* Commands that show, undo, load and complete; what they lack is said. */
static void commands_do_what_help_says(void) {
    static const char *const typed[] = {"/undo\n",
                                        "/show\n",
                                        "/regen\n",
                                        "hello there\n",
                                        "and now\n",
                                        "/undo\n",
                                        "/save u.json\n",
                                        "/show\n",
                                        "/set\n",
                                        "/set system Be kind\n",
                                        "/set n 3\n",
                                        "/save v.json\n",
                                        "/save\n",
                                        "/lod x\n",
                                        "/show me\n",
                                        "/load u.js\t\n",
                                        "/load ~/u.json\n",
                                        "/set thi\to\tn\n",
                                        "/help\n",
                                        "/bye\n",
                                        NULL};
    static const char *const lines[] = {
        "note: there is no message to remove\n",
        "note: the conversation is empty\n",
        "note: there is no answer yet\n",
        "note: removed the last message and its answer; messages: 2\n",
        "note: u.json: saved; messages: 2\n",
        "User: hello there\n",
        "\ntemperature     0\n",
        "\nsystem          not set\n",
        "note: system Be kind: from the next answer on\n",
        "note: n 3: from the next answer on\n",
        "note: /save lacks the name of a file: /save FILE\n",
        "note: unknown command /lod; did you mean /load? ",
        "note: /show takes no argument: 'me'\n",
        "note: u.json: loaded; messages: 2\n",
        "/u.json: loaded; messages: 2\n",
        "note: think on: from the next answer on\n",
        "/undo   removes the last message and answer\n"};
    static char home[PATH_MAX + 8];
    CHECK(open_model(), "models/stories.gguf is missing");
    snprintf(home, sizeof home, "HOME=%s", inside(""));
    putenv(home);
    CHECK(talk(typed, "-t 0") == 0, "status %d, %s", status, err);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        CHECK(strstr(err, lines[i]), "no '%s' in %s", lines[i], err);
    CHECK(!strcmp(message("v.json", 0, "system"), "Be kind") &&
              !strcmp(message("v.json", 1, "user"), "hello there") &&
              !*message("v.json", 3, "user"),
          "%s", err);
    /* --load goes on with the conversation */
    static const char *const more[] = {"and now\n", "/save w.json\n", "/bye\n",
                                       NULL};
    CHECK(talk(more, "-t 0 --load u.json") == 0, "status %d, %s", status, err);
    CHECK(!strcmp(message("w.json", 0, "user"), "hello there") &&
              !strcmp(message("w.json", 2, "user"), "and now"),
          "%s", err);
    run("%s -m chat --load missing.json", model);
    CHECK(status == 1 && strstr(err, "missing.json: "), "status %d, %s", status,
          err);
}

/* A system prompt that a file brings is shown wherever settings and messages
 * are, and stays until another comes. */
static void a_loaded_system_prompt_is_shown(void) {
    static const char *const typed[] = {
        "/set\n",  "/load robot.json\n",    "/set\n", "/clear\n",
        "/show\n", "/set system Be kind\n", "/set\n", "/bye\n",
        NULL};
    static const char *const lines[] = {
        "\nsystem          Be brief\n",
        "note: robot.json: loaded; messages: 2; its system prompt holds\n",
        "System: You are a robot.", "\nsystem          You are a robot.",
        "\nsystem          Be kind\n"};
    CHECK(open_model(), "models/stories.gguf is missing");
    write_file(
        "robot.json",
        "[{\"role\": \"system\", \"content\": \"You are a "
        "robot.\\u001b[5mB\"}, {\"role\": \"user\", \"content\": \"a\"}, "
        "{\"role\": \"assistant\", \"content\": \"b\"}]");
    CHECK(talk(typed, "-t 0 -y 'Be brief'") == 0, "status %d, %s", status, err);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        CHECK(strstr(err, lines[i]), "no '%s' in %s", lines[i], err);
}

/* Messages of one session come back in the next; a pipe and --no-history keep
 * none. */
static void messages_come_back_later(void) {
    static const char *const first[] = {"hello there\n", " hidden\n", "/bye\n",
                                        NULL};
    static const char *const second[] = {"\033[A\033[A!\n", "/save h.json\n",
                                         "/bye\n", NULL};
    CHECK(open_model(), "models/stories.gguf is missing");
    remove(inside("state/norma/history"));
    setup.input = "from a pipe\n";
    run("%s -m chat -n 3", model);
    CHECK(status == 0 && !file_exists(inside("state/norma/history")),
          "a pipe's message is kept");
    CHECK(talk(first, "--no-history") == 0 &&
              !file_exists(inside("state/norma/history")),
          "status %d, %s", status, err);
    CHECK(talk(first, "") == 0 && talk(second, "") == 0, "status %d, %s",
          status, err);
    CHECK(!strcmp(message("h.json", 0, "user"), "hello there!"), "'%s', %s",
          message("h.json", 0, "user"), err);
    remove(inside("state/norma/history"));
}

/* Keys edit the message, and what they cannot edit is not in it. */
static void what_is_shown_is_sent(void) {
    static const char *const typed[] = {"hello\033[D\033[DXX\n",
                                        "\033[A!\n",
                                        "a\001b\n",
                                        "a\tb\xc3\xa9\n",
                                        "\033[200~c\033[31md\033[201~\n",
                                        "\"\"\"x\n\ny\033\rz\"\"\"\n",
                                        "/save k.json\n",
                                        "/bye\n",
                                        NULL};
    static const char *const expected[] = {
        "helXXlo", "helXXlo!", "ba", "a\tb\xc3\xa9", "cd", "x\n\ny\nz"};
    CHECK(open_model(), "models/stories.gguf is missing");
    CHECK(talk(typed, "") == 0, "status %d, %s", status, err);
    for (int i = 0; i < 6; i++)
        CHECK(!strcmp(message("k.json", 2 * i, "user"), expected[i]),
              "message %d is '%s', expected '%s'", i,
              message("k.json", 2 * i, "user"), expected[i]);
    CHECK(!*message("k.json", 12, "user"), "more messages");
    CHECK(strstr(terminal_text, "User: helXXlo"), "terminal_text: %s",
          terminal_text);
}

/* A paste of 100 KB, more than a terminal's queue, is shown as it is sent. */
static void a_long_paste_is_shown(void) {
    static char typed_text[(1 << 17) + 64], text[1 << 17],
        seen[sizeof terminal_text];
    const char *const typed[] = {typed_text, "\4", NULL};
    size_t n = 0, n_seen = 0;
    for (int i = 0; n < 100000; i++)
        n += (size_t)sprintf(text + n, "line %d of \xe4\xbd\xa0\n", i);
    sprintf(typed_text, "\033[200~%s\033[201~end\n", text);
    CHECK(open_model(), "models/stories.gguf is missing");
    CHECK(talk(typed, "") == 0, "status %d, %s", status, err);
    CHECK(strstr(err, "is too small for the message"), "%s", err);
    for (const char *c = terminal_text; *c; c++)
        if (*c != '\r')
            seen[n_seen++] = *c;
    CHECK(strstr(seen, strcat(text, "end\n")), "not shown");
}

/* `< /dev/tty` opens a terminal only for reading: it edits lines itself. */
static void nothing_is_drawn_where_nothing_can_be(void) {
    static const char *const typed[] = {"hello\n", "/save r.json\n", "/bye\n",
                                        NULL};
    CHECK(open_model(), "models/stories.gguf is missing");
    setup.read_only = true;
    CHECK(talk(typed, "") == 0 && ended_as_before, "status %d, %s", status,
          err);
    CHECK(!strcmp(message("r.json", 0, "user"), "hello"), "%s", err);
}

/* Every way out leaves the terminal as it was. */
static void the_terminal_is_set_back(void) {
    static const char *const ends[][3] = {{"/bye\n", NULL},
                                          {"\4", NULL},
                                          {"a\177\4", NULL},
                                          {"hello\n", "\4", NULL}};
    CHECK(open_model(), "models/stories.gguf is missing");
    for (int i = 0; i < 4; i++) {
        CHECK(talk(ends[i], "") == 0, "way %d: status %d, %s", i, status, err);
        CHECK(ended_as_before && !prompts_as_before, "way %d", i);
    }
    setup.interrupt = AT_PROMPT;
    CHECK(talk(NULL, "") == 130 && ended_as_before, "Ctrl-C: status %d",
          status);
    setup.closed_output = true;
    CHECK(talk(ends[3], "") == KILLED + SIGPIPE && ended_as_before,
          "a closed pipe: status %d", status);
}

static void two_slashes_begin_a_message(void) {
    static const char *const typed[] = {
        "//hello\n",        "/nothing\n", "/usr/lib:\033\rb\n",
        "/save s.json  \n", "/bye \n",    NULL};
    CHECK(open_model(), "models/stories.gguf is missing");
    CHECK(talk(typed, "") == 0, "status %d, %s", status, err);
    CHECK(strstr(err, "unknown command /nothing; "), "%s", err);
    CHECK(!strcmp(message("s.json", 0, "user"), "/hello") &&
              !strcmp(message("s.json", 2, "user"), "/usr/lib:\nb") &&
              !*message("s.json", 4, "user"),
          "'%s', '%s'", message("s.json", 0, "user"),
          message("s.json", 2, "user"));
}

/* TERM at the prompt leaves the terminal with its first settings. */
static void a_signal_restores_the_terminal(void) {
    static const int signals[] = {SIGTERM, SIGHUP, SIGQUIT};
    CHECK(open_model(), "models/stories.gguf is missing");
    for (int i = 0; i < 3; i++) {
        setup.terminal = true;
        setup.interrupt = AT_PROMPT;
        setup.signal = signals[i];
        run("%s -m chat", model);
        CHECK(status == KILLED + signals[i] && ended_as_before &&
                  !prompts_as_before,
              "status %d, echo %d, at the prompt %d", status, ended_as_before,
              prompts_as_before);
    }
}

/* An answer that a file begins goes on, in /load and in a line of prompts; a
 * conversation that the template refuses is not loaded. */
static void a_begun_answer_goes_on(void) {
    static const char *const typed[] = {
        "/load begun.json\n", "/save l.json\n", "/load turns.json\n",
        "/save m.json\n",     "/bye\n",         NULL};
    CHECK(open_model(), "models/stories.gguf is missing");
    write_file(
        "begun.json",
        "[{\"role\": \"user\", \"content\": \"hello\"}, {\"role\": \"assistant\", \"content\": "
        "\"Once upon\", \"continue\": true}]");
    write_file("turns.json", "[{\"role\": \"tool\", \"content\": \"U\"}]");
    write_file(
        "turns.jinja",
        "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}"
        "{{ '[' + m.role + ']' + m.content }}{% endfor %}");
    CHECK(talk(typed, "-t 0 --template turns.jinja") == 0, "status %d, %s",
          status, err);
    const char *answer = message("l.json", 1, "assistant");
    CHECK(!strncmp(answer, "Once upon", 9) && strlen(answer) > 12 &&
              !strncmp(out, answer + 9, strlen(answer) - 9),
          "'%s', shown '%s'", answer, out);
    CHECK(strstr(err, "refused: no tools") &&
              !strcmp(message("m.json", 0, "user"), "hello"),
          "%s", err);
    char expected[256];
    snprintf(expected, sizeof expected, "%.255s", out);
    write_file(
        "begun.jsonl",
        "{\"messages\": [{\"role\": \"user\", \"content\": \"hello\"}, {\"role\": \"assistant\", "
        "\"content\": \"Once upon\"}]}\n{\"messages\": [{\"role\": \"tool\", \"content\": \"3\"}]}\n"
        "{\"prompt\": \"a\"}\n");
    run("%s -m chat --prompts begun.jsonl -t 0 -n 12 --template turns.jinja",
        model);
    const char *text = strchr(out, '\n');
    CHECK(status == 1 && strstr(err, "refused: no tools") &&
              strstr(out, "=== prompt 3"),
          "status %d: %s", status, err);
    CHECK(text && !strncmp(text + 1, expected, strlen(expected) - 1),
          "'%s', expected '%s'", out, expected);
}

/* Ctrl-Z stops the program with the terminal as it was before; afterwards the
 * conversation goes on. */
static void ctrl_z_suspends_a_chat(void) {
    static const char *const typed[] = {"hello\n",        "\x1a",   "and now\n",
                                        "/save i.json\n", "/bye\n", NULL};
    CHECK(open_model(), "models/stories.gguf is missing");
    CHECK(talk(typed, "") == 0, "status %d, %s", status, err);
    CHECK(suspended_as_before, "the terminal was not set back");
    CHECK(!prompts_as_before, "the terminal was not set again");
    CHECK(!strcmp(message("i.json", 2, "user"), "and now") &&
              *message("i.json", 3, "assistant"),
          "'%s': %s", message("i.json", 2, "user"), err);
}

/* An answer ends before a stop string, in the conversation, too. */
static void a_stop_string_is_no_part_of_an_answer(void) {
    static const char *const typed[] = {"hello\n", "/save j.json\n", "/bye\n",
                                        NULL};
    char whole[1 << 12], stop[8] = "";
    CHECK(open_model(), "models/stories.gguf is missing");
    CHECK(talk(typed, "-n 40 -t 1") == 0, "status %d, %s", status, err);
    snprintf(whole, sizeof whole, "%s", message("j.json", 1, "assistant"));
    CHECK(strlen(whole) > 30, "%s", whole);
    memcpy(stop, whole + 20, 5);
    char option[64];
    snprintf(option, sizeof option, "-n 40 -t 1 --stop '%s'", stop);
    CHECK(talk(typed, option) == 0, "status %d, %s", status, err);
    const char *answer = message("j.json", 1, "assistant"),
               *shown = out + (*out == ' '); /* the tokenizer's */
    size_t n = strlen(answer);
    CHECK(n > 0 && n <= 20 && !strncmp(answer, whole, n) &&
              !strncmp(shown, whole, 20) && shown[20] == '\n',
          "--stop '%s': '%s', saved '%s'", stop, out, answer);
}

/* A line may have a whole conversation, also with two messages of the user in a
 * row, but one without messages is refused. */
static void prompts_are_conversations(void) {
    static const char *const roles[] = {"system", "user", "assistant", "user"};
    static const char *const texts[] = {"Be kind.", "hello", "Hi!", "and now"};
    CHECK(open_model(), "models/stories.gguf is missing");
    char list[1 << 10] = "[", line[1 << 11], answers[2][256];
    for (int i = 0; i < 4; i++)
        sprintf(list + strlen(list),
                "%s{\"role\": \"%s\", \"content\": \"%s\"}", i ? ", " : "",
                roles[i], texts[i]);
    snprintf(
        line, sizeof line,
        "{\"messages\": %s]}\n{\"prompt\": \"and now\"}\n{\"messages\": [{\"role\": \"system\", \"content\": "
        "\"x\"}]}\n{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"user\", \"content\": "
        "\"y\"}]}\n",
        list);
    write_file("q.jsonl", line);
    strcat(list, "]");
    write_file("q.json", list);
    run("%s -m chat --template llama-2 --prompts q.jsonl -t 0 -n 12 --json",
        model);
    CHECK(status == 1 &&
              strstr(err, "q.jsonl: line 3: the last message is empty"),
          "%d: %s", status, err);
    CHECK(!strstr(err, "line 4") && strstr(out, "\"prompt\": \"y\""), "%s%s",
          err, out);
    JsonFile json;
    char *second = strchr(out, '\n');
    CHECK(second, "%s", out);
    for (int i = 0; i < 2; i++) {
        const char *text = i ? second + 1 : out;
        CHECK(!json_parse(&json, "output", text, strcspn(text, "\n")), "%s",
              out);
        CHECK(json_is(json_get(json.values, "prompt"), "and now"), "%s", out);
        snprintf(answers[i], sizeof answers[i], "%s",
                 json_shown(json_get(json.values, "completion")));
        json_close(&json);
    }
    static const char *const typed[] = {"/load q.json\n", "/save k.json\n",
                                        "/bye\n", NULL};
    CHECK(talk(typed, "-t 0") == 0, "status %d, %s", status, err);
    CHECK(!strcmp(message("k.json", 4, "assistant"),
                  answers[0] + (*answers[0] == ' ')) &&
              strcmp(answers[0], answers[1]),
          "'%s' and '%s', in a conversation '%s'", answers[0], answers[1],
          message("k.json", 4, "assistant"));
}

/* The terminal cuts a line of 5,000 bytes; the next message is read. */
static void a_cut_line_is_reported(void) {
    static char line[5002];
    static const char *const typed[] = {line, "hello\n", "/save g.json\n", "\4",
                                        NULL};
    CHECK(open_model(), "models/stories.gguf is missing");
    memset(line, 'a', 5000);
    line[5000] = '\n';
    setup.environment = "TERM=dumb";
    CHECK(talk(typed, "") == 0, "status %d, %s", status, err);
    CHECK(strstr(err,
                 "note: ignored: a line that the terminal cut at 4095 bytes"),
          "%s", err);
    CHECK(!strcmp(message("g.json", 0, "user"), "hello"), "%s",
          message("g.json", 0, "user"));
}

/* With a full context the oldest turns go, and the answers go on. A pipe takes
 * long lines. */
static void a_full_context_drops_the_oldest_turns(void) {
    static char input[21000];
    CHECK(open_model(), "models/stories.gguf is missing");
    memset(input, 'a', 20000);
    strcpy(input + 20000, "\nhello there\nand now\nwhat else\nthe end\n");
    setup.input = input;
    run("%s -m chat -n 30 -s 3 -c 90 --json", model);
    CHECK(status == 1, "status %d, %s", status, err);
    int answers = 0, notes = 0;
    for (const char *s = out;
         (s = strstr(s, "\"tokens\": 30, \"finish_reason\": \"length\"}\n"));
         s++)
        answers++;
    for (const char *s = err;
         (s = strstr(s, "; dropped the oldest turns: 1\n")); s++)
        notes++;
    CHECK(answers == 4 && notes >= 1 &&
              strstr(err, "too small for the message"),
          "%d answers, %d notes: %s%s", answers, notes, out, err);
}

/* What a terminal shows of a chat whose messages come from a pipe. */
static const char *shown(const char *messages, char **args) {
    static char text[1 << 14];
    const char *binary = getenv("NORMA_RUN");
    size_t n = 0;
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    write_file("messages", messages);
    if (terminal < 0 || grantpt(terminal) || unlockpt(terminal))
        return "no terminal";
    pid_t pid = fork();
    if (!pid) {
        setenv("NO_COLOR", "1", 1);
        int screen = open(ptsname(terminal), O_RDWR | O_NOCTTY);
        if (dup2(open(inside("messages"), O_RDONLY), 0) == 0 &&
            dup2(screen, 1) == 1 && dup2(screen, 2) == 2)
            execv(binary ? binary : "./run", args);
        _exit(127);
    }
    /* EIO once the program has ended */
    for (ssize_t more;
         (more = read(terminal, text + n, sizeof text - 1 - n)) > 0;
         n += (size_t)more) {
    }
    waitpid(pid, &status, 0);
    close(terminal);
    text[n] = '\0';
    return text;
}

/* A run on a terminal of its own. */
typedef struct {
    int terminal, screen; /* the side of the tests, the side of the run */
    pid_t pid;
} OnTerminal;

/* Reads what the run shows until `text` is in it. Returns whether it is. */
static bool is_shown(const OnTerminal *r, const char *text) {
    static char shown_so_far[1 << 14];
    size_t n = 0;
    struct pollfd output = {.fd = r->terminal, .events = POLLIN};
    memset(shown_so_far, 0, sizeof shown_so_far);
    while (n < sizeof shown_so_far - 1 && !strstr(shown_so_far, text)) {
        if (poll(&output, 1, 60000) <= 0)
            return false;
        const ssize_t more =
            read(r->terminal, shown_so_far + n, sizeof shown_so_far - 1 - n);
        if (more <= 0)
            return false;
        n += (size_t)more;
    }
    return true;
}

/* Starts a run, which an alarm ends if it hangs. `owns`: as its terminal's
 * session under nohup, which the terminal's end leaves alone. Returns false on
 * failure. */
static bool start_on_terminal(OnTerminal *r, bool owns, char **args) {
    static char binary[PATH_MAX];
    const char *given = getenv("NORMA_RUN");
    r->terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (r->terminal < 0 || grantpt(r->terminal) || unlockpt(r->terminal) ||
        !realpath(given ? given : "./run", binary))
        return false;
    r->screen = open(ptsname(r->terminal), O_RDWR | O_NOCTTY);
    r->pid = fork();
    if (!r->pid) {
        alarm(120);
        signal(SIGINT, SIG_DFL);
        setenv("TERM", "xterm", 1);
        close(r->terminal);
        if (owns && setsid() > 0 && !ioctl(r->screen, TIOCSCTTY, 0))
            signal(SIGHUP, SIG_IGN);
        if (!chdir(folder) && dup2(r->screen, 0) == 0 &&
            dup2(r->screen, 1) == 1 && dup2(r->screen, 2) == 2) {
            close(r->screen);
            execv(binary, args);
        }
        _exit(127);
    }
    return true;
}

/* The run's status after a signal while its terminal takes no output; -1 if it
 * does not start. */
static int status_if_stopped(int signal_number, const char *shown_first,
                             char **args) {
    OnTerminal r;
    if (!start_on_terminal(&r, false, args))
        return -1;
    is_shown(&r, shown_first);
    tcflow(r.screen, TCOOFF);
    usleep(300000); /* the next write waits */
    kill(r.pid, signal_number);
    waitpid(r.pid, &status, 0);
    close(r.screen);
    close(r.terminal);
    return status;
}

/* A chat ends when its terminal is gone, also under nohup. */
static void a_chat_ends_with_its_terminal(void) {
    static char path[PATH_MAX];
    CHECK(open_model() && realpath(model, path), "no model");
    const char *args[] = {"run", path, "-m", "chat", NULL};
    for (int owns = 0; owns < 2; owns++) {
        OnTerminal r;
        CHECK(start_on_terminal(&r, owns, (char **)args) &&
                  is_shown(&r, "User: "),
              "does not start");
        close(r.screen);
        close(r.terminal);
        waitpid(r.pid, &status, 0);
        CHECK(WIFEXITED(status), "owns %d: status %x", owns, (unsigned)status);
    }
}

/* A paste is drawn at its end, however slowly it comes: not once per piece. */
static void a_paste_is_drawn_once(void) {
    static char path[PATH_MAX];
    OnTerminal r;
    CHECK(open_model() && realpath(model, path), "no model");
    const char *args[] = {"run", path, "-m", "chat", NULL};
    static const char *const pieces[] = {"\033[200~first ", "second "},
                             end[] = "third\033[201~";
    CHECK(start_on_terminal(&r, false, (char **)args) && is_shown(&r, "User: "),
          "does not start");
    struct pollfd output = {.fd = r.terminal, .events = POLLIN};
    char rest[4096];
    while (poll(&output, 1, 200) > 0 && read(r.terminal, rest, sizeof rest) > 0)
        continue; /* the rest of the first drawing */
    for (size_t i = 0; i < COUNT(pieces); i++) {
        const size_t n = strlen(pieces[i]);
        CHECK(write(r.terminal, pieces[i], n) == (ssize_t)n, "cannot type");
        CHECK(poll(&output, 1, 300) == 0, "drawn after piece %zu", i);
    }
    CHECK(write(r.terminal, end, strlen(end)) > 0 &&
              is_shown(&r, "first second third"),
          "the paste is not drawn");
    kill(r.pid, SIGTERM);
    waitpid(r.pid, &status, 0);
    close(r.screen);
    close(r.terminal);
}

/* TERM, HUP and Ctrl-C from elsewhere end a run whose terminal was stopped, by
 * Ctrl-S or by a connection that hangs. */
static void signals_end_a_run_with_a_stopped_terminal(void) {
    static const int signals[] = {SIGTERM, SIGHUP, SIGINT};
    static char path[PATH_MAX];
    CHECK(open_model() && realpath(model, path), "no model");
    const char *chats[] = {"run", path, "-m", "chat", NULL};
    const char *tells[] = {"run", path, "-t",        "0.9", "-s", "3",
                           "-n",  "30", "--samples", "999", NULL};
    const struct {
        const char **args, *shown_first;
    } runs[] = {{chats, "User: "}, {tells, "e"}};
    for (size_t i = 0; i < COUNT(signals) * COUNT(runs); i++) {
        const int sent = signals[i / COUNT(runs)];
        const size_t r = i % COUNT(runs);
        const int ended =
            status_if_stopped(sent, runs[r].shown_first, (char **)runs[r].args);
        CHECK(ended == sent || ended == EXIT_INTERRUPTED << 8,
              "run %zu, signal %d: status %d", r, sent, ended);
    }
}

#define ERASE "\r\033[K"

/* Whether the line before `at` is erased. */
static bool is_erased(const char *text, const char *at) {
    const long n = sizeof ERASE - 1;
    return at - text >= n && !strncmp(at - n, ERASE, (size_t)n);
}

/* While a model opens, a line says its name, size and context. It is erased
 * before anything else is shown, and does not come back. */
static void a_line_says_what_a_terminal_waits_for(void) {
    static const char *const lines[] = {
        "stories.gguf: opening",
        "stories.gguf, 4 MB, context 90: packing weights",
        "stories.gguf, 4 MB, context 90: first pass"};
    CHECK(open_model(), "models/stories.gguf is missing");
    char *chats[] = {"run", model, "-m", "chat", "-n", "9", "-c", "90", NULL};
    char *tells[] = {"run", model, "-n", "9", "-c", "90", "-i", "One", NULL};
    for (int i = 0; i < 2; i++) {
        const char *text = shown("hello\n", i ? tells : chats), *at = text;
        for (size_t k = 0; k < COUNT(lines); k++) {
            at = strstr(at, lines[k]);
            CHECK(at, "no '%s' in: %s", lines[k], text);
            at += strlen(lines[k]);
        }
        const char *after = strstr(at, "\033[?7h");
        CHECK(after && !strncmp(after + 5, ERASE, sizeof ERASE - 1),
              "not erased: %s", text);
        CHECK(strlen(after) > 30 && !strstr(after, "\033[?7l"), "again: %s",
              text);
    }
}

/* Notes in the middle of an answer and at its end begin lines of their own. */
static void a_note_begins_a_line_of_a_terminal(void) {
    static const struct {
        const char *messages, *context;
        int dropped, full;
    } cases[] = {{"hello there\nand now\nwhat else\n", "90", 2, 0},
                 {"hello there\n", "40", 0, 1}};
    CHECK(open_model(), "models/stories.gguf is missing");
    for (int i = 0; i < 2; i++) {
        const char *args[] = {"run", model, "-m", "chat",           "-n", "30",
                              "-s",  "3",   "-c", cases[i].context, NULL};
        const char *text = shown(cases[i].messages, (char **)args);
        int dropped = 0, full = 0;
        for (const char *s = text; (s = strstr(s, "note: ")); s++) {
            CHECK(s == text || s[-1] == '\n' || is_erased(text, s),
                  "a note in a line: %s", text);
            size_t n = strcspn(s, "\r");
            dropped += !strncmp(s + n - 15, "oldest turns: 1", 15);
            full += !strncmp(s + n - 15, "ends the answer", 15);
        }
        CHECK(dropped == cases[i].dropped && full == cases[i].full,
              "%d and %d notes: %s", dropped, full, text);
    }
}

/* -n limits an answer also where it ends exactly with the context. */
static void n_limits_an_answer_at_the_end_of_the_context(void) {
    CHECK(open_model(), "models/stories.gguf is missing");
    for (int context = 60; context < 76; context++) {
        setup.input = "hello there\nand now\nwhat else\n";
        CHECK_RUN("%s -m chat -n 20 -s 3 -c %d --json", model, context);
        int answers = 0;
        for (const char *s = out;
             (s = strstr(s,
                         "\"tokens\": 20, \"finish_reason\": \"length\"}\n"));
             s++)
            answers++;
        CHECK(answers == 3, "-c %d: %s%s", context, out, err);
    }
}

/* A prompt that fills the context leaves no room; with one position more, an
 * answer has a token. */
static void a_prompt_may_fill_the_context(void) {
    CHECK(open_model(), "models/stories.gguf is missing");
    setup.input = "hello there\n";
    CHECK_RUN("%s -m chat -n 1 -t 0 --verbose-prompt", model);
    int tokens = 0;
    for (const char *s = err; (s = strstr(s, "  '")); s++)
        tokens++;
    for (int more = 0; more < 2; more++) {
        setup.input = "hello there\n";
        run("%s -m chat -t 0 -c %d", model, tokens + more);
        CHECK(tokens > 5 && status == !more && (n_out > 1) == more,
              "%d tokens, -c %d: status %d, '%s', %s", tokens, tokens + more,
              status, out, err);
    }
}

/* Messages of a file are rendered by the template, and each is answered as in a
 * conversation of its own. */
static void prompts_are_messages(void) {
    CHECK(open_model(), "models/stories.gguf is missing");
    write_file("p.txt", "hello there\nand now\n");
    CHECK_RUN("%s -m chat --prompts p.txt -t 0 -n 60", model);
    char both[1 << 14];
    memcpy(both, out, sizeof both);
    int shown = 0;
    CHECK_RUN("%s -m chat --prompts p.txt -t 0 -n 2 --verbose-prompt", model);
    for (const char *s = err; (s = strstr(s, "  '")); s++)
        shown++;
    CHECK(shown > 20, "%d tokens: %s", shown, err);
    for (int i = 0; i < 2; i++) {
        setup.input = i ? "and now\n" : "hello there\n";
        CHECK_RUN("%s -m chat -t 0 -n 60", model);
        const char *header = strstr(both, i ? "=== prompt 2" : "=== prompt 1"),
                   *text = header ? strchr(header, '\n') : NULL;
        size_t n = text ? strcspn(text + 1, "\n") + 1 : 0;
        CHECK(n > 20 && !strncmp(out, text + 1, n), "'%s', expected '%s'", both,
              out);
    }
}

void suite_chat(void) {
    TEST(a_full_context_drops_the_oldest_turns);
    TEST(n_limits_an_answer_at_the_end_of_the_context);
    TEST(a_prompt_may_fill_the_context);
    TEST(prompts_are_messages);
    TEST(prompts_are_conversations);
    TEST(an_empty_prompt_ends_a_chat);
    TEST(an_empty_prompt_needs_a_first_token);
    TEST(an_answer_ends_in_a_long_token);
    TEST(an_answer_spells_no_special_token);
    TEST(zero_bytes_are_refused);
    if (test_fast())
        return;
    TEST(a_line_says_what_a_terminal_waits_for);
    TEST(a_note_begins_a_line_of_a_terminal);
    TEST(a_cleared_conversation_begins_anew);
    TEST(set_changes_the_sampling);
    TEST(commands_do_what_help_says);
    TEST(a_loaded_system_prompt_is_shown);
    TEST(messages_come_back_later);
    TEST(two_slashes_begin_a_message);
    TEST(what_is_shown_is_sent);
    TEST(the_terminal_is_set_back);
    TEST(a_long_paste_is_shown);
    TEST(nothing_is_drawn_where_nothing_can_be);
    TEST(a_paste_may_be_a_line);
    TEST(a_paste_is_one_message);
    TEST(piped_lines_may_come_from_windows);
    TEST(conversations_are_saved_and_loaded);
    TEST(saving_replaces_no_other_file);
    TEST(a_begun_answer_goes_on);
    TEST(a_signal_restores_the_terminal);
    TEST(signals_end_a_run_with_a_stopped_terminal);
    TEST(a_chat_ends_with_its_terminal);
    TEST(a_paste_is_drawn_once);
    TEST(a_cut_line_is_reported);
    TEST(a_stop_string_is_no_part_of_an_answer);
    TEST(ctrl_z_suspends_a_chat);
}
