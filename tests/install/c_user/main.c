/* A C11 program that uses the installed library: sums over the ranks and checks the sum. */
#include <stdio.h>
#include <tutti/tutti.h>

enum { count = 1000 };

static int fail(const char* what, const char* why) {
  fprintf(stderr, "%s: %s\n", what, why);
  return 1;
}

int main(void) {
  tutti_comm comm = NULL;
  if (tutti_comm_create_from_env(NULL, &comm) != TUTTI_OK)
    return fail("create", tutti_last_error());
  int rank = -1, nranks = 0;
  tutti_comm_rank(comm, &rank);
  tutti_comm_size(comm, &nranks);

  float mine[count], sum[count];
  for (int i = 0; i < count; ++i) mine[i] = (float)(rank + 1 + i);
  if (tutti_allreduce(mine, sum, count, TUTTI_FLOAT32, TUTTI_SUM, comm) != TUTTI_OK) {
    tutti_error error;
    tutti_comm_last_error(comm, &error);
    return fail("allreduce", error.text);
  }
  for (int i = 0; i < count; ++i) {
    if (sum[i] != (float)(nranks * (nranks + 1) / 2 + nranks * i)) return fail("sum", "wrong");
  }
  printf("rank %d of %d: right, tutti %s\n", rank, nranks, tutti_version());
  return tutti_comm_free(comm) == TUTTI_OK ? 0 : fail("free", "failed");
}
