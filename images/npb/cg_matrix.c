#include "cg_matrix.h"

#include "npb.h"

#include <math.h>
#include <stdlib.h>

/* Sparse vectors, one for each row: vector i has entries i * stride up to i * stride + length[i]. */
struct vectors {
    int count;
    int stride;
    int *length;
    int32_t *index;
    double *value;
};

static double next_uniform(uint64_t *state)
{
    *state = npb_next(*state);
    return npb_uniform(*state);
}

/* Fills vector `row` with nonzer random values at distinct random places below count, then sets 0.5 at the place `row`.
 * Pairs (value, place) are drawn; those with a place outside or in use are skipped. */
static void draw_vector(struct vectors *vectors, int row, int nonzer, int power_of_two, uint64_t *state)
{
    int32_t *index = vectors->index + (int64_t)row * vectors->stride;
    double *value = vectors->value + (int64_t)row * vectors->stride;
    int length = 0;
    int own = -1;

    while (length < nonzer) {
        double element = next_uniform(state);
        int place = (int)(next_uniform(state) * power_of_two);
        int seen = 0;

        if (place >= vectors->count)
            continue;
        while (seen < length && index[seen] != place)
            seen++;
        if (seen < length)
            continue;
        if (place == row)
            own = length;
        index[length] = place;
        value[length] = element;
        length++;
    }
    if (own < 0)
        own = length++;
    index[own] = row;
    value[own] = 0.5;
    vectors->length[row] = length;
}

static struct vectors draw_vectors(int rows, int nonzer, uint64_t *state)
{
    struct vectors vectors = {.count = rows, .stride = nonzer + 1};
    uint64_t places = (uint64_t)rows * (uint64_t)vectors.stride;
    int power_of_two = 1;

    vectors.length = npb_allocate((uint64_t)rows, sizeof *vectors.length, "the matrix");
    vectors.index = npb_allocate(places, sizeof *vectors.index, "the matrix");
    vectors.value = npb_allocate(places, sizeof *vectors.value, "the matrix");
    while (power_of_two < rows)
        power_of_two *= 2;
    for (int row = 0; row < rows; row++)
        draw_vector(&vectors, row, nonzer, power_of_two, state);
    return vectors;
}

static struct matrix matrix_allocate(int rows, uint64_t entries)
{
    return (struct matrix){
        .rows = rows,
        .row_start = npb_allocate((uint64_t)rows + 1, sizeof(uint32_t), "the matrix"),
        .column = npb_allocate(entries, sizeof(int32_t), "the matrix"),
        .value = npb_allocate(entries, sizeof(double), "the matrix"),
    };
}

/* The sum of the outer products. Entries at the same place are not yet added. The entries of a row are in the order of
 * i. */
static struct matrix outer_products(const struct vectors *vectors, double rcond, double shift)
{
    int rows = vectors->count;
    uint64_t entries = 0;

    for (int i = 0; i < rows; i++)
        entries += (uint64_t)vectors->length[i] * (uint64_t)vectors->length[i];

    struct matrix matrix = matrix_allocate(rows, entries);
    uint32_t *next = npb_allocate((uint64_t)rows, sizeof *next, "the matrix");

    for (int i = 0; i < rows; i++)
        for (int k = 0; k < vectors->length[i]; k++)
            matrix.row_start[vectors->index[(int64_t)i * vectors->stride + k] + 1] += (uint32_t)vectors->length[i];
    for (int i = 0; i < rows; i++) {
        matrix.row_start[i + 1] += matrix.row_start[i];
        next[i] = matrix.row_start[i];
    }

    double omega = 1.0;
    double ratio = pow(rcond, 1.0 / rows);
    for (int i = 0; i < rows; i++, omega *= ratio) {
        const int32_t *index = vectors->index + (int64_t)i * vectors->stride;
        const double *value = vectors->value + (int64_t)i * vectors->stride;

        for (int k = 0; k < vectors->length[i]; k++) {
            double scale = omega * value[k];

            for (int l = 0; l < vectors->length[i]; l++) {
                uint32_t place = next[index[k]]++;

                matrix.column[place] = index[l];
                matrix.value[place] = value[l] * scale;
                if (index[k] == i && index[l] == i)
                    matrix.value[place] += rcond - shift;
            }
        }
    }
    free(next);
    return matrix;
}

/* Adds entries of one row that share a column, in place. */
static void merge_duplicates(struct matrix *matrix)
{
    uint32_t *place_of = npb_allocate((uint64_t)matrix->rows, sizeof *place_of, "the matrix");
    uint32_t filled = 0;
    uint32_t start = 0;

    /* place_of[c] is the place of column c if that is inside the present row; the +1 keeps 0 for "nowhere". */
    for (int row = 0; row < matrix->rows; row++) {
        uint32_t end = matrix->row_start[row + 1];
        uint32_t row_begin = filled;

        for (uint32_t entry = start; entry < end; entry++) {
            int32_t column = matrix->column[entry];
            double value = matrix->value[entry];

            if (place_of[column] > row_begin) {
                matrix->value[place_of[column] - 1] += value;
            } else {
                matrix->column[filled] = column;
                matrix->value[filled] = value;
                place_of[column] = ++filled;
            }
        }
        matrix->row_start[row + 1] = filled;
        start = end;
    }
    free(place_of);
}

/* The transpose. Its rows are sorted by column. The matrix is symmetric, so this sorts it in linear time. */
static struct matrix transpose(const struct matrix *matrix)
{
    int rows = matrix->rows;
    uint32_t entries = matrix->row_start[rows];
    struct matrix result = matrix_allocate(rows, entries);
    uint32_t *next = npb_allocate((uint64_t)rows, sizeof *next, "the matrix");

    for (uint32_t entry = 0; entry < entries; entry++)
        result.row_start[matrix->column[entry] + 1]++;
    for (int row = 0; row < rows; row++) {
        result.row_start[row + 1] += result.row_start[row];
        next[row] = result.row_start[row];
    }
    for (int row = 0; row < rows; row++)
        for (uint32_t entry = matrix->row_start[row]; entry < matrix->row_start[row + 1]; entry++) {
            uint32_t place = next[matrix->column[entry]]++;

            result.column[place] = row;
            result.value[place] = matrix->value[entry];
        }
    free(next);
    return result;
}

struct matrix matrix_make(int rows, int nonzer, double rcond, double shift, uint64_t *state)
{
    struct vectors vectors = draw_vectors(rows, nonzer, state);
    struct matrix unsorted = outer_products(&vectors, rcond, shift);

    free(vectors.length);
    free(vectors.index);
    free(vectors.value);
    merge_duplicates(&unsorted);

    struct matrix matrix = transpose(&unsorted);

    matrix_free(&unsorted);
    return matrix;
}

void matrix_free(struct matrix *matrix)
{
    free(matrix->row_start);
    free(matrix->column);
    free(matrix->value);
}
