/* The random sparse matrix of CG. */
#ifndef VSCAF_NPB_CG_MATRIX_H
#define VSCAF_NPB_CG_MATRIX_H

#include <stdint.h>

/* A square sparse matrix in compressed rows: row i has entries row_start[i] up to row_start[i + 1], by column. */
struct matrix {
    int rows;
    uint32_t *row_start; /* rows + 1 */
    int32_t *column;
    double *value;
};

/* The symmetric positive definite matrix of RNR-94-007, section 2.2.3 ("makea"), less its shift: the sum over i of
 * omega_i x_i x_i^T, plus (rcond - shift) I. x_i is a random sparse vector of `nonzer` entries with 0.5 set at i, and
 * omega_i falls geometrically from 1 to rcond. Advances `state`, the random generator's. Exits with NPB_EXIT_USAGE
 * without memory. */
struct matrix matrix_make(int rows, int nonzer, double rcond, double shift, uint64_t *state);

void matrix_free(struct matrix *matrix);

#endif
