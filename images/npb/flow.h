/* What BT and SP have in common: the simulated flow of the NAS Parallel Benchmarks' specification (RNR-94-007, section
 * 3). Five unknowns at each point of a cube march in time to a steady state that is known. The programs differ in how
 * they solve one implicit time step.
 */
#ifndef VSCAF_NPB_FLOW_H
#define VSCAF_NPB_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#define FLOW_PARTS 5 /* unknowns at a point: density, momentum along x, y, z, energy */
#define FLOW_SIDE_MAX 102

/* The specification's constants. */
#define FLOW_GAMMA 1.4                                     /* c1 */
#define FLOW_GAMMA_LESS_ONE 0.4                            /* c2 */
#define FLOW_VISCOSITY 0.1                                 /* c3 c4 */
#define FLOW_CONDUCTION 1.96                               /* c1 c5, of heat, as a multiple of the viscosity */
static const double flow_diffusion[3] = {0.75, 0.75, 1.0}; /* dx, dy, dz: the same for all five unknowns */

typedef double flow_vector[FLOW_PARTS];

/* n^3 points; those on the cube's surface never change. Directions 0, 1, 2 are x, y, z, with the places i, j, k. Points
 * are kept by k, then j, then i. */
struct flow {
    int n;
    int64_t stride[3];     /* from a point to the next one along each direction */
    double time_step;      /* dt */
    double inverse_square; /* 1 / h^2, for points h apart */
    double inverse_double; /* 1 / (2 h) */
    /* For each place along a direction, the coefficients of the fourth difference at the places from two before it to
     * two after it. Those of places on the surface and beyond it are 0. */
    double (*dissipation)[5];
    flow_vector *u;
    flow_vector *forcing; /* what makes the known solution a steady state */
    flow_vector *rhs;     /* the right-hand side, which becomes the change of u; 0 on the surface */
    /* Derived from u at the start of each time step. */
    double *inverse_density;
    double *velocity[3];
    double *kinetic_density; /* half of density times speed squared */
    double *kinetic;         /* half of speed squared */
    double *sound;           /* the speed of sound; NULL if the program does not use it */
    flow_vector *plane_sum;  /* scratch of the norms */
};

struct flow_class {
    char name;
    int n;
    unsigned steps;
    double time_step;
    flow_vector residual, error; /* the published root mean squares after the last step */
};

/* Defined by each program. */
struct flow_program {
    const char *name;
    bool uses_sound;
    double operations[4]; /* of one time step, as the benchmark counts them: coefficients of n^0 to n^3 */
    struct flow_class classes[4];
};
extern const struct flow_program flow_program;

/* One time step, from u to the next u. */
void flow_time_step(struct flow *flow);

static inline int64_t flow_point(const struct flow *flow, int k, int j, int i)
{
    return k * flow->stride[2] + j * flow->stride[1] + i;
}

/* All arrays are 0. Exits with NPB_EXIT_USAGE without memory. */
struct flow *flow_make(const struct flow_class *class);
void flow_free(struct flow *flow);

/* The known solution at a point: a polynomial. */
void flow_solution(const struct flow *flow, int k, int j, int i, flow_vector u);

/* u = the start of the specification. One parallel region. */
void flow_set_start(struct flow *flow);

/* Computes `forcing`. Overwrites u and rhs. One parallel region. */
void flow_set_forcing(struct flow *flow);

/* rhs = time_step * (operator on u + forcing), and the fields derived from u. One parallel region. */
void flow_set_rhs(struct flow *flow);

/* u += rhs. One parallel region. */
void flow_update(struct flow *flow);

/* The root mean square of u less the known solution. One parallel region. Planes are added in order, so it is the same
 * to the last bit for every team. */
void flow_error(struct flow *flow, flow_vector norm);

/* The root mean square of rhs / time_step, in the same way. */
void flow_residual(struct flow *flow, flow_vector norm);

#endif
