/* A library whose thread-private variables the program itself writes and reads. */
int library_kept;
#pragma omp threadprivate(library_kept)
