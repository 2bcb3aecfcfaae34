/* table.h - a table of text for people: as wide as its cells, or cut to the terminal. */
#ifndef ISOTHERM_TABLE_H
#define ISOTHERM_TABLE_H

#include "gateway/base/buf.h"
#include <stdio.h>

#define TABLE_COLUMNS_MAX 16
struct table_column {
    const char *title;
    bool is_right;
    unsigned cut_to;  /* may be cut to so many characters, with ".." at the end; 0: never cut */
    unsigned goes_at; /* where cutting does not do, columns are left out: 1 first; 0: it stays */
};
struct table {
    const struct table_column *columns; /* borrowed */
    size_t n_columns;
    struct buf text; /* cells, each ended by NUL; control bytes are shown as ? */
    size_t n_cells, row_bytes, longest_row;
};

void table_init(struct table *t, const struct table_column *columns, size_t n);
void table_release(struct table *t);
/* The next cell, row by row. false: memory, or more than 64 MiB of text. */
bool table_cell(struct table *t, const char *text);
/* Prints titles and rows; no line is longer than `width` where that can be (0: no limit). false:
 * memory. */
bool table_print(const struct table *t, FILE *out, unsigned width);
/* Columns of the terminal that standard output is; 0: it is none. */
unsigned table_terminal_width(void);

#endif
