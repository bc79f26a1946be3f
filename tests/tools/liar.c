/* Stands before the library (LD_PRELOAD) and spoils what tutti-soak should notice. LIAR says what:
 * result: a byte of a broadcast; input: a byte of what is sent; guard: the byte behind a result;
 * late: rank 1 does not come to a barrier; stuck: nobody does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>
#include <unistd.h>

static int lies(const char* about) {
  const char* what = getenv("LIAR");
  return what != NULL && strcmp(what, about) == 0;
}

tutti_status tutti_allreduce_with(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                  tutti_op op, tutti_comm comm, const tutti_call_config* config) {
  tutti_status (*real)(const void*, void*, size_t, tutti_dtype, tutti_op, tutti_comm,
                       const tutti_call_config*) = dlsym(RTLD_NEXT, "tutti_allreduce_with");
  const tutti_status status = real(send, recv, count, dtype, op, comm, config);
  const size_t bytes = count * tutti_dtype_size(dtype);
  if (status != TUTTI_OK || bytes == 0) return status;
  if (lies("result")) ((char*)recv)[bytes - 1] ^= 1;
  if (lies("guard")) ((char*)recv)[bytes] ^= 1;
  if (lies("input") && send != TUTTI_IN_PLACE) ((char*)send)[0] ^= 1;
  return status;
}

tutti_status tutti_barrier_with(tutti_comm comm, const tutti_call_config* config) {
  tutti_status (*real)(tutti_comm, const tutti_call_config*) =
      dlsym(RTLD_NEXT, "tutti_barrier_with");
  int rank = 0;
  tutti_comm_rank(comm, &rank);
  while (lies("stuck") || (lies("late") && rank == 1)) pause();
  return real(comm, config);
}
