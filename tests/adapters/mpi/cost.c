/* What the interposer adds to calls of 4 B and 8 B: batches of MPI_Allreduce and of tutti_allreduce
 * on a communicator of its own, in turns in one process. Prints the medians of both, in
 * nanoseconds, on all ranks and on one rank alone. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <tutti/tutti.h>

static int by_mpi(const void* mine, void* all, size_t bytes, void* context) {
  return PMPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, *(MPI_Comm*)context);
}
static int ascending(const void* a, const void* b) {
  return *(const double*)a < *(const double*)b ? -1 : *(const double*)a > *(const double*)b;
}

static void compare(const char* what, MPI_Comm comm, int is_double) {
  enum { batches = 101, calls = 2000 };
  static double mpi[batches], own[batches];
  int rank, n;
  tutti_comm t = NULL;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &n);
  if (tutti_comm_create_from_allgather(by_mpi, &comm, rank, n, NULL, &t) != TUTTI_OK) abort();
  const MPI_Datatype type = is_double ? MPI_DOUBLE : MPI_FLOAT;
  const tutti_dtype dtype = is_double ? TUTTI_FLOAT64 : TUTTI_FLOAT32;
  double x = 0, y = 0; /* of either type */
  for (int b = 0; b < batches; ++b) {
    double begun = MPI_Wtime();
    for (int i = 0; i < calls; ++i) MPI_Allreduce(&x, &y, 1, type, MPI_SUM, comm);
    mpi[b] = (MPI_Wtime() - begun) / calls * 1e9;
    begun = MPI_Wtime();
    for (int i = 0; i < calls; ++i) tutti_allreduce(&x, &y, 1, dtype, TUTTI_SUM, t);
    own[b] = (MPI_Wtime() - begun) / calls * 1e9;
  }
  tutti_comm_free(t);
  qsort(mpi, batches, sizeof(double), ascending);
  qsort(own, batches, sizeof(double), ascending);
  if (rank == 0)
    printf(
        "%s, %d B: MPI_Allreduce %.1f ns (quartiles %.1f, %.1f), tutti_allreduce %.1f ns (%.1f, "
        "%.1f)\n",
        what, is_double ? 8 : 4, mpi[batches / 2], mpi[batches / 4], mpi[3 * batches / 4],
        own[batches / 2], own[batches / 4], own[3 * batches / 4]);
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int is_double = 0; is_double < 2; ++is_double) {
    if (rank == 0) compare("one rank alone", MPI_COMM_SELF, is_double);
    MPI_Barrier(MPI_COMM_WORLD);
    compare("all ranks", MPI_COMM_WORLD, is_double);
  }
  MPI_Finalize();
  return 0;
}
