#include "labeler.h"

#include <math.h>
#include <string.h>

/* @tables@ */

/* How the labels of `labeler_predict` are chosen. */
#define MARGINAL 0
#define VITERBI 1
#define MINIMUM_RISK 2
#define GREEDY 3

/* Kinds of columns. */
#define BOOLEAN 0
#define CATEGORY 1
#define NUMBER 2

/* Positions whose tests are the bits of a word. */
#define BLOCK 64

/* Sums of products stay in the range of doubles if the logarithms of factors are at least the first
 * of these, and weights are 0 or at least the second. Otherwise, logarithms are summed. */
#define LOWEST_LOG (-150.0)
#define SMALLEST_WEIGHT 1e-150

/* Largest number that linear models take. */
#define MAX_NUMBER 1e100

/* Unit of leaf values, and of fractions of positions that lack values. */
#define LEAF_UNIT (1.0 / 1048576.0)
#define WHOLE 65536u

#define UNUSED(argument) ((void)(argument))

/* A value of a position. */
typedef struct {
    double value;    /* the number, or the code of the category; NAN if it is missing */
    uint32_t column; /* its column */
    uint32_t next;   /* 1 plus the number of the value of the next column; 0 for the last */
} entry;

/* A node of a tree that some positions have yet to visit. */
typedef struct {
    uint64_t positions; /* of a block, a bit for each; or the fraction of a single position */
    uint32_t node;
} visit;

/* The parts of a workspace. */
typedef struct {
    size_t n;           /* number of positions */
    size_t n_entries;   /* number of values so far */
    size_t max_entries; /* number of values for which there is room */
    uint32_t *first;    /* [position]: 1 plus the number of its first value; 0 for none */
    uint32_t *last;     /* [position]: the same for its last value */
    double *state;      /* [position, label]: scores of labels, then factors */
    double *table;      /* [position, context, label]: scores that depend on previous labels */
    double *forward;    /* [position + 1, context]: weights of contexts */
    double *backward;   /* two rows of contexts */
    double *scale;      /* [position]: inverse sum of the weights after it */
    double *row;        /* [label] */
    uint16_t *origins;  /* [position, context]: oldest label before; in the place of `forward` */
    uint8_t *allowed;   /* [position, label]: whether the end can be reached */
    uint64_t *tests;    /* [test]: positions of a block that pass it */
    uint64_t *missing;  /* [test]: positions of a block that lack its value */
    uint64_t lacking;   /* positions of a block that lack the value of any test */
    visit *visits;      /* nodes to visit */
    entry *entries;     /* the values */
} work;

/* Memory */

typedef union {
    double number;
    void *pointer;
    uint64_t word;
} widest;

/* Take an array from a workspace, or count its bytes if there is none. */
static void *take(unsigned char *start, size_t *used, size_t count, size_t width)
{
    size_t first = *used;
    if (count > (SIZE_MAX - first - sizeof(widest)) / width) {
        *used = SIZE_MAX - sizeof(widest);
        return NULL;
    }
    *used = (first + count * width + sizeof(widest) - 1) / sizeof(widest) * sizeof(widest);
    return start ? start + first : NULL;
}

static size_t times(size_t a, size_t b)
{
    return b && a > SIZE_MAX / b ? SIZE_MAX : a * b;
}

/* Divide a workspace into its parts; returns the number of its bytes without values. */
static size_t divide(unsigned char *start, size_t n, work *w)
{
    size_t used = 0, n_contexts = N_CONTEXTS, n_scores = times(n, LABELER_N_LABELS);
    take(start, &used, 1, sizeof(work));
    w->first = take(start, &used, n, sizeof(uint32_t));
    w->last = take(start, &used, n, sizeof(uint32_t));
    w->state = take(start, &used, n_scores, sizeof(double));
    w->table = take(start, &used, HAS_TABLE ? times(n_scores, n_contexts) : 0, sizeof(double));
    w->forward = take(start, &used, times(n_contexts, n + 1), sizeof(double));
    w->backward = take(start, &used, 2 * n_contexts, sizeof(double));
    w->scale = take(start, &used, n, sizeof(double));
    w->row = take(start, &used, LABELER_N_LABELS, sizeof(double));
    w->allowed = take(start, &used, HAS_RULES ? n_scores : 0, sizeof(uint8_t));
    w->tests = take(start, &used, N_TESTS, sizeof(uint64_t));
    w->missing = take(start, &used, N_TESTS, sizeof(uint64_t));
    w->visits = take(start, &used, MAX_VISITS, sizeof(visit));
    w->entries = take(start, &used, 0, sizeof(entry));
    return used;
}

/* The first address in a workspace at which any type may begin. */
static work *parts_of(void *workspace)
{
    uintptr_t address = (uintptr_t)workspace, over = address % sizeof(widest);
    unsigned char *start = workspace;
    return (void *)(start + (over ? sizeof(widest) - over : 0));
}

size_t labeler_workspace_size(size_t n_positions, size_t n_values)
{
    work parts;
    size_t used = divide(NULL, n_positions, &parts);
    if (n_positions >= UINT32_MAX || n_values >= UINT32_MAX)
        return SIZE_MAX;
    take(NULL, &used, n_values, sizeof(entry));
    return used >= SIZE_MAX - 2 * sizeof(widest) ? SIZE_MAX : used + sizeof(widest);
}

int labeler_begin(void *workspace, size_t size, size_t n_positions)
{
    work *w;
    size_t used;
    if (n_positions == 0 || n_positions >= UINT32_MAX)
        return LABELER_ERROR_POSITION;
    if (!workspace || size < labeler_workspace_size(n_positions, 0))
        return LABELER_ERROR_SIZE;
    w = parts_of(workspace);
    memset(w, 0, sizeof *w);
    used = divide((unsigned char *)w, n_positions, w) + sizeof(widest);
    w->n = n_positions;
    w->max_entries = (size - used) / sizeof(entry);
    w->origins = (void *)w->forward;
    memset(w->first, 0, n_positions * sizeof *w->first);
    memset(w->last, 0, n_positions * sizeof *w->last);
    return 0;
}

/* Names */

const char *labeler_label(int32_t code)
{
    return code >= 0 && code < LABELER_N_LABELS ? labeler_labels[code] : NULL;
}

const char *labeler_error(int status)
{
    switch (status) {
    case 0:
        return "success";
    case LABELER_ERROR_SIZE:
        return "the workspace is too small for the positions or values";
    case LABELER_ERROR_POSITION:
        return "there are no positions, or not as many";
    case LABELER_ERROR_COLUMN:
        return "there is no such column";
    case LABELER_ERROR_KIND:
        return "a string in a column of numbers, or a number in a column of categories";
    case LABELER_ERROR_VALUE:
        return "infinite or too large, or not 0 or 1 in a boolean column";
    case LABELER_ERROR_IMPOSSIBLE:
        return "no label sequence satisfies the rules of transitions";
    default:
        return "unknown error";
    }
}

#if N_STRINGS
/* Find a string of an owner, which is a column, or LABELER_N_COLUMNS for names of columns: FNV-1a
 * hash, linear probing. Returns its code, or 0. */
static int32_t find(uint32_t owner, const char *text)
{
    const unsigned char *byte;
    uint32_t hash = (2166136261u ^ owner) * 16777619u;
    for (byte = (const unsigned char *)text; *byte; byte++)
        hash = (hash ^ *byte) * 16777619u;
    for (hash ^= hash >> 15;; hash++) {
        uint32_t place = slots[hash & (N_SLOTS - 1)];
        if (place == 0)
            return 0;
        place--;
        if (string_owners[place] == owner) {
            uint32_t start = string_starts[place];
            if (strcmp(characters[start / BLOCK_OF_CHARACTERS] + start % BLOCK_OF_CHARACTERS,
                       text) == 0)
                return (int32_t)string_codes[place];
        }
    }
}
#else
static int32_t find(uint32_t owner, const char *text)
{
    UNUSED(owner);
    UNUSED(text);
    return 0;
}
#endif

int32_t labeler_column(const char *name)
{
    return name ? find(LABELER_N_COLUMNS, name) - 1 : -1;
}

int32_t labeler_category(int32_t column, const char *value)
{
    if (column < 0 || column >= LABELER_N_COLUMNS || !value)
        return 0;
    return find((uint32_t)column, value);
}

/* Values */

/* Set the value of a column that has been checked. Entries of a position are in column order. */
static int set_value(work *w, size_t position, uint32_t column, double value)
{
    uint32_t *link, last;
    entry *added;
    if (position >= w->n)
        return LABELER_ERROR_POSITION;
#if IS_BACKWARD
    position = w->n - 1 - position;
#endif
    last = w->last[position];
    link = &w->first[position];
    if (last && w->entries[last - 1].column < column)
        link = &w->entries[last - 1].next;
    while (*link && w->entries[*link - 1].column < column)
        link = &w->entries[*link - 1].next;
    if (*link && w->entries[*link - 1].column == column) {
        w->entries[*link - 1].value = value;
        return 0;
    }
    if (w->n_entries >= w->max_entries)
        return LABELER_ERROR_SIZE;
    added = &w->entries[w->n_entries++];
    added->value = value;
    added->column = column;
    added->next = *link;
    *link = (uint32_t)w->n_entries;
    if (!added->next)
        w->last[position] = *link;
    return 0;
}

/* Whether an unknown column is ignored; otherwise it is an error. */
static int is_ignored(int32_t column)
{
    return IGNORES_UNKNOWN && column == -1;
}

static int kind_of(int32_t column)
{
    return column < 0 || column >= LABELER_N_COLUMNS ? -1 : (int)column_kinds[column];
}

int labeler_set_number(void *workspace, size_t position, int32_t column, double value)
{
    int kind = kind_of(column), is_present = value == value;
    if (is_ignored(column))
        return 0;
    if (kind < 0)
        return LABELER_ERROR_COLUMN;
    if (kind == CATEGORY)
        return LABELER_ERROR_KIND;
    if (is_present && (kind == BOOLEAN ? value != 0.0 && value != 1.0 : !(fabs(value) <= LIMIT)))
        return LABELER_ERROR_VALUE;
    return set_value(parts_of(workspace), position, (uint32_t)column, value);
}

int labeler_set_category(void *workspace, size_t position, int32_t column, const char *value)
{
    int kind = kind_of(column);
    double code = NAN;
    if (is_ignored(column))
        return 0;
    if (kind < 0)
        return LABELER_ERROR_COLUMN;
    if (kind != CATEGORY)
        return LABELER_ERROR_KIND;
    if (value)
        code = (double)find((uint32_t)column, value);
    return set_value(parts_of(workspace), position, (uint32_t)column, code);
}

int labeler_add_attribute(void *workspace, size_t position, const char *name, double value)
{
    int32_t column = labeler_column(name);
    if (column < 0)
        return 0;
    return labeler_set_number(workspace, position, column, value);
}

/* Whether a number is the code of a category of a column. */
static int is_code(int32_t column, double value)
{
    size_t n_codes = (size_t)(column_ends[column] - column_places[column]) - 1;
    return value >= 0.0 && value < (double)n_codes && value == floor(value);
}

int labeler_set_row(void *workspace, size_t position, const double *row)
{
    int32_t column;
    int status = 0;
    for (column = 0; column < LABELER_N_COLUMNS && status == 0; column++) {
        double value = row[column];
        if (column_kinds[column] != CATEGORY)
            status = labeler_set_number(workspace, position, column, value);
        else if (value == value && !is_code(column, value))
            status = LABELER_ERROR_VALUE;
        else
            status = set_value(parts_of(workspace), position, (uint32_t)column, value);
    }
    return status;
}

#if HAS_TREES || HAS_LINEAR
/* The values of a position, one after another. */
typedef struct {
    uint32_t next;   /* 1 plus the number of the next value */
    uint32_t column; /* of the present value; before the first, it is one less than 0 */
    double value;
} cursor;

static cursor values_at(const work *w, size_t position)
{
    cursor at;
    at.next = w->first[position];
    at.column = UINT32_MAX;
    at.value = 0.0;
    return at;
}

/* Move to the next value; returns 0 after the last one. */
static int advance(const work *w, cursor *at)
{
#if VISITS_ALL
    if (at->column + 1 == LABELER_N_COLUMNS)
        return 0;
    at->column++;
    at->value = ABSENT;
    if (!at->next || w->entries[at->next - 1].column != at->column)
        return 1;
#else
    if (!at->next)
        return 0;
#endif
    at->column = w->entries[at->next - 1].column;
    at->value = w->entries[at->next - 1].value;
    at->next = w->entries[at->next - 1].next;
    return 1;
}

/* Each column has a place for missing values, followed by one for numbers, or by one for unknown
 * categories and those of known ones. */
static size_t place_of(uint32_t column, double value)
{
    size_t missing = column_places[column];
    if (value != value)
        return missing;
    return missing + 1 + (column_kinds[column] == CATEGORY ? (size_t)value : 0);
}
#endif

/* The linear model */

#if HAS_LINEAR
/* Add the weights of an attribute at position t to the positions whose window has it. */
static void add_weights(work *w, ptrdiff_t t, size_t place, double value)
{
    ptrdiff_t target = t - LINEAR_RIGHT;
    size_t offset, k, first = place * N_OFFSETS;
    if (value == 0.0 || weight_starts[first] == weight_starts[first + N_OFFSETS])
        return;
    for (offset = 0; offset < N_OFFSETS; offset++, target++) {
        double *scores;
        if (target < 0 || target >= (ptrdiff_t)w->n)
            continue;
        scores = w->state + (size_t)target * LABELER_N_LABELS;
        for (k = weight_starts[first + offset]; k < weight_starts[first + offset + 1]; k++)
            scores[weight_labels[k]] += value * weights[k];
    }
}

/* Add the weights of the value of a column. */
static void add_value(work *w, ptrdiff_t t, uint32_t column, double value)
{
    int is_missing = value != value;
#if HAS_RANGES
    if (value < linear_lows[column])
        value = linear_lows[column];
    if (value > linear_highs[column])
        value = linear_highs[column];
#endif
    if (is_missing) {
        add_weights(w, t, column_places[column], 1.0);
#if HAS_LINEAR_FILLS
        value = linear_fills[column];
#else
        value = 0.0;
#endif
    }
    if (column_kinds[column] == CATEGORY) {
        if (!is_missing || value != 0.0)
            add_weights(w, t, place_of(column, value), 1.0);
        return;
    }
#if HAS_SCALES
    value = ldexp(value - linear_shifts[column], -linear_exponents[column]);
#endif
    add_weights(w, t, column_places[column] + 1u, value);
}

static void add_linear(work *w)
{
    ptrdiff_t t, n = (ptrdiff_t)w->n;
    size_t i;
    for (t = -LINEAR_LEFT; t < 0; t++)
        add_weights(w, t, N_PLACES, 1.0);
    for (t = 0; t < n; t++) {
        cursor at = values_at(w, (size_t)t);
        while (advance(w, &at))
            add_value(w, t, at.column, at.value);
    }
    for (t = n; t < n + LINEAR_RIGHT; t++)
        add_weights(w, t, N_PLACES, 1.0);
    for (i = 0; ROUNDS_LINEAR && i < w->n * LABELER_N_LABELS; i++)
        w->state[i] = rint(w->state[i] / LEAF_UNIT) * LEAF_UNIT;
}
#endif

/* Tests of trees */

#if HAS_TREES
/* The first `count` positions of a block. */
static uint64_t first_positions(size_t count)
{
    return count >= BLOCK ? ~(uint64_t)0 : ((uint64_t)1 << count) - 1;
}

/* The positions of a block for which the one at an offset is in the sequence. */
static uint64_t inside(const work *w, size_t start, size_t size, ptrdiff_t offset)
{
    ptrdiff_t low = -offset - (ptrdiff_t)start;
    ptrdiff_t high = (ptrdiff_t)w->n - offset - (ptrdiff_t)start;
    if (high <= 0 || low >= (ptrdiff_t)size)
        return 0;
    high = high < (ptrdiff_t)size ? high : (ptrdiff_t)size;
    return first_positions((size_t)high) & (low > 0 ? ~first_positions((size_t)low) : ~(uint64_t)0);
}

/* Set or clear a position of a test, for the value at position t. */
static void note(uint64_t *word, size_t test, ptrdiff_t t, size_t size, int passes)
{
    ptrdiff_t i = t - test_offsets[test];
    if (i >= 0 && i < (ptrdiff_t)size)
        *word = (*word & ~((uint64_t)1 << i)) | (uint64_t)passes << i;
}

/* Note what the tests of a column say of its value at position t, counted from the block. */
static void note_value(work *w, ptrdiff_t t, size_t size, uint32_t column, double value)
{
    size_t k, place = place_of(column, value);
    if (value != value) {
        size_t end = place_tests[column_ends[column]];
        for (k = place_tests[place]; k < place_tests[place + 1]; k++)
            note(&w->tests[k], k, t, size, 1);
#if HAS_TREE_FILLS
        UNUSED(end);
        value = tree_fills[column];
        place = place_of(column, value);
#else
        for (; k < end; k++) {
            ptrdiff_t i = t - test_offsets[k];
            if (i >= 0 && i < (ptrdiff_t)size) {
                w->missing[k] |= (uint64_t)1 << i;
                w->lacking |= (uint64_t)1 << i;
                w->tests[k] &= ~((uint64_t)1 << i);
            }
        }
        return;
#endif
    }
    for (k = place_tests[place]; k < place_tests[place + 1]; k++) {
        int passes = 1;
#if N_THRESHOLDS
        if (k < N_THRESHOLDS)
            passes = value > thresholds[k];
#endif
#if HAS_REVERSED
        if (k < N_THRESHOLDS && test_is_reversed[k])
            passes = !passes;
#endif
        note(&w->tests[k], k, t, size, passes);
    }
}

/* Find the positions of a block that pass each test. */
static void evaluate_tests(work *w, size_t start, size_t size)
{
    ptrdiff_t t, first = (ptrdiff_t)start + LEAST_OFFSET;
    ptrdiff_t end = (ptrdiff_t)(start + size) + GREATEST_OFFSET;
    size_t k;
    memset(w->tests, 0, N_TESTS * sizeof *w->tests);
    memset(w->missing, 0, N_TESTS * sizeof *w->missing);
    w->lacking = 0;
    for (k = FIRST_BOUNDARY; k < N_TESTS; k++)
        w->tests[k] = ~inside(w, start, size, test_offsets[k]) & first_positions(size);
#if N_ZERO_TESTS
    for (k = 0; k < N_ZERO_TESTS; k++)
        w->tests[zero_tests[k]] = inside(w, start, size, test_offsets[zero_tests[k]]);
#endif
    first = first < 0 ? 0 : first;
    end = end > (ptrdiff_t)w->n ? (ptrdiff_t)w->n : end;
    for (t = first; t < end; t++) {
        cursor at = values_at(w, (size_t)t);
        while (advance(w, &at))
            note_value(w, t - (ptrdiff_t)start, size, at.column, at.value);
    }
}

/* Trees. The true child of a node follows it. */

/* Number of the lowest bit of a word that is set. */
static size_t lowest_bit(uint64_t word)
{
#ifdef __GNUC__
    return (size_t)__builtin_ctzll(word);
#else
    size_t i = 0;
    while (!(word >> i & 1))
        i++;
    return i;
#endif
}

#if HAS_SETS
/* Add a value to the scores of a label at position t in the contexts of a set. */
static void add_to_contexts(work *w, size_t t, size_t label, size_t set, double value)
{
    size_t place = set * (LABELER_ORDER + 1) + (t < LABELER_ORDER ? t : LABELER_ORDER);
    size_t k = set_starts[place], end = set_starts[place + 1];
    double *scores = w->table + t * N_CONTEXTS * LABELER_N_LABELS + label;
    if (set_is_complement[place]) {
        w->state[t * LABELER_N_LABELS + label] += value;
        value = -value;
    }
    for (; k < end; k++)
        scores[(size_t)set_contexts[k] * LABELER_N_LABELS] += value;
}
#endif

/* Add a fraction of the value of a leaf to the scores of positions of a block. */
static void add_leaf(work *w, size_t start, uint64_t positions, size_t tree, size_t node,
                     double fraction)
{
    double *scores = w->state + start * LABELER_N_LABELS;
#if IS_MULTI_OUTPUT
    size_t first = (size_t)node_values[node] * LABELER_N_LABELS, label;
    UNUSED(tree);
    for (; positions; positions &= positions - 1)
        for (label = 0; label < LABELER_N_LABELS; label++) {
            double value = rint((double)leaf_values[first + label] * fraction) * LEAF_UNIT;
            scores[lowest_bit(positions) * LABELER_N_LABELS + label] += value;
        }
#else
    size_t label = tree % LABELER_N_LABELS;
    double value = rint((double)node_values[node] * fraction) * LEAF_UNIT;
#if HAS_SETS
    if (node_links[node]) {
        for (; positions; positions &= positions - 1)
            add_to_contexts(w, start + lowest_bit(positions), label, node_links[node], value);
        return;
    }
#endif
    for (; positions; positions &= positions - 1)
        scores[lowest_bit(positions) * LABELER_N_LABELS + label] += value;
#endif
}

/* Evaluate a tree at positions of a block that have the values of all tests. */
static void visit_block(work *w, size_t start, size_t tree, uint64_t positions)
{
    size_t n = 0, node = tree_starts[tree];
    for (;;) {
        size_t test = node_tests[node];
        if (test < LABEL_TEST) {
            uint64_t passing = positions & w->tests[test];
            if (!passing) {
                node += node_links[node];
                continue;
            }
            if (positions != passing) {
                w->visits[n].positions = positions & ~passing;
                w->visits[n++].node = (uint32_t)(node + node_links[node]);
            }
            positions = passing;
            node++;
        } else if (test == LABEL_TEST) {
            w->visits[n].positions = positions;
            w->visits[n++].node = (uint32_t)(node + node_links[node]);
            node++;
        } else {
            add_leaf(w, start, positions, tree, node, 1.0);
            if (n-- == 0)
                return;
            node = w->visits[n].node;
            positions = w->visits[n].positions;
        }
    }
}

#if FOLLOWS_SURROGATES
/* The fraction of a position without the value of a node that passes: all or nothing. */
static uint32_t passing_share(const work *w, size_t node, size_t i)
{
    size_t k;
    for (k = surrogate_starts[node]; k < surrogate_starts[node + 1]; k++) {
        size_t test = surrogate_tests[k];
        if (!(w->missing[test] >> i & 1))
            return (w->tests[test] >> i & 1) != surrogate_is_reversed[k] ? WHOLE : 0;
    }
    return node_values[node] ? WHOLE : 0;
}
#else
/* The fraction of a position without the value of a node that passes. */
static uint32_t passing_share(const work *w, size_t node, size_t i)
{
    UNUSED(w);
    UNUSED(i);
    return (uint32_t)node_values[node];
}
#endif

/* Evaluate a tree at the i-th position of a block, which lacks values: fractions of it go to both
 * children of a test. */
static void visit_fractions(work *w, size_t start, size_t tree, size_t i)
{
    size_t n = 0, node = tree_starts[tree];
    uint64_t weight = WHOLE;
    for (;;) {
        size_t test = node_tests[node];
        uint64_t passing = weight, failing = weight;
        if (test > LABEL_TEST) {
            add_leaf(w, start, (uint64_t)1 << i, tree, node, (double)weight * (1.0 / WHOLE));
            if (n-- == 0)
                return;
            node = w->visits[n].node;
            weight = w->visits[n].positions;
            continue;
        }
        if (test != LABEL_TEST) {
            if (w->missing[test] >> i & 1)
                passing = (weight * passing_share(w, node, i) + WHOLE / 2) / WHOLE;
            else if (!(w->tests[test] >> i & 1))
                passing = 0;
            failing = weight - passing;
        }
        if (passing && failing) {
            w->visits[n].positions = failing;
            w->visits[n++].node = (uint32_t)(node + node_links[node]);
        }
        weight = passing ? passing : failing;
        node += passing ? 1u : (size_t)node_links[node];
    }
}

static void add_trees(work *w)
{
    size_t start, tree;
    for (start = 0; start < w->n; start += BLOCK) {
        size_t size = w->n - start < BLOCK ? w->n - start : BLOCK;
        uint64_t complete, lacking;
        evaluate_tests(w, start, size);
        complete = first_positions(size) & ~w->lacking;
        for (tree = 0; tree < N_TREES; tree++) {
            if (complete)
                visit_block(w, start, tree, complete);
            for (lacking = w->lacking; lacking; lacking &= lacking - 1)
                visit_fractions(w, start, tree, lowest_bit(lacking));
        }
    }
}
#endif

/* Scores */

#if LABELER_ORDER
/* Number of contexts of position t. */
static size_t contexts_at(size_t t)
{
    size_t n = 1;
    if (t >= LABELER_ORDER)
        return N_CONTEXTS;
    while (t-- > 0)
        n *= LABELER_N_LABELS;
    return n;
}
#endif

#if HAS_RULES
/* Forbid labels from which the end cannot be reached. */
static void forbid(work *w)
{
    size_t t, v, u;
    for (t = w->n; t-- > 0;) {
        uint8_t *allowed = w->allowed + t * LABELER_N_LABELS;
        const uint8_t *after = allowed + LABELER_N_LABELS;
        for (v = 0; v < LABELER_N_LABELS; v++) {
            if (t + 1 == w->n) {
                allowed[v] = rule_ends[v];
            } else {
                allowed[v] = 0;
                for (u = 0; u < LABELER_N_LABELS; u++)
                    if (rule_follows[v][u] && after[u])
                        allowed[v] = 1;
            }
            if (!allowed[v])
                w->state[t * LABELER_N_LABELS + v] = -HUGE_VAL;
        }
    }
}
#endif

#if HAS_TRANSITIONS && LABELER_ORDER == 0
/* Add scores of labels that are the same at all positions. */
static void add_prior(work *w)
{
    size_t i;
    for (i = 0; i < w->n * LABELER_N_LABELS; i++)
        w->state[i] += transitions[i % LABELER_N_LABELS];
}
#endif

#if IS_LOCAL
/* Turn scores into logarithms of their softmax. */
static void normalize(double *scores, size_t n)
{
    double highest = scores[0], total = 0.0;
    size_t i;
    for (i = 1; i < n; i++)
        highest = scores[i] > highest ? scores[i] : highest;
    if (highest == -HUGE_VAL)
        return;
    for (i = 0; i < n; i++)
        total += exp(scores[i] - highest);
    total = highest + log(total);
    for (i = 0; i < n; i++)
        scores[i] -= total;
}
#endif

#if HAS_TABLE
/* Add constant transitions to the table, and normalize a model that is so at each position. */
static void complete_table(work *w)
{
    size_t t, i;
    for (t = 0; t < w->n; t++) {
        size_t n = contexts_at(t) * LABELER_N_LABELS;
        double *row = w->table + t * N_CONTEXTS * LABELER_N_LABELS;
#if HAS_TRANSITIONS
        const double *added = transitions + transition_starts[t < LABELER_ORDER ? t : LABELER_ORDER];
        for (i = 0; i < n; i++)
            row[i] += added[i];
#endif
#if IS_LOCAL
        for (i = 0; i < n; i++)
            row[i] += w->state[t * LABELER_N_LABELS + i % LABELER_N_LABELS];
        for (i = 0; i < n; i += LABELER_N_LABELS)
            normalize(row + i, LABELER_N_LABELS);
        for (i = 0; i < LABELER_N_LABELS; i++)
            w->state[t * LABELER_N_LABELS + i] = 0.0;
#endif
        UNUSED(i);
        UNUSED(n);
        UNUSED(row);
    }
}
#endif

/* Compute the scores: those of label v at position t in context c are `state[t, v]` plus an item
 * of the matrix of t. */
static void compute_scores(work *w)
{
    memset(w->state, 0, w->n * LABELER_N_LABELS * sizeof(double));
#if HAS_TABLE
    memset(w->table, 0, w->n * N_CONTEXTS * LABELER_N_LABELS * sizeof(double));
#endif
#if HAS_LINEAR
    add_linear(w);
#endif
#if HAS_TREES
    add_trees(w);
#endif
#if HAS_TRANSITIONS && LABELER_ORDER == 0
    add_prior(w);
#endif
#if HAS_RULES
    forbid(w);
#endif
#if HAS_TABLE
    complete_table(w);
#endif
}

#if LABELER_ORDER
/* Scores of labels after contexts, [context, label]. */
static const double *matrix_at(const work *w, size_t t)
{
#if HAS_TABLE
    return w->table + t * N_CONTEXTS * LABELER_N_LABELS;
#else
    UNUSED(w);
    return transitions + transition_starts[t < LABELER_ORDER ? t : LABELER_ORDER];
#endif
}

/* The exponentials of these scores, relative to the highest. */
static const double *factors_at(const work *w, size_t t)
{
#if HAS_TABLE
    return matrix_at(w, t);
#else
    UNUSED(w);
    return transition_factors + transition_starts[t < LABELER_ORDER ? t : LABELER_ORDER];
#endif
}
#endif

/* Position in the direction of the input. */
static size_t input_position(const work *w, size_t t)
{
    UNUSED(w);
    return IS_BACKWARD ? w->n - 1 - t : t;
}

/* Probabilities */

/* Number of the highest value, the first of equal ones. */
static size_t highest_of(const double *values, size_t n)
{
    size_t i, highest = 0;
    for (i = 1; i < n; i++)
        highest = values[i] > values[highest] ? i : highest;
    return highest;
}

/* Turn scores into factors, their exponentials relative to the highest. Returns 0 if they are too
 * far apart for products. */
static int exponentiate(double *scores, size_t n)
{
    double level = scores[highest_of(scores, n)];
    int is_near = 1;
    size_t i;
    if (level == -HUGE_VAL)
        level = 0.0;
    for (i = 0; i < n; i++) {
        double relative = scores[i] - level;
        is_near &= relative >= LOWEST_LOG || relative == -HUGE_VAL;
        scores[i] = exp(relative);
    }
    return is_near;
}

/* Divide numbers by their sum; returns the inverse of the sum. */
static double divide_by_sum(double *values, size_t n)
{
    double total = 0.0, inverse;
    size_t i;
    for (i = 0; i < n; i++)
        total += values[i];
    inverse = total > 0.0 ? 1.0 / total : 0.0;
    for (i = 0; i < n; i++)
        values[i] *= inverse;
    return inverse;
}

#if LABELER_ORDER
/* Turn all scores into factors. Returns 0 if they are too far apart. */
static int compute_factors(work *w)
{
    int is_near = TRANSITIONS_ARE_NEAR;
    size_t t;
    for (t = 0; t < w->n; t++) {
        is_near &= exponentiate(w->state + t * LABELER_N_LABELS, LABELER_N_LABELS);
#if HAS_TABLE
        is_near &= exponentiate(w->table + t * N_CONTEXTS * LABELER_N_LABELS,
                                contexts_at(t) * LABELER_N_LABELS);
#endif
    }
    return is_near;
}

/* Compute the weights of the contexts of all positions; their sum at a position is 1. Context c is
 * followed by context (c mod n_ends) * n_labels + v after label v. Returns 0 if weights were lost
 * that may still matter. */
static int forward_products(work *w)
{
    size_t t, c, v, n = 1;
    w->forward[0] = 1.0;
    for (t = 0; t < w->n; t++) {
        const double *factors = factors_at(w, t), *state = w->state + t * LABELER_N_LABELS;
        const double *now = w->forward + t * N_CONTEXTS;
        double *after = w->forward + (t + 1) * N_CONTEXTS;
        size_t n_after = contexts_at(t + 1), n_ends = n_after / LABELER_N_LABELS;
        for (c = 0; c < n_after; c++)
            after[c] = 0.0;
        for (c = 0; c < n; c++, factors += LABELER_N_LABELS) {
            double *target = after + c % n_ends * LABELER_N_LABELS, weight = now[c];
            for (v = 0; v < LABELER_N_LABELS; v++)
                target[v] += weight * factors[v];
        }
        for (c = 0; c < n_after; c++)
            after[c] *= state[c % LABELER_N_LABELS];
        w->scale[t] = divide_by_sum(after, n_after);
        for (c = 0; c < n_after; c++)
            if (after[c] > 0.0 && after[c] < SMALLEST_WEIGHT)
                return 0;
        n = n_after;
    }
    return 1;
}

/* Weights of the contexts at t, given those after it, which are changed. */
static void backward_products(work *w, size_t t, double *now, double *after)
{
    const double *factors = factors_at(w, t), *state = w->state + t * LABELER_N_LABELS;
    const double *forward = w->forward + t * N_CONTEXTS;
    size_t c, v, n = contexts_at(t), n_after = contexts_at(t + 1);
    size_t n_ends = n_after / LABELER_N_LABELS;
    for (c = 0; c < n_after; c++)
        after[c] *= w->scale[t] * state[c % LABELER_N_LABELS];
    for (c = 0; c < n; c++, factors += LABELER_N_LABELS) {
        const double *source = after + c % n_ends * LABELER_N_LABELS;
        double total = 0.0;
        for (v = 0; v < LABELER_N_LABELS; v++)
            total += factors[v] * source[v];
        now[c] = forward[c] > 0.0 ? total : 0.0;
    }
}

/* Logarithm of a sum of exponentials. */
static double log_sum(const double *values, size_t n)
{
    double total = 0.0, level = values[highest_of(values, n)];
    size_t i;
    if (level == -HUGE_VAL)
        return level;
    for (i = 0; i < n; i++)
        total += exp(values[i] - level);
    return level + log(total);
}

/* Subtract the highest value, so that long sequences lose no digits. */
static void shift_to_zero(double *values, size_t n)
{
    double level = values[highest_of(values, n)];
    size_t i;
    for (i = 0; level > -HUGE_VAL && i < n; i++)
        values[i] -= level;
}

/* The same as `forward_products`, with logarithms of weights. */
static void forward_logs(work *w)
{
    size_t t, e, h, v, n = 1;
    w->forward[0] = 0.0;
    for (t = 0; t < w->n; t++) {
        const double *matrix = matrix_at(w, t), *state = w->state + t * LABELER_N_LABELS;
        const double *now = w->forward + t * N_CONTEXTS;
        double *after = w->forward + (t + 1) * N_CONTEXTS;
        size_t n_after = contexts_at(t + 1), n_ends = n_after / LABELER_N_LABELS;
        for (e = 0; e < n_ends; e++)
            for (v = 0; v < LABELER_N_LABELS; v++) {
                for (h = 0; h < n / n_ends; h++) {
                    size_t c = h * n_ends + e;
                    w->row[h] = now[c] + (matrix[c * LABELER_N_LABELS + v] + state[v]);
                }
                after[e * LABELER_N_LABELS + v] = log_sum(w->row, n / n_ends);
            }
        shift_to_zero(after, n_after);
        n = n_after;
    }
}

/* The same as `backward_products`, with logarithms of weights. */
static void backward_logs(work *w, size_t t, double *now, const double *after)
{
    const double *matrix = matrix_at(w, t), *state = w->state + t * LABELER_N_LABELS;
    size_t c, v, n = contexts_at(t), n_ends = contexts_at(t + 1) / LABELER_N_LABELS;
    for (c = 0; c < n; c++) {
        for (v = 0; v < LABELER_N_LABELS; v++)
            w->row[v] = matrix[c * LABELER_N_LABELS + v] + state[v] +
                        after[c % n_ends * LABELER_N_LABELS + v];
        now[c] = log_sum(w->row, LABELER_N_LABELS);
    }
    shift_to_zero(now, n);
}

/* Probabilities of the labels at t, given the weights of the contexts after it. */
static void sum_contexts(work *w, size_t t, double *after, int in_logs, double *p)
{
    const double *forward = w->forward + (t + 1) * N_CONTEXTS;
    double level = -HUGE_VAL;
    size_t c, v, n = contexts_at(t + 1);
    for (v = 0; v < LABELER_N_LABELS; v++)
        p[v] = 0.0;
    for (c = 0; in_logs && c < n; c++)
        level = forward[c] + after[c] > level ? forward[c] + after[c] : level;
    for (c = 0; c < n; c++)
        p[c % LABELER_N_LABELS] +=
            in_logs ? exp(forward[c] + after[c] - level) : forward[c] * after[c];
    divide_by_sum(p, LABELER_N_LABELS);
}
#endif

/* Label of a position, given the probabilities of all. */
static int32_t choose(const double *p)
{
#if DECODING == MINIMUM_RISK
    double least = HUGE_VAL;
    size_t u, v, best = 0;
    for (v = 0; v < LABELER_N_LABELS; v++) {
        double risk = 0.0;
        for (u = 0; u < LABELER_N_LABELS; u++)
            risk += p[u] * costs[u][v];
        best = risk < least ? v : best;
        least = risk < least ? risk : least;
    }
    return (int32_t)best;
#else
    return (int32_t)highest_of(p, LABELER_N_LABELS);
#endif
}

/* Write the probabilities of a position, its label, or both. */
static void write(const work *w, size_t t, const double *p, double *probabilities, int32_t *labels)
{
    size_t position = input_position(w, t);
    if (probabilities)
        memcpy(probabilities + position * LABELER_N_LABELS, p, LABELER_N_LABELS * sizeof *p);
    if (labels)
        labels[position] = choose(p);
}

#if LABELER_ORDER
/* Write the probabilities of all positions, their labels, or both. */
static int infer(work *w, double *probabilities, int32_t *labels)
{
    double *after = w->backward, *now = w->backward + N_CONTEXTS, *other;
    const double *last = w->forward + w->n * N_CONTEXTS;
    size_t t, c, n = contexts_at(w->n);
    int in_logs;
    compute_scores(w);
    in_logs = !compute_factors(w) || !forward_products(w);
    if (in_logs) {
        compute_scores(w);
        forward_logs(w);
    }
    if (last[highest_of(last, n)] <= (in_logs ? -HUGE_VAL : 0.0))
        return LABELER_ERROR_IMPOSSIBLE;
    for (c = 0; c < n; c++)
        after[c] = in_logs ? 0.0 : 1.0;
    for (t = w->n; t-- > 0;) {
        sum_contexts(w, t, after, in_logs, w->row);
        write(w, t, w->row, probabilities, labels);
        if (in_logs)
            backward_logs(w, t, now, after);
        else
            backward_products(w, t, now, after);
        other = after;
        after = now;
        now = other;
    }
    return 0;
}
#else
/* The same without previous labels: positions do not depend on each other. */
static int infer(work *w, double *probabilities, int32_t *labels)
{
    size_t t;
    compute_scores(w);
    for (t = 0; t < w->n; t++) {
        double *p = w->state + t * LABELER_N_LABELS;
        exponentiate(p, LABELER_N_LABELS);
        divide_by_sum(p, LABELER_N_LABELS);
        write(w, t, p, probabilities, labels);
    }
    return 0;
}
#endif

int labeler_marginals(void *workspace, double *probabilities)
{
    return infer(parts_of(workspace), probabilities, NULL);
}

/* Label sequences */

#if LABELER_ORDER
/* Follow the best contexts back from the end. */
static void follow_back(const work *w, size_t context, int32_t *labels)
{
    size_t t;
    for (t = w->n; t-- > 0;) {
        size_t n_ends = contexts_at(t + 1) / LABELER_N_LABELS;
        size_t oldest = w->origins[t * N_CONTEXTS + context];
        labels[input_position(w, t)] = (int32_t)(context % LABELER_N_LABELS);
        context = oldest * n_ends + context / LABELER_N_LABELS;
    }
}
#endif

/* Of equally good label sequences, the one with the lowest last context, then with the lowest one
 * before it, and so on. */
int labeler_viterbi(void *workspace, int32_t *labels)
{
    work *w = parts_of(workspace);
#if LABELER_ORDER
    double *now = w->backward, *after = w->backward + N_CONTEXTS, *other;
    size_t t, e, h, v, n = 1;
    compute_scores(w);
    now[0] = 0.0;
    for (t = 0; t < w->n; t++) {
        const double *matrix = matrix_at(w, t), *state = w->state + t * LABELER_N_LABELS;
        uint16_t *origins = w->origins + t * N_CONTEXTS;
        size_t n_after = contexts_at(t + 1), n_ends = n_after / LABELER_N_LABELS;
        for (e = 0; e < n_ends; e++)
            for (v = 0; v < LABELER_N_LABELS; v++) {
                double best = -HUGE_VAL;
                size_t origin = 0;
                for (h = 0; h < n / n_ends; h++) {
                    size_t c = h * n_ends + e;
                    double score = now[c] + (matrix[c * LABELER_N_LABELS + v] + state[v]);
                    origin = score > best ? h : origin;
                    best = score > best ? score : best;
                }
                after[e * LABELER_N_LABELS + v] = best;
                origins[e * LABELER_N_LABELS + v] = (uint16_t)origin;
            }
        other = now;
        now = after;
        after = other;
        n = n_after;
    }
    v = highest_of(now, n);
    if (now[v] == -HUGE_VAL)
        return LABELER_ERROR_IMPOSSIBLE;
    follow_back(w, v, labels);
#else
    size_t t;
    compute_scores(w);
    for (t = 0; t < w->n; t++)
        labels[input_position(w, t)] =
            (int32_t)highest_of(w->state + t * LABELER_N_LABELS, LABELER_N_LABELS);
#endif
    return 0;
}

#if DECODING == GREEDY
/* Take the best label at one position after another. */
static int decode_greedily(work *w, int32_t *labels)
{
    double log_p = 0.0;
    size_t t, v, context = 0;
    compute_scores(w);
    for (t = 0; t < w->n; t++) {
        const double *scores = matrix_at(w, t) + context * LABELER_N_LABELS;
        for (v = 0; v < LABELER_N_LABELS; v++)
            w->row[v] = log_p + scores[v];
        v = highest_of(w->row, LABELER_N_LABELS);
        log_p = w->row[v];
        if (log_p == -HUGE_VAL)
            return LABELER_ERROR_IMPOSSIBLE;
        labels[input_position(w, t)] = (int32_t)v;
        context = context % (contexts_at(t + 1) / LABELER_N_LABELS) * LABELER_N_LABELS + v;
    }
    return 0;
}
#endif

int labeler_predict(void *workspace, int32_t *labels)
{
#if DECODING == VITERBI
    return labeler_viterbi(workspace, labels);
#elif DECODING == GREEDY
    return decode_greedily(parts_of(workspace), labels);
#else
    return infer(parts_of(workspace), NULL, labels);
#endif
}
