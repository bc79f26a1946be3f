/* An MPI program that knows nothing of tutti: sums over the ranks and checks the sum. */
#include <mpi.h>
#include <stdio.h>

enum { count = 1000 };

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = -1, nranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &nranks);
  float mine[count], sum[count];
  for (int i = 0; i < count; ++i) mine[i] = (float)(rank + 1 + i);
  MPI_Allreduce(mine, sum, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  int wrong = 0;
  for (int i = 0; i < count; ++i)
    wrong += sum[i] != (float)(nranks * (nranks + 1) / 2 + nranks * i);
  printf("rank %d of %d: %s\n", rank, nranks, wrong == 0 ? "right" : "wrong");
  MPI_Finalize();
  return wrong != 0;
}
