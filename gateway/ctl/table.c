/* table.c - see table.h. Cells are kept until all are there, since the widest decides; what a
 * character is wide is taken to be one, which is right for everything the catalog holds. */
#include "gateway/ctl/table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define TABLE_BYTES_MAX (64u << 20)
#define TABLE_GAP       2u /* between columns */

void table_init(struct table *t, const struct table_column *columns, size_t n)
{
    assert(n > 0 && n <= TABLE_COLUMNS_MAX);
    *t = (struct table){.columns = columns, .n_columns = n};
    buf_init(&t->text, TABLE_BYTES_MAX);
}

void table_release(struct table *t)
{
    if (t) {
        buf_release(&t->text);
    }
}

bool table_cell(struct table *t, const char *text)
{
    size_t at = t->text.len, n = strlen(text);
    if (t->n_cells % t->n_columns == 0) {
        t->row_bytes = 0;
    }
    t->row_bytes += n;
    t->longest_row = t->row_bytes > t->longest_row ? t->row_bytes : t->longest_row;
    if (!buf_append(&t->text, text, n + 1)) {
        return false;
    }
    for (char *p = t->text.p + at; p < t->text.p + at + n; p++) {
        if ((unsigned char)*p < ' ' || *p == 0x7f) {
            *p = '?'; /* it came from a file of somebody else: no escape reaches the terminal */
        }
    }
    t->n_cells++;
    return true;
}

/* Characters, not bytes: what continues a UTF-8 sequence is not counted. */
static unsigned width_of(const char *text)
{
    unsigned n = 0;
    for (; *text; text++) {
        n += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return n;
}

/* Bytes of the first n characters. */
static int bytes_of(const char *text, unsigned n)
{
    const char *p = text;
    while (*p && (n > 0 || ((unsigned char)*p & 0xc0) == 0x80)) {
        n -= ((unsigned char)*p & 0xc0) != 0x80;
        p++;
    }
    return (int)(p - text);
}

struct layout {
    unsigned width[TABLE_COLUMNS_MAX]; /* 0: left out */
};

static unsigned total(const struct layout *l, size_t n)
{
    unsigned sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += l->width[i] ? l->width[i] + (sum ? TABLE_GAP : 0) : 0;
    }
    return sum;
}

static void measure(const struct table *t, struct layout *l)
{
    const char *p = t->text.p;
    for (size_t i = 0; i < t->n_columns; i++) {
        l->width[i] = width_of(t->columns[i].title);
    }
    for (size_t i = 0; i < t->n_cells; i++) {
        unsigned w = width_of(p), *max = &l->width[i % t->n_columns];
        *max = w > *max ? w : *max;
        p += strlen(p) + 1;
    }
}

/* Takes one character off the widest column that may be cut; false: none may. */
static bool cut_one(const struct table *t, struct layout *l)
{
    size_t widest = t->n_columns;
    for (size_t i = 0; i < t->n_columns; i++) {
        unsigned least = t->columns[i].cut_to;
        if (least && l->width[i] > least &&
            (widest == t->n_columns || l->width[i] > l->width[widest])) {
            widest = i;
        }
    }
    if (widest == t->n_columns) {
        return false;
    }
    l->width[widest]--;
    return true;
}

/* Leaves the column out that goes first; false: none may go. */
static bool drop_one(const struct table *t, struct layout *l)
{
    size_t first = t->n_columns;
    for (size_t i = 0; i < t->n_columns; i++) {
        unsigned at = t->columns[i].goes_at;
        if (at && l->width[i] && (first == t->n_columns || at < t->columns[first].goes_at)) {
            first = i;
        }
    }
    if (first == t->n_columns) {
        return false;
    }
    l->width[first] = 0;
    return true;
}

/* Columns go only where all that may be cut is, so that those which stay are as wide as they can
 * be. */
static void fit(const struct table *t, struct layout *l, unsigned width)
{
    struct layout wanted = *l;
    for (;;) {
        while (total(l, t->n_columns) > width && cut_one(t, l)) {
        }
        if (total(l, t->n_columns) <= width || !drop_one(t, &wanted)) {
            return;
        }
        *l = wanted;
    }
}

/* Into a line that has room for the widest row: printf would take longer than the database. */
static char *put_cell(char *at, const char *text, unsigned width, bool is_right, bool is_last)
{
    unsigned n = width_of(text);
    size_t len = n > width ? (size_t)bytes_of(text, width - 2) : strlen(text);
    size_t pad = n > width ? 0 : width - n;
    if (is_right) {
        memset(at, ' ', pad);
        at += pad;
    }
    memcpy(at, text, len);
    at += len;
    if (n > width) {
        memcpy(at, "..", 2);
        at += 2;
    }
    if (!is_right && !is_last) {
        memset(at, ' ', pad);
        at += pad;
    }
    return at;
}

/* Puts the row from `p`, or the titles for NULL, into `line` and prints it; returns the next row.
 */
static const char *print_row(const struct table *t, const struct layout *l, const char *p,
                             char *line, FILE *out)
{
    size_t last = t->n_columns;
    char *at = line;
    while (last > 0 && !l->width[last - 1]) {
        last--;
    }
    for (size_t i = 0; i < t->n_columns; i++) {
        const char *text = p ? p : t->columns[i].title;
        p = p ? p + strlen(p) + 1 : NULL;
        if (l->width[i]) {
            at = put_cell(at, text, l->width[i], t->columns[i].is_right, i + 1 == last);
            memcpy(at, i + 1 == last ? "\n " : "  ", TABLE_GAP);
            at += i + 1 == last ? 1 : TABLE_GAP;
        }
    }
    (void)fwrite(line, 1, (size_t)(at - line), out); /* told at the program's end */
    return p;
}

bool table_print(const struct table *t, FILE *out, unsigned width)
{
    struct layout l;
    const char *p = t->text.p;
    measure(t, &l);
    if (width) {
        fit(t, &l, width);
    }
    /* A character has at most four bytes; stray continuation bytes count for none, but all of them
     * are in the text. */
    char *line = malloc((size_t)total(&l, t->n_columns) * 4 + t->longest_row + 64);
    if (!line) {
        return false;
    }
    (void)print_row(t, &l, NULL, line, out);
    for (size_t i = 0; i < t->n_cells / t->n_columns; i++) {
        p = print_row(t, &l, p, line, out);
    }
    free(line);
    return true;
}

unsigned table_terminal_width(void)
{
    struct winsize w = {0};
    return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 ? w.ws_col : 0;
}
