/* A labeler of sequences in C99, without dependencies beyond <math.h> and <string.h>.
 *
 * All functions are safe to call from several threads, as long as each thread has its own
 * workspace. Nothing is allocated and no global variable is written. A sequence is labeled in
 * four steps:
 *
 *     size_t size = labeler_workspace_size(n_positions, n_values);
 *     void *workspace = malloc(size);
 *     labeler_begin(workspace, size, n_positions);
 *     labeler_set_...(workspace, position, ...);        for each value
 *     labeler_predict(workspace, labels);
 *
 * `n_values` is the number of values of all positions together. Functions return 0 if they succeed,
 * and otherwise one of the errors below. Columns are numbered from 0 in the order of training;
 * `labeler_column` finds the number of a name, and `labeler_labels` has the names of the labels.
 * Strings are UTF-8 and end with 0.
 */
#ifndef LABELER_H
#define LABELER_H

#include <stddef.h>
#include <stdint.h>

/* Before each function, such as __declspec(dllexport). */
#ifndef LABELER_API
#define LABELER_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* @constants@ */

/* Errors. */
#define LABELER_ERROR_SIZE (-1)       /* the workspace is too small for the positions or values */
#define LABELER_ERROR_POSITION (-2)   /* there are no positions, or not as many */
#define LABELER_ERROR_COLUMN (-3)     /* there is no such column */
#define LABELER_ERROR_KIND (-4)       /* a string in a column of numbers, or the reverse */
#define LABELER_ERROR_VALUE (-5)      /* infinite or too large, or not 0 or 1 in a boolean column */
#define LABELER_ERROR_IMPOSSIBLE (-6) /* no label sequence satisfies the rules of transitions */

/* Names of the labels, by their codes. */
extern LABELER_API const char *const labeler_labels[LABELER_N_LABELS];

/* Name of the label with a code; NULL if there is none. */
LABELER_API const char *labeler_label(int32_t code);

/* What an error means, in English. */
LABELER_API const char *labeler_error(int status);

/* Number of bytes of a workspace; SIZE_MAX if there are too many. */
LABELER_API size_t labeler_workspace_size(size_t n_positions, size_t n_values);

/* Begin a sequence without any values. The workspace must not be moved until the next one. */
LABELER_API int labeler_begin(void *workspace, size_t size, size_t n_positions);

/* Number of the column with a name; -1 if there is none. */
LABELER_API int32_t labeler_column(const char *name);

/* Set a number, or a boolean as 0 or 1. NAN is a missing value. A second value replaces the first.
 *
 * After training on dicts or attributes, columns without a value are 0, False or no category, and
 * setting column -1, which `labeler_column` returns for unknown names, does nothing. After training
 * on tables, columns without a value are missing. */
LABELER_API int labeler_set_number(void *workspace, size_t position, int32_t column, double value);

/* Set a category: a string, or an integer as decimal digits. NULL is a missing value. Categories
 * that did not occur in training are allowed. Sequences of symbols have the only column 0. */
LABELER_API int labeler_set_category(void *workspace, size_t position, int32_t column,
                                     const char *value);

/* Set an attribute, that is, the column with this name, to a number, usually 1. Unknown names are
 * ignored. */
LABELER_API int labeler_add_attribute(void *workspace, size_t position, const char *name,
                                      double value);

/* Set all columns of a position to the numbers in a row of LABELER_N_COLUMNS. Categories are the
 * codes from `labeler_category`. */
LABELER_API int labeler_set_row(void *workspace, size_t position, const double *row);

/* Code of a category; 0 if it did not occur in training or does not matter to the model. */
LABELER_API int32_t labeler_category(int32_t column, const char *value);

/* Write the code of the label of each position, decoded as by the model's `predict`. */
LABELER_API int labeler_predict(void *workspace, int32_t *labels);

/* Write the most probable label sequence. */
LABELER_API int labeler_viterbi(void *workspace, int32_t *labels);

/* Write the probabilities of all labels, LABELER_N_LABELS numbers for each position. */
LABELER_API int labeler_marginals(void *workspace, double *probabilities);

#ifdef __cplusplus
}
#endif
#endif
