/* What the interposer adds to MPI_Allreduce: batches of it, of tutti_allreduce on a communicator of
 * its own, and of the host's PMPI_Allreduce, in turns in one process, on all ranks and on one rank
 * alone. Prints the medians of a call, in nanoseconds, and of the first two the least and the
 * quartiles. "short": fewer, without the host's. lib/adapters/mpi/README.md has the commands. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

static int by_mpi(const void* mine, void* all, size_t bytes, void* context) {
  return PMPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, *(MPI_Comm*)context);
}
static int ascending(const void* a, const void* b) {
  return *(const double*)a < *(const double*)b ? -1 : *(const double*)a > *(const double*)b;
}

enum { by_interposer, by_tutti, by_host, all_ways };
enum { most_batches = 101 };
static int ways = all_ways, batches = most_batches;

static void compare(const char* what, MPI_Comm comm, size_t count) {
  static double ns[all_ways][most_batches];
  const size_t bytes = count * sizeof(float);
  const int calls = bytes < 1024 ? 2000 : bytes < 65536 ? 400 : 20;
  int rank, n;
  tutti_comm t = NULL;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &n);
  if (tutti_comm_create_from_allgather(by_mpi, &comm, rank, n, NULL, &t) != TUTTI_OK) abort();
  float *x = calloc(count, sizeof(float)), *y = calloc(count, sizeof(float));
  if (x == NULL || y == NULL) abort();
  for (int b = 0; b < batches; ++b) {
    for (int way = 0; way < ways; ++way) {
      const double begun = MPI_Wtime();
      for (int i = 0; i < calls; ++i) {
        if (way == by_interposer) MPI_Allreduce(x, y, (int)count, MPI_FLOAT, MPI_SUM, comm);
        if (way == by_tutti) tutti_allreduce(x, y, count, TUTTI_FLOAT32, TUTTI_SUM, t);
        if (way == by_host) PMPI_Allreduce(x, y, (int)count, MPI_FLOAT, MPI_SUM, comm);
      }
      ns[way][b] = (MPI_Wtime() - begun) / calls * 1e9;
    }
  }
  free(x);
  free(y);
  tutti_comm_free(t);
  for (int way = 0; way < ways; ++way) qsort(ns[way], (size_t)batches, sizeof(double), ascending);
  if (rank != 0) return;
  printf(
      "%s, %zu B: MPI_Allreduce %.1f ns (%.1f; %.1f, %.1f), tutti_allreduce %.1f ns (%.1f; %.1f, "
      "%.1f): %.2f",
      what, bytes, ns[by_interposer][batches / 2], ns[by_interposer][0],
      ns[by_interposer][batches / 4], ns[by_interposer][3 * batches / 4], ns[by_tutti][batches / 2],
      ns[by_tutti][0], ns[by_tutti][batches / 4], ns[by_tutti][3 * batches / 4],
      ns[by_interposer][batches / 2] / ns[by_tutti][batches / 2]);
  if (ways > by_host) printf("; the host %.1f ns", ns[by_host][batches / 2]);
  printf("\n");
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc > 1 && strcmp(argv[1], "short") == 0) {
    ways = by_host; /* without it, and what comes after it */
    batches = 41;
  }
  for (size_t count = 1; count <= 1 << 18; count *= 8) {
    if (rank == 0 && count < 64) compare("one rank alone", MPI_COMM_SELF, count);
    MPI_Barrier(MPI_COMM_WORLD);
    compare("all ranks", MPI_COMM_WORLD, count);
  }
  MPI_Finalize();
  return 0;
}
