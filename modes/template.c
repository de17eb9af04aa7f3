/* template.c: chat templates.
 *
 * Owns the format of a turn in each family of chat models. A model's own template is a Jinja program. It is not run:
 * its family is recognized by strings that it contains, and its default system prompt is extracted. Markers of a format
 * become single tokens if the vocabulary has them; messages and system prompts are always encoded as plain text.
 */
#include "modes/template.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/process.h"
#include "text/merges.h"
#include <stdlib.h>
#include <string.h>

/* Placeholders in a format. A marker begins with '<' or '[' and ends with '>' or ']'. */
#define BOS     "\1"
#define EOS     "\2"
#define USER    "\3"
#define SYSTEM  "\4"
#define PROMPT  "\5" /* the formatted system prompt, if any */
#define ANSWER  "\6"
#define THOUGHT "\16" /* the answer's text between <think> and </think> */
#define DATE    "\17"

#define WHITE_SPACE " \t\n\v\f\r"

/* Where white space is trimmed. TRIM_TURN trims the system prompt and the message as one string. */
enum { TRIM_SYSTEM_AND_USER = 1, TRIM_ANSWER = 2, TRIM_TURN = 4, TRIM_USER = 8 };

/* How later turns see an answer with a thought: complete; only the text after </think>; the same without leading
 * newlines; or formatted by ChatFamily.answer. */
typedef enum { THOUGHTS_STAY, THOUGHTS_GO, THOUGHTS_AND_LINES_GO, THOUGHTS_HAVE_A_FORMAT } Thoughts;

struct ChatFamily {
    const char *name;
    const char *mentions[3];  /* strings that every template of this family contains (see find) */
    const char *never[5];     /* strings that it does not contain; they occur in similar families */
    const char *next;         /* separator before each turn but the first; begins with the token that ends an answer */
    const char *prompt;       /* format of the system prompt */
    const char *turn;         /* format of a turn, up to the answer */
    const char *usual_prompt; /* default system prompt if read_prompt finds none; or NULL */
    const char *answer;       /* format of the answer in later turns; NULL: unchanged */
    const char *opening;      /* start of a new answer, if the template contains `opens`; NULL: none */
    const char *opens;
    Thoughts thoughts;
    int trims;
    bool last_prompt;   /* the system prompt is in the last turn instead of the first */
    bool always_prompt; /* the format of the system prompt is used even if it is empty */
};

#define CHATML                                                                                                         \
    .next = "<|im_end|>\n", .prompt = "<|im_start|>system\n" SYSTEM "<|im_end|>\n",                                    \
    .turn = PROMPT "<|im_start|>user\n" USER "<|im_end|>\n<|im_start|>assistant\n"

#define GRANITE_PROMPT "You are a helpful assistant. Please ensure responses are professional, accurate, and safe."
#define ROLE(role)     "<|start_of_role|>" role "<|end_of_role|>"
#define HEADER(role)   "<|start_header_id|>" role "<|end_header_id|>\n\n"
#define LLAMA_3                                                                                                        \
    .next = "<|eot_id|>", .turn = PROMPT HEADER("user") USER "<|eot_id|>" HEADER("assistant"),                         \
    .trims = TRIM_SYSTEM_AND_USER | TRIM_ANSWER

/* The first family that matches is used. */
static const ChatFamily FAMILIES[] = {
    {.name = "llama-2", /* Touvron et al. 2023b */
     .mentions = {"[INST]", "<<SYS>>"},
     .next = EOS BOS,
     .prompt = "<<SYS>>\n" SYSTEM "\n<</SYS>>\n\n",
     .turn = "[INST] " PROMPT USER " [/INST]",
     .answer = " " ANSWER " ",
     .trims = TRIM_TURN | TRIM_ANSWER},
    {.name = "mistral", /* 7B Instruct v0.1 and v0.2 */
     .mentions = {"\" [INST] \"", "\" [/INST]\"", "\" \" + message"},
     .next = EOS,
     .prompt = SYSTEM "\n\n",
     .turn = " [INST] " PROMPT USER " [/INST]",
     .answer = " " ANSWER},
    {.name = "mistral-v0.1", /* the first version of its template */
     .mentions = {"\"[INST] \"", "\" [/INST]\"", "] + eos_token + \" \""},
     .next = EOS " ",
     .prompt = SYSTEM "\n\n",
     .turn = "[INST] " PROMPT USER " [/INST]"},
    {.name = "mistral-v0.2", /* the first version of its template */
     .mentions = {"\"[INST] \"", "\" [/INST]\"", "{ message[\"content\"] + eos_token"},
     .next = EOS,
     .prompt = SYSTEM "\n\n",
     .turn = "[INST] " PROMPT USER " [/INST]"},
    {.name = "mistral-v0.3",
     .mentions = {"\"[INST] \"", "\"[/INST]\"", "\" \" + message[\"content\"]|trim"},
     .never = {"[SYSTEM_PROMPT]"},
     .next = EOS,
     .prompt = SYSTEM "\n\n",
     .turn = "[INST] " PROMPT USER "[/INST]",
     .answer = " " ANSWER,
     .trims = TRIM_ANSWER,
     .last_prompt = true},
    {.name = "mistral-nemo",
     .mentions = {"\"[INST]\" + system_message", "\"[/INST]\"", "message[\"content\"] + eos_token"},
     .next = EOS,
     .prompt = SYSTEM "\n\n",
     .turn = "[INST]" PROMPT USER "[/INST]",
     .last_prompt = true},
    {.name = "gemma", /* 2 and 3; Gemma 2's template refuses a system prompt */
     .mentions = {"<start_of_turn>", "<end_of_turn>", "content"},
     .never = {"<start_function_call>", "developer"}, /* FunctionGemma */
     .next = "<end_of_turn>\n",
     .prompt = SYSTEM "\n\n",
     .turn = "<start_of_turn>user\n" PROMPT USER "<end_of_turn>\n<start_of_turn>model\n",
     .trims = TRIM_USER | TRIM_ANSWER},
    {.name = "phi-3", /* and 3.5 */
     .mentions = {"<|user|>", "<|assistant|>", "<|end|>"},
     .never = {"<|tool|>", "think"},
     .next = "<|end|>\n",
     .prompt = "<|system|>\n" SYSTEM "<|end|>\n",
     .turn = PROMPT "<|user|>\n" USER "<|end|>\n<|assistant|>\n"},
    {.name = "phi-4-mini",
     .mentions = {"\"<|\" + message[\"role\"] + \"|>\" + message[\"content\"] + \"<|end|>\""},
     .never = {"think"},
     .next = "<|end|>",
     .prompt = "<|system|>" SYSTEM "<|end|>",
     .turn = PROMPT "<|user|>" USER "<|end|><|assistant|>"},
    {.name = "phi-4",
     .mentions = {"<|im_start|>user<|im_sep|>", "<|im_end|>"},
     .never = {"think"}, /* the reasoning models */
     .next = "<|im_end|>",
     .prompt = "<|im_start|>system<|im_sep|>" SYSTEM "<|im_end|>",
     .turn = PROMPT "<|im_start|>user<|im_sep|>" USER "<|im_end|><|im_start|>assistant<|im_sep|>"},
    {.name = "granite-4",
     .mentions = {"<|start_of_role|>", GRANITE_PROMPT, "default_system_message"},
     .never = {"strftime_now"}, /* 3 */
     .next = "<|end_of_text|>\n",
     .prompt = ROLE("system") SYSTEM "<|end_of_text|>\n",
     .turn = PROMPT ROLE("user") USER "<|end_of_text|>\n" ROLE("assistant"),
     .usual_prompt = GRANITE_PROMPT},
    {.name = "tulu", /* 3, OLMo 2 and Falcon 3 */
     .mentions = {"\"<|user|>\n\" + message[\"content\"] + \"\n\"", "<|assistant|>", "eos_token"},
     .next = EOS "\n",
     .prompt = "<|system|>\n" SYSTEM "\n",
     .turn = PROMPT "<|user|>\n" USER "\n<|assistant|>\n"},
    {.name = "minimind", /* an answer begins with a thought, by default empty */
     .mentions = {"<|im_start|>", "<|im_end|>", "open_thinking"},
     CHATML,
     .answer = "<think>\n" THOUGHT "\n</think>\n\n" ANSWER,
     .opening = "<think>\n\n</think>\n\n",
     .opens = "\"<think>\n\n</think>\n\n\"",
     .thoughts = THOUGHTS_HAVE_A_FORMAT},
    {.name = "qwen-3",
     .mentions = {"<|im_start|>", "<|im_end|>", "split(\"</think>\")[-1]"},
     .never = {"strftime_now", "Metadata", "<|im_sep|>"}, /* SmolLM 3, Phi 4 reasoning */
     CHATML,
     .opening = "<think>\n",
     .opens = "assistant\n<think>\n\"",
     .thoughts = THOUGHTS_AND_LINES_GO},
    {.name = "chatml",
     .mentions = {"<|im_start|>", "<|im_end|>"},
     .never = {"<|im_sep|>", "<end_of_utterance>", "strftime_now", "think>",
               "trim"}, /* Phi 4, SmolVLM, SmolLM 3, OLMo 3 Think */
     CHATML},
    {.name = "zephyr",
     .mentions = {"<|user|>", "<|assistant|>", "eos_token"},
     .never = {"<|end|>", "[gMASK]"}, /* Phi 3, GLM 4 */
     .next = EOS "\n",
     .prompt = "<|system|>\n" SYSTEM EOS "\n",
     .turn = PROMPT "<|user|>\n" USER EOS "\n<|assistant|>\n"},
    {.name = "llama-3.1", /* and later: the system prompt has two dates */
     .mentions = {"<|eot_id|>", "\"Cutting Knowledge Date: December 2023\n\"", "\"Today Date: \" + date_string"},
     LLAMA_3,
     .prompt = HEADER("system") "Cutting Knowledge Date: December 2023\nToday Date: " DATE "\n\n" SYSTEM "<|eot_id|>",
     .always_prompt = true},
    {.name = "llama-3",
     .mentions = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
     .never = {"function", "strftime_now", "unsafe"}, /* other fine-tuned models, Llama Guard */
     LLAMA_3,
     .prompt = HEADER("system") SYSTEM "<|eot_id|>"},
    {.name = "deepseek", /* R1, distilled */
     .mentions = {"<\uFF5CUser\uFF5C>\" + message[\"content\"]}}", "<\uFF5CAssistant\uFF5C>", "</think>"},
     .never = {"thinking"}, /* V3.1 */
     .next = EOS,
     .prompt = SYSTEM,
     .turn = PROMPT "<\uFF5CUser\uFF5C>" USER "<\uFF5CAssistant\uFF5C>",
     .opening = "<think>\n",
     .opens = "<\uFF5CAssistant\uFF5C><think>\n\"",
     .thoughts = THOUGHTS_GO},
};

enum { N_FAMILIES = sizeof FAMILIES / sizeof *FAMILIES };

/* ---- recognizing ----------------------------------------------------------------------- */

/* Finds text[n] in the template, from s on. Returns the end of the match; NULL: no match. A newline also matches the
 * escape \n, and a double quotation mark a single one. */
static const char *find(const Tokenizer *t, const char *s, const char *text, size_t n) {
    const char *end = t->chat_template + t->chat_template_size;
    for (; s < end; s++) {
        const char *c = text, *at = s;
        while (c < text + n && at < end) {
            const bool escape = *c == '\n' && *at == '\\' && at[1] == 'n';
            if (!escape && *at != *c && !(*c == '"' && *at == '\'')) break;
            at += escape ? 2 : 1;
            c++;
        }
        if (c == text + n) return at;
    }
    return NULL;
}

static bool mentions(const Tokenizer *t, const char *text) {
    return t->chat_template && find(t, t->chat_template, text, strlen(text)) != NULL;
}

static bool is_of_family(const Tokenizer *t, const ChatFamily *f) {
    for (int i = 0; i < 3; i++)
        if (f->mentions[i] && !mentions(t, f->mentions[i])) return false;
    for (int i = 0; i < 5; i++)
        if (f->never[i] && mentions(t, f->never[i])) return false;
    return true;
}

const ChatFamily *chat_family(const Tokenizer *t, const char *name) {
    for (const ChatFamily *f = FAMILIES; f < FAMILIES + N_FAMILIES; f++)
        if (name ? !strcmp(f->name, name) : !t->chat_template || is_of_family(t, f)) return f;
    return NULL;
}

const char *chat_family_name(const ChatFamily *f) { return f->name; }

const char *chat_families(void) {
    static char names[256];
    size_t n = 0;
    for (int i = 0; i < N_FAMILIES; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, i ? ", %s" : "%s", FAMILIES[i].name);
    return names;
}

/* ---- opening --------------------------------------------------------------------------- */

/* Bytes of the marker at s in a format; 0: none. */
static size_t marker_length(const char *s) {
    const size_t n = *s == '<' || *s == '[' ? strcspn(s, ">]") : 0;
    return n ? n + strspn(s + n, ">]") : 0;
}

static bool is_special(const Piece *p) { return p->kind != PIECE_TEXT && p->kind != PIECE_BYTE; }

/* The first special piece with this text and an id of at least `id`; -1: none. */
static int find_marker(const Pieces *pieces, const char *marker, size_t n, int id) {
    for (; id < pieces->n && n > 0; id++) {
        const Piece *p = &pieces->list[id];
        if (is_special(p) && (size_t)p->length == n && !memcmp(p->text, marker, n)) return id;
    }
    return -1;
}

typedef struct {
    const char *s;
    size_t n;
} Slice;

/* Removes characters of `set` from the start and the end of the text. */
static Slice trim(Slice text, const char *set, bool start, bool end) {
    for (; start && text.n > 0 && *text.s && strchr(set, *text.s); text.n--) text.s++;
    while (end && text.n > 0 && text.s[text.n - 1] && strchr(set, text.s[text.n - 1])) text.n--;
    return text;
}

static bool is_white(const Piece *p) { return !trim((Slice){p->text, (size_t)p->length}, WHITE_SPACE, true, false).n; }

/* Changes piece kinds so that text is never encoded as one of the family's markers, BOS, EOS, EOT or a special piece.
 * With ranked merges, text also matches no added (user-defined) piece except white space; merges may still produce it.
 * In SentencePiece vocabularies text still matches other user-defined pieces. */
static void stop_matching(const ChatFamily *f, Tokenizer *t) {
    const char *const formats[] = {f->next, f->prompt, f->turn, f->answer, f->opening};
    for (int i = 0; i < 5; i++)
        for (const char *s = formats[i]; s && *s; s++) {
            for (int id = 0; (id = find_marker(&t->pieces, s, marker_length(s), id)) >= 0; id++)
                t->pieces.list[id].kind = PIECE_CONTROL; /* two pieces may have one text */
        }
    for (int id = 0; id < t->pieces.n; id++) {
        Piece *p = &t->pieces.list[id];
        if (p->kind == PIECE_SPECIAL || id == t->bos || id == t->eos || id == t->eot)
            p->kind = PIECE_CONTROL;
        else if (p->kind == PIECE_USER && t->merges.rules && !is_white(p))
            p->kind = p->also_merged ? PIECE_TEXT : PIECE_CONTROL;
    }
}

/* Whether a string literal ends at s, or a Jinja tag begins. */
static bool is_jinja(const char *s) { return *s == '\'' || *s == '"' || (*s == '{' && strchr("{%", s[1])); }

/* Copies the template's default system prompt to prompt[]: the text in a string literal between the family's start of
 * a system prompt and the marker after it. Returns false if there is none. Takes O(n). */
static bool read_prompt(const Tokenizer *t, const ChatFamily *f, char *prompt) {
    const size_t n_front = strcspn(f->prompt, SYSTEM);
    const char *marker = f->prompt + n_front + 1, *end = t->chat_template + t->chat_template_size;
    const size_t n_marker = marker_length(marker);
    if (!n_marker) return false;
    for (const char *s = t->chat_template; (s = find(t, s, f->prompt, n_front));) {
        size_t n = 0;
        for (; s < end && !is_jinja(s) && strncmp(s, marker, n_marker) != 0; s++) {
            const bool escape = *s == '\\' && s + 1 < end;
            s += escape;
            prompt[n++] = escape && *s == 'n' ? '\n' : *s;
        }
        prompt[n] = '\0';
        if (n > 0 && !strncmp(s, marker, n_marker)) return true;
    }
    return false;
}

int chat_template_open(ChatTemplate *c, Tokenizer *t, const ChatFamily *f) {
    const int end = find_marker(&t->pieces, f->next, marker_length(f->next), 0);
    *c = (ChatTemplate){.family = f, .name = f->name, .end = *f->next == *EOS ? t->eos : end};
    c->prompt = allocate(t->chat_template_size + 1, 1);
    if (!c->prompt) return -1;
    if (!t->chat_template || !read_prompt(t, f, c->prompt))
        strcpy(c->prompt, f->usual_prompt && mentions(t, f->usual_prompt) ? f->usual_prompt : "");
    c->bos = (!t->no_bos && !t->chat_has_bos) || mentions(t, "bos_token");
    c->opens = f->opening && (!t->chat_template || mentions(t, f->opens));
    c->date = mentions(t, "strftime_now") ? today() : "26 Jul 2024"; /* the default in Llama 3.1's template */
    stop_matching(f, t);
    return 0;
}

void chat_template_close(ChatTemplate *c) { free(c->prompt); }

/* ---- rendering ------------------------------------------------------------------------- */

typedef struct {
    const ChatTemplate *template;
    const Tokenizer *t;
    const char *system, *user; /* of the current turn; system is NULL if it has no system prompt */
    const ChatTurn *last;      /* NULL: none */
    Buffer answer;             /* the last turn's answer, as the model generated it */
    Buffer text;               /* text that is not encoded yet */
    bool strips;               /* the last marker strips the white space after it */
    bool space;                /* the next text may get the tokenizer's space prefix; false if it continues an answer */
    Tokens *out;
} Renderer;

/* Encodes r->text, then appends the token `id` unless it is -1. */
static int encode_text(Renderer *r, int id) {
    buffer_append(&r->text, "", 0);
    const bool space = r->space && (r->t->space_prefix != SPACE_ONCE || !r->out->n);
    if (r->text.failed) return -1;
    const Piece *piece = id < 0 ? NULL : &r->t->pieces.list[id];
    const Slice text = trim((Slice){r->text.bytes, r->text.n}, WHITE_SPACE, r->strips, piece && piece->strips_left);
    if (tokenizer_append(r->t, text.s, text.n, NULL, space, r->out)) return -1;
    r->space = piece || (r->space && !r->text.n);
    r->strips = piece && piece->strips_right;
    r->text.n = 0;
    return id < 0 ? 0 : tokens_add(r->out, id);
}

static void append(Buffer *to, Slice text) { buffer_append(to, text.s, text.n); }

static void append_trimmed(Renderer *r, const char *text, bool start, bool end) {
    append(&r->text, trim((Slice){text, strlen(text)}, WHITE_SPACE, start, end));
}

/* The text after the last occurrence of this word; the whole text if there is none. */
static Slice after_last(Slice text, const char *word) {
    for (const char *s; (s = memmem(text.s, text.n, word, strlen(word)));) {
        s += strlen(word);
        text = (Slice){s, text.n - (size_t)(s - text.s)};
    }
    return text;
}

/* The answer's thought: the text before the first </think>. */
static Slice thought_of(Slice answer) {
    const char *end = memmem(answer.s, answer.n, "</think>", strlen("</think>"));
    const Slice thought = {answer.s, end ? (size_t)(end - answer.s) : 0};
    return trim(after_last(thought, "<think>"), "\n", true, true);
}

/* The part of an answer that later turns keep. If the format of answers begins with a space, the answer's own leading
 * space is dropped. */
static Slice kept_of(Slice answer, const ChatFamily *f) {
    Slice kept = f->thoughts ? after_last(answer, "</think>") : answer;
    const bool cut = kept.n < answer.n, trims = f->trims & TRIM_ANSWER;
    if (f->answer && *f->answer == ' ' && kept.n > 0 && *kept.s == ' ') kept = (Slice){kept.s + 1, kept.n - 1};
    if (f->thoughts == THOUGHTS_HAVE_A_FORMAT || (f->thoughts == THOUGHTS_AND_LINES_GO && cut))
        kept = trim(kept, "\n", true, false);
    return trim(kept, WHITE_SPACE, trims, trims);
}

/* Token i of the last turn. */
static Slice token_text(const Renderer *r, int i) {
    const int *ids = r->last->tokens.ids;
    int n;
    const char *s = tokenizer_decode(r->t, i ? ids[i - 1] : -1, ids[i], &n);
    return (Slice){s, (size_t)n};
}

/* Appends the last turn's answer. Its text is encoded again together with the text around it; a special piece that the
 * model generated remains one token. */
static int append_answer(Renderer *r) {
    if (!r->last) return 0; /* a new turn has no answer */
    const Slice kept = kept_of((Slice){r->answer.bytes, r->answer.n}, r->template->family);
    const char *at = r->answer.bytes, *end = kept.s + kept.n;
    for (int i = r->last->answer; i < r->last->tokens.n; i++) {
        const int id = r->last->tokens.ids[i];
        const char *after = at + token_text(r, i).n;
        const char *from = at < kept.s ? kept.s : at, *to = after < end ? after : end;
        if (from == at && to == after && is_special(&r->t->pieces.list[id])) {
            if (encode_text(r, id)) return -1;
        } else if (from < to)
            append(&r->text, (Slice){from, (size_t)(to - from)});
        at = after;
    }
    return 0;
}

static int render(Renderer *r, const char *format) {
    const ChatFamily *f = r->template->family;
    const bool each = f->trims & TRIM_SYSTEM_AND_USER, turn = f->trims & TRIM_TURN, user = f->trims & TRIM_USER;
    int status = 0;
    for (const char *s = format; *s && !status;) {
        const size_t n = marker_length(s);
        const int id = n ? find_marker(&r->t->pieces, s, n, 0) : -1;
        if (*s == *BOS)
            status = r->template->bos ? encode_text(r, r->t->bos) : 0;
        else if (*s == *EOS)
            status = encode_text(r, r->t->eos);
        else if (*s == *USER)
            append_trimmed(r, r->user, each || user || (turn && !r->system), each || user || turn);
        else if (*s == *SYSTEM)
            append_trimmed(r, r->system ? r->system : "", each, each);
        else if (*s == *DATE)
            append_trimmed(r, r->template->date, false, false);
        else if (*s == *PROMPT)
            status = r->system ? render(r, f->prompt) : 0;
        else if (*s == *THOUGHT)
            append(&r->text, thought_of((Slice){r->answer.bytes, r->answer.n}));
        else if (*s == *ANSWER)
            status = append_answer(r);
        else if (id >= 0)
            status = encode_text(r, id);
        else
            append(&r->text, (Slice){s, 1});
        s += id >= 0 ? n : 1;
    }
    return status;
}

/* Renders a turn up to its answer. `system` NULL: no system prompt. */
static int render_turn(Renderer *r, bool first, const char *system, const char *user) {
    const ChatFamily *f = r->template->family;
    r->system = system;
    r->user = user;
    return render(r, first ? BOS : f->next) || render(r, f->turn);
}

/* Renders the last turn as later turns see it, then the new turn. */
static int render_turns(Renderer *r, const char *system, const char *user, int *begin) {
    const ChatFamily *f = r->template->family;
    if (r->last) {
        const bool first = r->last->begin == 0;
        buffer_append(&r->answer, "", 0);
        for (int i = r->last->answer; i < r->last->tokens.n; i++) append(&r->answer, token_text(r, i));
        if (r->answer.failed || render_turn(r, first, first && !f->last_prompt ? system : NULL, r->last->user) ||
            render(r, f->answer ? f->answer : ANSWER) || encode_text(r, -1))
            return -1;
    }
    *begin = r->out->n;
    return render_turn(r, !r->last, !r->last || f->last_prompt ? system : NULL, user) ||
           (r->template->opens && render(r, f->opening)) || encode_text(r, -1);
}

int chat_template_render(const ChatTemplate *c, const Tokenizer *t, const char *system, const ChatTurn *last,
                         const char *user, Tokens *out, int *begin) {
    Renderer r = {.template = c, .t = t, .last = last, .space = !last || last->begin == 0, .out = out};
    if (!system) system = c->prompt;
    *out = (Tokens){0};
    const bool failed = render_turns(&r, *system || c->family->always_prompt ? system : NULL, user, begin);
    free(r.text.bytes);
    free(r.answer.bytes);
    if (!failed) return 0;
    free(out->ids);
    *out = (Tokens){0};
    return -1;
}
