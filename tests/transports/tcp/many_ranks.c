/* A rank of many: joins the job, makes two calls, and says when all were there. */
#define _POSIX_C_SOURCE 199309L
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "tutti/tutti.h"

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, tutti_last_error());
  return 1;
}

int main(void) {
  tutti_comm comm = NULL;
  if (tutti_comm_create_from_env(NULL, &comm) != TUTTI_OK) return failed("joining");
  if (tutti_barrier(comm) != TUTTI_OK) return failed("the barrier");
  struct timespec up;
  clock_gettime(CLOCK_MONOTONIC, &up);

  int rank = 0, nranks = 0;
  const char* transport = NULL;
  if (tutti_comm_rank(comm, &rank) != TUTTI_OK || tutti_comm_size(comm, &nranks) != TUTTI_OK ||
      tutti_comm_transport(comm, &transport) != TUTTI_OK) {
    return failed("asking");
  }
  int64_t mine = rank, sum = 0;
  if (tutti_allreduce(&mine, &sum, 1, TUTTI_INT64, TUTTI_SUM, comm) != TUTTI_OK) {
    return failed("the allreduce");
  }
  if (sum != (int64_t)nranks * (nranks - 1) / 2) return 3;
  if (rank == 0) {
    printf("up %.6f over %s\n", (double)up.tv_sec + 1e-9 * (double)up.tv_nsec, transport);
  }
  tutti_comm_free(comm);
  return 0;
}
