/* MPI_Iallreduce, which the interposer carries, and the host's PMPI_Iallreduce in turns, ended by
 * waiting, by testing without a pause, and by waiting after a while of computing, which is given
 * beside the time. Prints the medians of a call in microseconds with the least and the quartiles,
 * and the host's divided by the interposer's. lib/adapters/mpi/README.md has the commands. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int ascending(const void* a, const void* b) {
  return *(const double*)a < *(const double*)b ? -1 : *(const double*)a > *(const double*)b;
}

static void compute(double seconds) {
  const double until = MPI_Wtime() + seconds;
  while (MPI_Wtime() < until) continue;
}

enum { wait, test, compute_first, all_ends };
static const char* const names[all_ends] = {"waited for", "tested", "beside computing"};

static void call(int of_host, int end, double seconds, float* x, float* y, int count) {
  MPI_Request request;
  int ended = 0;
  if (of_host) {
    PMPI_Iallreduce(x, y, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    if (end == compute_first) compute(seconds);
    while (end == test && !ended) PMPI_Test(&request, &ended, MPI_STATUS_IGNORE);
    if (end != test) PMPI_Wait(&request, MPI_STATUS_IGNORE);
  } else {
    MPI_Iallreduce(x, y, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    if (end == compute_first) compute(seconds);
    while (end == test && !ended) MPI_Test(&request, &ended, MPI_STATUS_IGNORE);
    if (end != test) MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
}

enum { batches = 31 };

static void compare(int end, int count) {
  static double us[2][batches];
  const size_t bytes = (size_t)count * sizeof(float);
  const double seconds = bytes < 65536 ? 300e-6 : 3e-3;
  const int calls = end == compute_first ? 10 : bytes < 1024 ? 1000 : bytes < 65536 ? 200 : 10;
  float *x = calloc((size_t)count, sizeof(float)), *y = calloc((size_t)count, sizeof(float));
  if (x == NULL || y == NULL) abort();
  for (int b = 0; b < batches; ++b) {
    for (int of_host = 0; of_host < 2; ++of_host) {
      PMPI_Barrier(MPI_COMM_WORLD);
      const double begun = MPI_Wtime();
      for (int i = 0; i < calls; ++i) call(of_host, end, seconds, x, y, count);
      us[of_host][b] = (MPI_Wtime() - begun) / calls * 1e6;
    }
  }
  free(x);
  free(y);
  for (int i = 0; i < 2; ++i) qsort(us[i], batches, sizeof(double), ascending);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0) return;
  printf("%s%s, %zu B: ", names[end],
         end != compute_first ? ""
         : bytes < 65536      ? " for 300 us"
                              : " for 3 ms",
         bytes);
  for (int i = 0; i < 2; ++i)
    printf("%s %.2f us (%.2f; %.2f, %.2f), ", i == 0 ? "interposer" : "host", us[i][batches / 2],
           us[i][0], us[i][batches / 4], us[i][3 * batches / 4]);
  printf("ratio %.2f\n", us[1][batches / 2] / us[0][batches / 2]);
}

int main(int argc, char** argv) {
  int level;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Barrier(MPI_COMM_WORLD); /* nonblocking calls make no communicator */
  for (int end = 0; end < all_ends; ++end) {
    for (int count = 1; count <= 1 << 20; count *= 16) compare(end, count);
  }
  MPI_Finalize();
  return 0;
}
