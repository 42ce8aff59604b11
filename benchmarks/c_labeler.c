/* Labels the sequences of a file several times, and prints the CPU seconds of the fastest round.
 *
 * The file holds strings that end with 0: the number of positions of a sequence, and for each
 * position the number of values, followed by names and categories.
 */
#include "labeler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_BYTES (1 << 26)
#define MAX_POSITIONS 1000
#define MAX_VALUES 100

static char characters[MAX_BYTES];

static const char *next_string(const char **place)
{
    const char *string = *place;
    *place += strlen(string) + 1;
    return string;
}

static size_t label(const char *place, const char *end, void *workspace, size_t size)
{
    static int32_t labels[MAX_POSITIONS];
    size_t n, t, n_values, n_sequences = 0;
    while (place < end) {
        n = (size_t)atol(next_string(&place));
        labeler_begin(workspace, size, n);
        for (t = 0; t < n; t++)
            for (n_values = (size_t)atol(next_string(&place)); n_values > 0; n_values--) {
                int32_t column = labeler_column(next_string(&place));
                labeler_set_category(workspace, t, column, next_string(&place));
            }
        if (labeler_predict(workspace, labels))
            abort();
        n_sequences++;
    }
    return n_sequences;
}

int main(int argc, char **argv)
{
    int round, n_rounds = argc > 2 ? atoi(argv[2]) : 1;
    size_t size = labeler_workspace_size(MAX_POSITIONS, MAX_POSITIONS * MAX_VALUES);
    void *workspace = malloc(size);
    FILE *file = fopen(argv[1], "rb");
    size_t n_bytes = fread(characters, 1, sizeof characters, file);
    double least = 1e9;
    for (round = 0; round < n_rounds; round++) {
        clock_t start = clock();
        size_t n = label(characters, characters + n_bytes, workspace, size);
        double seconds = (double)(clock() - start) / CLOCKS_PER_SEC / (double)n;
        least = seconds < least ? seconds : least;
    }
    printf("%.9f\n", least);
    fclose(file);
    free(workspace);
    return 0;
}
