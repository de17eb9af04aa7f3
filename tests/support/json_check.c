/* json_check.c: checks the syntax of JSON that the program writes.
 *
 * Each function returns the first byte after the part that it read; NULL on a
 * syntax error.
 */
#include "tests/support/json_check.h"
#include "tests/support/test.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const char *skip_space(const char *s) {
    return s + strspn(s, " \t\r\n");
}

static const char *digits(const char *s) {
    size_t n = strspn(s, "0123456789");
    return n ? s + n : NULL;
}

static const char *check_number(const char *s) {
    s += *s == '-';
    bool zero = *s == '0';
    const char *end = digits(s);
    if (!end || (zero && end > s + 1))
        return NULL;
    if (*end == '.' && !(end = digits(end + 1)))
        return NULL;
    if (*end != 'e' && *end != 'E')
        return end;
    end++;
    return digits(end + (*end == '+' || *end == '-'));
}

static const char *check_string(const char *s) {
    if (*s++ != '"')
        return NULL;
    for (; *s != '"'; s++) {
        if ((unsigned char)*s < ' ')
            return NULL;
        if (*s != '\\')
            continue;
        s++;
        if (*s == 'u' && strspn(s + 1, "0123456789abcdefABCDEF") < 4)
            return NULL;
        if (!*s || !strchr("\"\\/bfnrtu", *s))
            return NULL;
    }
    return s + 1;
}

static const char *check_value(const char *s, int depth);

/* Members of an object or elements of an array, up to `close`. */
static const char *check_list(const char *s, char close, int depth) {
    s = skip_space(s + 1);
    if (*s == close)
        return s + 1;
    for (;; s = skip_space(s + 1)) {
        if (close == '}') {
            s = check_string(s);
            if (!s || *(s = skip_space(s)) != ':')
                return NULL;
            s = skip_space(s + 1);
        }
        s = check_value(s, depth + 1);
        if (!s)
            return NULL;
        s = skip_space(s);
        if (*s == close)
            return s + 1;
        if (*s != ',')
            return NULL;
    }
}

static const char *check_value(const char *s, int depth) {
    static const char *const words[] = {"true", "false", "null"};
    if (depth > 10)
        return NULL;
    if (*s == '{')
        return check_list(s, '}', depth);
    if (*s == '[')
        return check_list(s, ']', depth);
    if (*s == '"')
        return check_string(s);
    for (int i = 0; i < 3; i++)
        if (!strncmp(s, words[i], strlen(words[i])))
            return s + strlen(words[i]);
    return check_number(s);
}

bool json_valid(const char *text) {
    const char *end = check_value(skip_space(text), 0);
    return end && !*skip_space(end);
}
