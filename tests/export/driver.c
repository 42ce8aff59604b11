/* Reads commands for an exported labeler from standard input, and writes what it returns.
 *
 * Strings are hexadecimal, and "-" is NULL. Commands that fail print "error" and the number.
 */
#include "labeler.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char text[1 << 16];

static const char *read_string(void)
{
    size_t i, n;
    unsigned byte;
    if (scanf("%65535s", text) != 1)
        exit(2);
    if (strcmp(text, "-") == 0)
        return NULL;
    n = strlen(text) / 2;
    for (i = 0; i < n; i++) {
        if (sscanf(text + 2 * i, "%2x", &byte) != 1)
            exit(2);
        text[i] = (char)byte;
    }
    text[n] = 0;
    return text;
}

static size_t read_count(void)
{
    size_t count;
    if (scanf("%zu", &count) != 1)
        exit(2);
    return count;
}

static double read_number(void)
{
    double number;
    if (scanf("%lf", &number) != 1)
        exit(2);
    return number;
}

static void report(int status)
{
    if (status)
        printf("error %d\n", status);
}

static void print_labels(size_t n, const int32_t *labels)
{
    size_t i;
    for (i = 0; i < n; i++)
        printf("%" PRId32 "%c", labels[i], i + 1 < n ? ' ' : '\n');
}

/* Label the sequence in a workspace; results have exactly the size that is needed. */
static void label(void *workspace, size_t n)
{
    int32_t *labels = malloc(n * sizeof *labels);
    double *p = malloc(n * LABELER_N_LABELS * sizeof *p);
    size_t i;
    int status = labeler_predict(workspace, labels);
    status ? report(status) : print_labels(n, labels);
    status = labeler_viterbi(workspace, labels);
    status ? report(status) : print_labels(n, labels);
    status = labeler_marginals(workspace, p);
    report(status);
    for (i = 0; !status && i < n * LABELER_N_LABELS; i++)
        printf("%a%c", p[i], i + 1 < n * LABELER_N_LABELS ? ' ' : '\n');
    free(labels);
    free(p);
}

int main(void)
{
    void *workspace = NULL;
    size_t n = 0, position, j;
    char command;
    double *row = malloc(LABELER_N_COLUMNS * sizeof *row);
    while (scanf(" %c", &command) == 1) {
        if (command == 'b') { /* begin: positions, values */
            size_t size;
            n = read_count();
            size = labeler_workspace_size(n, read_count());
            free(workspace);
            workspace = size < SIZE_MAX ? malloc(size) : NULL;
            report(labeler_begin(workspace, size, n));
        } else if (command == 'p') {
            label(workspace, n);
        } else if (command == 'c') { /* codes of strings: column, string */
            int32_t column = (int32_t)read_count();
            printf("%" PRId32 "\n", labeler_category(column, read_string()));
        } else {
            position = read_count();
            if (command == 'a') { /* attribute: name, number */
                const char *name = read_string();
                report(labeler_add_attribute(workspace, position, name, read_number()));
            } else if (command == 's') { /* string: name, string */
                int32_t column = labeler_column(read_string());
                report(labeler_set_category(workspace, position, column, read_string()));
            } else if (command == 'k') { /* string: column, string */
                int32_t column = (int32_t)read_count();
                report(labeler_set_category(workspace, position, column, read_string()));
            } else if (command == 'n') { /* number: column, number */
                int32_t column = (int32_t)read_count();
                report(labeler_set_number(workspace, position, column, read_number()));
            } else { /* row */
                for (j = 0; j < LABELER_N_COLUMNS; j++)
                    row[j] = read_number();
                report(labeler_set_row(workspace, position, row));
            }
        }
    }
    free(row);
    free(workspace);
    return 0;
}
