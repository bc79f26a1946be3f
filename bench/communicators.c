/* What communicators cost before anything is exchanged over them: making the first one, its first
 * call, a duplicate that is made and freed, 1,000 that live at once. Uses nothing but tutti.h, so
 * that LD_LIBRARY_PATH may name an older library to compare with. Rank 0's times, of one process:
 * start it several times.
 *     tools/run tutti run -n 4 build/bench/communicators */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <tutti/tutti.h>

enum { many = 1000, again = 20 };

static double now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e3 + time.tv_nsec * 1e-6;
}

static void demand(tutti_status status) {
  if (status == TUTTI_OK) return;
  fprintf(stderr, "communicators: %s\n", tutti_last_error());
  exit(1);
}

int main(void) {
  tutti_comm world, duplicates[many];
  const double begin = now_ms();
  demand(tutti_comm_create_from_env(NULL, &world));
  const double made = now_ms();
  demand(tutti_barrier(world));
  const double called = now_ms();
  for (int i = 0; i < again; ++i) {
    demand(tutti_comm_dup(world, &duplicates[0]));
    demand(tutti_comm_free(duplicates[0]));
  }
  const double duplicated = now_ms();
  for (int i = 0; i < many; ++i) demand(tutti_comm_dup(world, &duplicates[i]));
  const double all = now_ms();
  for (int i = 0; i < many; ++i) demand(tutti_comm_free(duplicates[i]));
  int rank = 0;
  demand(tutti_comm_rank(world, &rank));
  if (rank == 0) {
    printf(
        "made %.2f ms, first call %.3f ms, a duplicate made and freed %.3f ms, %d more made %.0f "
        "ms\n",
        made - begin, called - made, (duplicated - called) / again, many, all - duplicated);
  }
  return tutti_comm_free(world);
}
