/* A job for tests: `job ENDING`, where rank 1 ends as it is told to between its second call and its
 * third; at `survive` it is killed there, and the others go on; at `again` they make communicators
 * one after another, each ended by a mismatch. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tutti/tutti.h"

/* The job's communicator, and this rank. */
static tutti_comm join(int* rank) {
  tutti_comm comm = NULL;
  if (tutti_comm_create_from_env(NULL, &comm) != TUTTI_OK) {
    fprintf(stderr, "%s\n", tutti_last_error());
    exit(3);
  }
  tutti_comm_rank(comm, rank);
  return comm;
}

static int again(void) {
  for (int turn = 0; turn < 20; ++turn) {
    int rank = 0;
    const tutti_comm comm = join(&rank);
    float in[4] = {1, 2, 3, 4}, out[4];
    const size_t count = rank == 0 ? 3 : 4;
    const tutti_status status = tutti_allreduce(in, out, count, TUTTI_FLOAT32, TUTTI_SUM, comm);
    tutti_comm_free(comm);
    if (status != TUTTI_MISMATCH) return 5;
  }
  return 0;
}

int main(int argc, char** argv) {
  const char* ending = argc > 1 ? argv[1] : "";
  if (strcmp(ending, "again") == 0) return again();
  int rank = 0;
  const tutti_comm comm = join(&rank);
  float in[4] = {1, 2, 3, 4}, out[4];
  tutti_status status = TUTTI_OK;
  for (int call = 0; call < 3 && status == TUTTI_OK; ++call) {
    if (call == 2 && rank == 1) {
      if (strcmp(ending, "kill") == 0 || strcmp(ending, "survive") == 0) raise(SIGKILL);
      if (strcmp(ending, "stop") == 0) raise(SIGSTOP);
      if (strcmp(ending, "late") == 0) pause();
      if (strcmp(ending, "exit") == 0) exit(7);
    }
    status = tutti_allreduce(in, out, 4, TUTTI_FLOAT32, TUTTI_SUM, comm);
  }
  tutti_comm left = NULL;
  if (strcmp(ending, "survive") == 0 && status == TUTTI_PEER_FAILED) {
    status = tutti_comm_shrink(comm, 0, &left);
    if (status == TUTTI_OK) status = tutti_allreduce(in, out, 4, TUTTI_FLOAT32, TUTTI_SUM, left);
    tutti_comm_free(left);
  }
  tutti_comm_free(comm);
  return status == TUTTI_OK ? 0 : 5;
}
