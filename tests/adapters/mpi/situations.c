/* One situation a run, named by the first argument ("none": only a barrier); prints "done" on rank
 * 0 when all is as it should be. The second argument is a library to load before MPI_Init. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define MPI_Allreduce_init MPIX_Allreduce_init
#define MPI_Bcast_init MPIX_Bcast_init
#define MPI_Scan_init MPIX_Scan_init
#endif

static int rank, size;

static void demand(int holds, const char* what) {
  if (holds) return;
  printf("rank %d: not so: %s\n", rank, what);
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

static void sum_of_ranks(MPI_Comm comm) {
  int me, n, sum = 0;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &n);
  MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm);
  demand(sum == n * (n - 1) / 2, "the sum of the ranks");
}

/* Rank 0's message is still to be moved by its MPI while it waits in a collective. */
static void pending_send(void) {
  const int bytes = 64 << 20;
  char* data = malloc((size_t)bytes);
  memset(data, 7, (size_t)bytes);
  sum_of_ranks(MPI_COMM_WORLD);
  for (int turn = 0; turn < 3; ++turn) {
    if (rank == 0) {
      MPI_Request sent;
      MPI_Isend(data, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &sent);
      sum_of_ranks(MPI_COMM_WORLD);
      MPI_Wait(&sent, MPI_STATUS_IGNORE);
    } else {
      if (rank == 1) {
        memset(data, 0, (size_t)bytes);
        usleep(20000); /* rank 0 is asleep in the collective by now */
        MPI_Recv(data, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < bytes; i += 4097) demand(data[i] == 7, "what was received");
      }
      sum_of_ranks(MPI_COMM_WORLD);
    }
  }
  free(data);
}

/* Ranks that call something else get an error by the communicator's handler. */
static int handled;
static void count_errors(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  (void)code;
  ++handled;
}
/* A duplicate of the world that returns errors, with a communicator of tutti. */
static MPI_Comm returning_errors(void) {
  MPI_Comm own;
  MPI_Comm_dup(MPI_COMM_WORLD, &own);
  MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
  sum_of_ranks(own);
  return own;
}
static void errors(void) {
  MPI_Comm own = returning_errors();
  MPI_Errhandler handler;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  double a[8] = {0}, b[8] = {0};
  const int code = rank == 0 ? MPI_Allreduce(a, b, 4, MPI_DOUBLE, MPI_SUM, own)
                             : MPI_Allreduce(a, b, 3, MPI_DOUBLE, MPI_SUM, own);
  demand(code != MPI_SUCCESS, "an error that is returned");
  MPI_Error_string(code, text, &length);
  if (rank == 0) printf("%s\n", text);
  demand(strstr(text, "tutti: MISMATCH") != NULL, "a sentence of tutti's");
  demand(MPI_Allreduce(a, b, 4, MPI_DOUBLE, MPI_SUM, own) != MPI_SUCCESS, "that it is over");
  MPI_Comm_create_errhandler(count_errors, &handler);
  MPI_Comm_set_errhandler(own, handler);
  MPI_Allreduce(a, b, 4, MPI_DOUBLE, MPI_SUM, own);
  demand(handled == 1, "that the program's handler was called once");
  MPI_Errhandler_free(&handler);
  /* What the host says of wrong arguments (not of all: MPICH has counts of -1 copied). */
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  demand(MPI_Bcast(a, 1, MPI_DOUBLE, size + 5, MPI_COMM_WORLD) != MPI_SUCCESS, "no such root");
  demand(MPI_Allreduce(a, b, 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD) != MPI_SUCCESS, "bits of it");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  sum_of_ranks(MPI_COMM_WORLD);
  MPI_Comm_free(&own);
}

/* Buffers that MPI forbids and its libraries take: blocks that overlap, on rank 0 alone, where the
 * higher rank's stays, and input in the output. */
enum { each = 5 };
static int value_of(int from, int i) { return 100 * from + i; }
/* Rank r's block of rank 0 begins at r, so that only the first value of each but the last is left;
 * those of other ranks follow each other. */
static void demand_blocks(const int* got, int overlap, const char* what) {
  for (int r = 0; r < size; ++r) {
    for (int i = 0; i < (overlap && r < size - 1 ? 1 : each); ++i)
      demand(got[(overlap ? r : r * each) + i] == value_of(r, i), what);
  }
}
static void overlap(void) {
  int *in = malloc(sizeof(int) * (size_t)(size * each)),
      *out = malloc(sizeof(int) * (size_t)(size * each)),
      *counts = malloc(sizeof(int) * (size_t)size), *places = malloc(sizeof(int) * (size_t)size),
      *apart = malloc(sizeof(int) * (size_t)size);
  const int mine = rank == 0;
  for (int r = 0; r < size; ++r) {
    counts[r] = each;
    apart[r] = r * each;
    places[r] = mine ? r : apart[r];
  }
  for (int turn = 0; turn < 3; ++turn) { /* each after the others */
    for (int i = 0; i < size * each; ++i) in[i] = value_of(rank, i % each);
    memset(out, 0, sizeof(int) * (size_t)(size * each));
    MPI_Allgatherv(in, each, MPI_INT, out, counts, places, MPI_INT, MPI_COMM_WORLD);
    demand_blocks(out, mine, "an allgatherv");
    for (int i = 0; i < each; ++i) out[places[rank] + i] = value_of(rank, i);
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, counts, places, MPI_INT,
                   MPI_COMM_WORLD);
    demand_blocks(out, mine, "an allgatherv in place");
    memset(out, 0, sizeof(int) * (size_t)(size * each));
    MPI_Gatherv(in, each, MPI_INT, out, counts, places, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0) demand_blocks(out, 1, "a gatherv");
    memset(out, 0, sizeof(int) * (size_t)(size * each));
    MPI_Alltoallv(in, counts, apart, MPI_INT, out, counts, places, MPI_INT, MPI_COMM_WORLD);
    demand_blocks(out, mine, "an alltoallv");
    /* input in the output, where it belongs and elsewhere */
    for (int i = 0; i < each; ++i) out[rank * each + i] = value_of(rank, i);
    MPI_Allgather(out + rank * each, each, MPI_INT, out, each, MPI_INT, MPI_COMM_WORLD);
    demand_blocks(out, 0, "an allgather of its own place");
    for (int i = 0; i < each; ++i) out[(size - 1 - rank) * each + i] = value_of(rank, i);
    MPI_Allgather(out + (size - 1 - rank) * each, each, MPI_INT, out, each, MPI_INT,
                  MPI_COMM_WORLD);
    demand_blocks(out, 0, "an allgather of another's place");
    for (int i = 0; i < each; ++i) out[rank * each + i] = value_of(rank, i);
    MPI_Gather(out + rank * each, each, MPI_INT, out, each, MPI_INT, size - 1, MPI_COMM_WORLD);
    if (rank == size - 1) demand_blocks(out, 0, "a gather of its own place");
    for (int i = 0; i < size * each; ++i) out[i] = value_of(rank, i % each);
    MPI_Alltoall(out, each, MPI_INT, out, each, MPI_INT, MPI_COMM_WORLD);
    demand_blocks(out, 0, "an alltoall of its output");
    for (int i = 0; i < size * each; ++i) out[i] = value_of(i / each, i % each);
    MPI_Scatter(out, each, MPI_INT, rank == 1 ? out : out + 1, each, MPI_INT, 1, MPI_COMM_WORLD);
    for (int i = 0; i < each; ++i)
      demand(out[i + (rank == 1 ? 0 : 1)] == value_of(rank, i), "a scatter into its input");
    for (int i = 0; i < each; ++i) in[i] = value_of(rank, i);
    MPI_Allreduce(in, in + 1, each - 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < each - 1; ++i)
      demand(in[1 + i] == 100 * size * (size - 1) / 2 + size * i, "an allreduce one further");
    for (int i = 0; i < each; ++i) in[i] = value_of(rank, i);
    MPI_Reduce(in, in + 1, each - 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    for (int i = 0; i < each - 1 && rank == 0; ++i)
      demand(in[1 + i] == 100 * size * (size - 1) / 2 + size * i, "a reduce one further");
  }
  free(in);
  free(out);
  free(counts);
  free(places);
  free(apart);
}

/* Threads with a communicator each. */
static MPI_Comm of_thread[4];
static void* work(void* which) {
  const MPI_Comm comm = of_thread[(size_t)which];
  for (int i = 0; i < 300; ++i) {
    sum_of_ranks(comm);
    if (i % 100 == 0) {
      MPI_Comm copy;
      MPI_Comm_dup(comm, &copy);
      sum_of_ranks(copy);
      MPI_Comm_free(&copy);
    }
  }
  return NULL;
}
static void threads(void) {
  pthread_t running[4];
  for (size_t i = 0; i < 4; ++i) MPI_Comm_dup(MPI_COMM_WORLD, &of_thread[i]);
  for (size_t i = 0; i < 4; ++i) pthread_create(&running[i], NULL, work, (void*)i);
  for (size_t i = 0; i < 4; ++i) pthread_join(running[i], NULL);
  for (size_t i = 0; i < 4; ++i) MPI_Comm_free(&of_thread[i]);
}

/* Threads that use a type at once: both ask what it is before one of them has the answer. The
 * program's PMPI_X are called in place of the MPI's. */
static MPI_Datatype shared_type;
static pthread_barrier_t both_threads, both_ask;
static MPI_Comm of_self[2];
int PMPI_Type_size_x(MPI_Datatype type, MPI_Count* bytes) {
  static int (*next)(MPI_Datatype, MPI_Count*);
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "PMPI_Type_size_x");
  if (shared_type != 0 && type == shared_type) pthread_barrier_wait(&both_ask);
  return next(type, bytes);
}
static void* use_at_once(void* which) {
  for (int turn = 0; turn < 20; ++turn) {
    int in[4] = {turn, 1, 2, 3}, out[4] = {-1, -1, -1, -1};
    pthread_barrier_wait(&both_threads);
    MPI_Allgather(in, 1, shared_type, out, 1, shared_type, of_self[(size_t)which]);
    demand(out[0] == turn && out[1] == -1 && out[2] == 2, "every other int");
    pthread_barrier_wait(&both_threads);
    if (which != NULL) continue;
    MPI_Type_free(&shared_type);
    MPI_Type_vector(2, 1, 2, MPI_INT, &shared_type);
    MPI_Type_commit(&shared_type);
  }
  return NULL;
}
static void types(void) {
  pthread_t other;
  for (int i = 0; i < 2; ++i) MPI_Comm_dup(MPI_COMM_SELF, &of_self[i]);
  pthread_barrier_init(&both_threads, NULL, 2);
  pthread_barrier_init(&both_ask, NULL, 2);
  MPI_Type_vector(2, 1, 2, MPI_INT, &shared_type);
  MPI_Type_commit(&shared_type);
  pthread_create(&other, NULL, use_at_once, (void*)1);
  use_at_once(NULL);
  pthread_join(other, NULL);
  MPI_Type_free(&shared_type);
  for (int i = 0; i < 2; ++i) MPI_Comm_free(&of_self[i]);
  MPI_Datatype real, two_reals; /* the first of them is predefined */
  MPI_Type_create_f90_real(15, MPI_UNDEFINED, &real);
  MPI_Type_contiguous(2, real, &two_reals);
  MPI_Type_commit(&two_reals);
  const double in[2] = {1, 2};
  double out[2] = {0, 0};
  MPI_Allgather(in, 1, two_reals, out, 1, two_reals, MPI_COMM_WORLD);
  demand(out[0] == 1 && out[1] == 2, "two reals");
  MPI_Type_free(&two_reals);
}

/* Two threads of rank 0 in calls at once, which rank 1 comes to in the other order than the thread
 * that has made all calls so far would: MPI has no rule against it. */
static MPI_Comm second;
static void* sum_on_second(void* unused) {
  sleep(3);
  sum_of_ranks(second);
  return unused;
}
static void crossed(void) {
  pthread_t other;
  MPI_Comm_dup(MPI_COMM_WORLD, &second);
  for (int i = 0; i < 5; ++i) {
    sum_of_ranks(MPI_COMM_WORLD);
    sum_of_ranks(second);
  }
  if (rank == 0) {
    pthread_create(&other, NULL, sum_on_second, NULL);
    sum_of_ranks(MPI_COMM_WORLD);
    pthread_join(other, NULL);
  } else {
    sum_of_ranks(second);
    sum_of_ranks(MPI_COMM_WORLD);
  }
  MPI_Comm_free(&second);
}

/* One element of so many MiB and as many gaps on rank 1; rank 0 sends the same MiB again and again.
 */
static void one_element_of(int mebibytes, const char* may_say) {
  enum { mebibyte = 1 << 18 }; /* of ints */
  const size_t n = rank == 0 ? mebibyte : (size_t)mebibytes * (mebibyte + 1);
  int* data = malloc(n * sizeof(int));
  MPI_Datatype type;
  demand(data != NULL, "memory");
  for (int i = 0; rank == 0 && i < mebibyte; ++i) data[i] = i;
  for (int i = 1; rank != 0 && i <= mebibytes; ++i) data[(size_t)i * (mebibyte + 1) - 1] = -1;
  MPI_Type_create_hvector(mebibytes, mebibyte, rank == 0 ? 0 : (mebibyte + 1) * 4, MPI_INT, &type);
  MPI_Type_commit(&type);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int code = MPI_Bcast(data, 1, type, 0, MPI_COMM_WORLD);
  if (code != MPI_SUCCESS) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    demand(may_say != NULL && strstr(text, may_say) != NULL, text);
    if (rank == 0) printf("done\n");
    fflush(stdout);
    PMPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    exit(0);
  }
  for (int i = 0; rank != 0 && i < mebibytes; ++i) {
    const int* const block = data + (size_t)i * (mebibyte + 1);
    demand(block[0] == 0 && block[i] == i && block[mebibyte - 1] == mebibyte - 1, "what was sent");
    demand(block[mebibyte] == -1, "the gaps");
  }
  MPI_Type_free(&type);
  free(data);
}
static void large_element(void) { one_element_of(1100, NULL); }
static void huge_element(void) { one_element_of(2100, "the host MPI has no MPI_Pack_c"); }

/* Rank 1 dies; the others are told, and go on to end. */
static void killed(void) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  sum_of_ranks(MPI_COMM_WORLD);
  if (rank == 1) kill(getpid(), SIGKILL);
  int mine = 1, sum = 0;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  const int code = MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Error_string(code, text, &length);
  fprintf(stderr, "rank %d: %s\n", rank, text);
  fflush(stderr);
  _exit(code == MPI_SUCCESS ? 4 : 5);
}

/* More communicators than may be open at a time, and ones that are freed with calls on others
 * between. */
static void many_comms(void) {
  for (int i = 0; i < 200; ++i) {
    MPI_Comm copy, part;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    sum_of_ranks(copy);
    MPI_Comm_split(copy, (rank + i) % 2, rank, &part);
    sum_of_ranks(part);
    MPI_Comm_free(&copy);
    sum_of_ranks(part);
    sum_of_ranks(MPI_COMM_WORLD);
    MPI_Comm_free(&part);
  }
}

/* Communicators of all ranks have MPI_COMM_WORLD's of tutti, however they were made, in whichever
 * order they are freed. */
static void duplicate(int rounds) {
  for (int i = 0; i < rounds; ++i) {
    MPI_Comm copy, second, split;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_dup(copy, &second);
    MPI_Comm_split(MPI_COMM_WORLD, 7, rank, &split);
    sum_of_ranks(i % 2 == 0 ? split : copy);
    MPI_Comm_free(i % 3 == 0 ? &split : &copy);
    sum_of_ranks(second);
    sum_of_ranks(MPI_COMM_WORLD);
    MPI_Comm_free(i % 3 == 0 ? &copy : &split);
    sum_of_ranks(second);
    MPI_Comm_free(&second);
  }
}

static void duplicates(void) { duplicate(100); }

/* With threads that may call at once on one rank, no rank has that one communicator. */
static void few_duplicates(void) { duplicate(8); }

/* Communicators of some ranks, made by them alone, to which Open MPI 4.1 copies the attributes of
 * MPI_COMM_WORLD. */
static void created(void) {
  MPI_Group all, even;
  int range[1][3] = {{0, size - 1, 2}};
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_range_incl(all, 1, range, &even);
  for (int i = 0; i < 20; ++i) {
    MPI_Comm part;
    sum_of_ranks(MPI_COMM_WORLD);
    if (rank % 2 != 0) continue;
    MPI_Comm_create_group(MPI_COMM_WORLD, even, 0, &part);
    sum_of_ranks(part);
    MPI_Comm_free(&part);
  }
  MPI_Group_free(&even);
  MPI_Group_free(&all);
}

/* The interposer calls this in place of the MPI's. */
static long scans_of_host;
int PMPI_Scan(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op,
              MPI_Comm comm) {
  static int (*next)(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm);
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "PMPI_Scan");
  ++scans_of_host;
  return next(send, recv, count, type, op, comm);
}

/* Parts get a communicator of tutti's once they have had enough calls: of them all by Scan. In
 * another order than MPI_COMM_WORLD's, all ranks are a part. */
static void few_calls(void) {
  MPI_Comm part, copy;
  sum_of_ranks(MPI_COMM_WORLD);
  for (int i = 0; i < 100; ++i) {
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &part);
    sum_of_ranks(part);
    MPI_Comm_dup(part, &copy);
    MPI_Comm_free(&part);
    sum_of_ranks(copy);
    MPI_Comm_free(&copy);
  }
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &part);
  const double begun = MPI_Wtime();
  for (int more = 1; more;) { /* on a busy machine what it costs is much */
    const long before = scans_of_host;
    for (int i = 0; i < 1000; ++i) {
      int mine = i, sum = 0;
      MPI_Scan(&mine, &sum, 1, MPI_INT, MPI_SUM, part);
      demand(sum == i * (size - rank), "the sum of the ranks before");
    }
    more = scans_of_host != before && MPI_Wtime() - begun < 60;
    PMPI_Bcast(&more, 1, MPI_INT, 0, part);
  }
  MPI_Comm_free(&part);
}

/* What tutti leaves to the host, and counts. */
static void requests(void) {
  int mine[4] = {rank, rank, rank, rank}, sums[4];
  for (int i = 0; i < 4; ++i) {
    MPI_Request all[3];
    MPI_Iallreduce(mine, sums, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &all[0]);
    MPI_Ibcast(&mine[3], 1, MPI_INT, 0, MPI_COMM_WORLD, &all[1]);
    MPI_Ibarrier(MPI_COMM_WORLD, &all[2]);
    sum_of_ranks(MPI_COMM_WORLD);
    MPI_Waitall(3, all, MPI_STATUSES_IGNORE);
    demand(sums[0] == size * (size - 1) / 2 && mine[3] == 0, "what the host made of them");
    mine[3] = rank;
  }
}

/* ---- nonblocking calls that tutti carries: all threads may call at once */

static unsigned shared_seed = 1; /* the same numbers on all ranks */
static unsigned shared_random(unsigned below) {
  shared_seed = shared_seed * 1664525 + 1013904223;
  return (shared_seed >> 8) % below;
}
static unsigned own_seed = 1;
static unsigned own_random(unsigned below) {
  own_seed = own_seed * 1664525 + 1013904223 + (unsigned)rank * 2;
  return (own_seed >> 8) % below;
}

enum { most_begun = 12, most_ints = 5000 };
typedef struct {
  MPI_Comm comm;
  int on, function, count, root, me, n;
  int *in, *out;
  MPI_Datatype type; /* freed while the call is in flight */
} begun_call;

static int given_by(int r, int i, int count) { return 7 * r + i % 11 + count; }
static int spread(const begun_call* c, int i) { return c->type != MPI_INT ? 2 * i : i; }

static void begin_call(begun_call* c, MPI_Request* request) {
  const int room = c->function == 2 || c->function == 7 ? c->count * c->n : c->count;
  int *counts = malloc(sizeof(int) * (size_t)c->n), *places = malloc(sizeof(int) * (size_t)c->n);
  for (int i = 0; i < c->n; ++i) counts[i] = c->count, places[i] = (c->n - 1 - i) * c->count;
  c->in = malloc(sizeof(int) * (size_t)(2 * c->count * c->n + 2));
  c->out = malloc(sizeof(int) * (size_t)(2 * room + 2));
  for (int i = 0; i < 2 * room + 2; ++i) c->out[i] = -1;
  for (int i = 0; i < c->count * c->n; ++i) c->in[i] = given_by(c->me, i, c->count);
  c->type = MPI_INT;
  if ((c->function == 1 || c->function == 2) && own_random(2)) { /* every other int */
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &c->type);
    MPI_Type_commit(&c->type);
  }
  if (c->function == 1 && c->me == c->root) {
    for (int i = 0; i < c->count; ++i) c->out[spread(c, i)] = c->in[i];
  }
  switch (c->function) {
    case 0:
      MPI_Iallreduce(c->in, c->out, c->count, MPI_INT, MPI_SUM, c->comm, request);
      break;
    case 1:
      MPI_Ibcast(c->out, c->count, c->type, c->root, c->comm, request);
      break;
    case 2:
      MPI_Iallgather(c->in, c->count, MPI_INT, c->out, c->count, c->type, c->comm, request);
      break;
    case 3:
      MPI_Ireduce(c->in, c->out, c->count, MPI_INT, MPI_MAX, c->root, c->comm, request);
      break;
    case 4:
      MPI_Iscan(c->in, c->out, c->count, MPI_INT, MPI_SUM, c->comm, request);
      break;
    case 5:
      MPI_Ireduce_scatter_block(c->in, c->out, c->count, MPI_INT, MPI_SUM, c->comm, request);
      break;
    case 7:
      MPI_Iallgatherv(c->in, c->count, MPI_INT, c->out, counts, places, MPI_INT, c->comm, request);
      break;
    case 8:
      MPI_Ireduce_scatter(c->in, c->out, counts, MPI_INT, MPI_SUM, c->comm, request);
      break;
    default:
      MPI_Ibarrier(c->comm, request);
  }
  /* MPI forbids it, its libraries take it */
  for (int i = 0; i < c->n; ++i) counts[i] = places[i] = 1 << 30;
  free(counts);
  free(places);
  if (c->type != MPI_INT) {
    MPI_Datatype freed = c->type;
    MPI_Type_free(&freed);
  }
}

static void demand_result(begun_call* c) {
  const int n = c->n;
  for (int i = 0; i < c->count; ++i) {
    int sum = 0, below = 0, most = 0, block = 0;
    for (int r = 0; r < n; ++r) {
      const int given = given_by(r, i, c->count);
      sum += given;
      if (r <= c->me) below += given;
      if (given > most) most = given;
      block += given_by(r, c->me * c->count + i, c->count);
    }
    const int got = c->out[spread(c, i)];
    switch (c->function) {
      case 0:
        demand(got == sum, "a sum");
        break;
      case 1:
        demand(got == given_by(c->root, i, c->count), "a broadcast");
        break;
      case 2:
        for (int r = 0; r < n; ++r)
          demand(c->out[spread(c, r * c->count + i)] == given_by(r, i, c->count), "a gathering");
        break;
      case 3:
        demand(c->me != c->root || got == most, "a greatest");
        break;
      case 4:
        demand(got == below, "a scan");
        break;
      case 5:
      case 8:
        demand(got == block, "a block of sums");
        break;
      case 7:
        for (int r = 0; r < n; ++r)
          demand(c->out[(n - 1 - r) * c->count + i] == given_by(r, i, c->count), "blocks");
        break;
    }
    if (c->type != MPI_INT) demand(c->out[2 * i + 1] == -1, "what lies between");
  }
  free(c->in);
  free(c->out);
}

static void end_in_some_way(int n, MPI_Request* all) {
  MPI_Status statuses[2 * most_begun];
  int done = 0, index = 0, several[2 * most_begun];
  switch (own_random(6)) {
    case 0:
      MPI_Waitall(n, all, statuses);
      break;
    case 1:
      for (int i = n - 1; i >= 0; --i) MPI_Wait(&all[i], MPI_STATUS_IGNORE);
      break;
    case 2:
      for (int i = 0; i < n; ++i) MPI_Waitany(n, all, &index, MPI_STATUS_IGNORE);
      break;
    case 3:
      for (int left = n; left > 0; left -= done) MPI_Waitsome(n, all, &done, several, statuses);
      break;
    case 4:
      usleep(own_random(1000));
      while (!done) MPI_Testall(n, all, &done, statuses);
      break;
    default:
      for (int i = 0; i < n; ++i) {
        for (done = 0; !done;) MPI_Test(&all[i], &done, MPI_STATUS_IGNORE);
      }
  }
}

/* Random ones on three communicators, begun in another order of communicators on each rank, beside
 * messages and blocking calls; types, and sometimes a communicator, are freed meanwhile. */
static void nonblocking(void) {
  for (int turn = 0; turn < 300; ++turn) {
    MPI_Comm comms[3] = {MPI_COMM_WORLD};
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comms[2]);
    for (int i = 0; i < 3; ++i) MPI_Barrier(comms[i]);
    begun_call calls[most_begun];
    MPI_Request all[2 * most_begun];
    const int n = 1 + (int)shared_random(most_begun), to = (rank + 1) % size;
    for (int i = 0; i < n; ++i) {
      begun_call* const c = &calls[i];
      const unsigned on = shared_random(3);
      *c = (begun_call){.comm = comms[on], .on = (int)on, .function = (int)shared_random(9)};
      MPI_Comm_rank(c->comm, &c->me);
      MPI_Comm_size(c->comm, &c->n);
      c->count = 1 + (int)shared_random(shared_random(4) ? 40 : most_ints);
      c->root = (int)shared_random(1u << 20) % c->n;
    }
    int next[3] = {0}, begun = 0, requests = 0, sent[most_begun], got[most_begun];
    while (begun < n) {
      const int on = (int)own_random(3);
      int* const i = &next[on];
      while (*i < n && calls[*i].on != on) ++*i;
      if (*i == n) continue;
      begin_call(&calls[(*i)++], &all[requests++]);
      sent[begun] = 1000 * turn + begun;
      MPI_Irecv(&got[begun], 1, MPI_INT, (rank + size - 1) % size, begun, MPI_COMM_WORLD,
                &all[requests++]);
      MPI_Request sending;
      MPI_Isend(&sent[begun], 1, MPI_INT, to, begun, MPI_COMM_WORLD, &sending);
      MPI_Request_free(&sending);
      ++begun;
    }
    if (turn % 3 == 0) sum_of_ranks(comms[turn % 9 / 3]);
    if (turn % 4 == 0) MPI_Comm_free(&comms[1]);
    end_in_some_way(requests, all);
    for (int i = 0; i < requests; ++i) demand(all[i] == MPI_REQUEST_NULL, "a request that ended");
    for (int i = 0; i < n; ++i) {
      demand_result(&calls[i]);
      demand(got[i] == 1000 * turn + i, "a message");
    }
    sum_of_ranks(MPI_COMM_WORLD); /* what was sent has been received */
    if (turn % 4 != 0) MPI_Comm_free(&comms[1]);
    MPI_Comm_free(&comms[2]);
  }
}

/* Rank 0 is in a call of the host's until the others have ended the one that it has begun. */
static void moved_on(void) {
  enum { ints = 1 << 20 };
  int *in = malloc(ints * sizeof(int)), *out = malloc(2 * ints * sizeof(int)), got = 0;
  MPI_Datatype spread_out;
  MPI_Request request;
  MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spread_out);
  MPI_Type_commit(&spread_out);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int turn = 0; turn < 6; ++turn) {
    for (int i = 0; i < ints; ++i) in[i] = i + rank, out[i] = rank == 0 ? i : -1;
    if (turn % 2 == 0)
      MPI_Iallreduce(in, out, ints, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    else
      MPI_Ibcast(out, ints / 2, spread_out, 0, MPI_COMM_WORLD, &request);
    if (rank == 0) {
      for (int r = 1; r < size; ++r)
        MPI_Recv(&got, 1, MPI_INT, r, turn, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      MPI_Send(&turn, 1, MPI_INT, 0, turn, MPI_COMM_WORLD);
    }
    for (int i = 0; i < ints; i += 2) {
      const int sum = size * i + size * (size - 1) / 2;
      demand(out[i] == (turn % 2 == 0 ? sum : i), "what was begun");
    }
  }
  MPI_Type_free(&spread_out);
  free(in);
  free(out);
}

/* Two calls are in flight, which the others come to late, and rank 0 ends the first and is then in
 * a call of the host's; with gaps it is there at once. */
static void moved_on_late(void) {
  MPI_Datatype spread_out;
  MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spread_out);
  MPI_Type_commit(&spread_out);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int turn = 0; turn < 4; ++turn) {
    int mine = rank, sum = -1, told[20] = {0}, got = 0;
    MPI_Request all[2];
    if (rank != 0) usleep(50000);
    if (turn % 2 == 0)
      MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &all[0]);
    else
      MPI_Ibcast(told, 10, spread_out, 1, MPI_COMM_WORLD, &all[0]);
    MPI_Iallreduce(&mine, &got, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &all[1]);
    if (rank == 0) {
      if (turn % 2 == 0) MPI_Wait(&all[0], MPI_STATUS_IGNORE);
      int unused;
      for (int r = 1; r < size; ++r)
        MPI_Recv(&unused, 1, MPI_INT, r, turn, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Status statuses[2];
    MPI_Waitall(2, all, statuses);
    if (rank != 0) MPI_Send(&turn, 1, MPI_INT, 0, turn, MPI_COMM_WORLD);
    demand(got == size - 1, "the second call");
    demand(turn % 2 != 0 || sum == size * (size - 1) / 2, "the first call");
  }
  MPI_Type_free(&spread_out);
}

/* Blocks that are sent and received lie in turns in one array, and rank 0 is in a call of the
 * host's until the others have begun theirs. */
static void interleaved(void) {
  int *data = malloc(sizeof(int) * (size_t)(8 * size)),
      *counts = malloc(sizeof(int) * (size_t)size), *places = malloc(sizeof(int) * (size_t)size);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int turn = 0; turn < 20; ++turn) {
    for (int r = 0; r < size; ++r) {
      counts[r] = 4, places[r] = 8 * r;
      for (int i = 0; i < 4; ++i) data[8 * r + i] = 100 * rank + r, data[8 * r + 4 + i] = -1;
    }
    int got = 0;
    MPI_Request request;
    if (rank != 0) {
      MPI_Send(&turn, 1, MPI_INT, 0, turn, MPI_COMM_WORLD);
      MPI_Recv(&got, 1, MPI_INT, 0, turn, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Ialltoallv(data, counts, places, MPI_INT, data + 4, counts, places, MPI_INT, MPI_COMM_WORLD,
                   &request);
    for (int r = 1; rank == 0 && r < size; ++r) {
      MPI_Recv(&got, 1, MPI_INT, r, turn, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(&turn, 1, MPI_INT, r, turn, MPI_COMM_WORLD);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int r = 0; r < size; ++r) {
      for (int i = 0; i < 4; ++i) demand(data[8 * r + 4 + i] == 100 * r + rank, "a block");
    }
  }
  free(data);
  free(counts);
  free(places);
}

/* A nonblocking call that blocking ones pass: MPI wants one order of both on all ranks, but its
 * libraries do without, and mpi4py's agreements (MPI_Iallreduce, a test, a barrier) count on it. */
static void passed(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  for (int turn = 0; turn < 50; ++turn) {
    const int first = rank == turn % size;
    int mine = rank + turn, sum = -1, done = 0;
    MPI_Request request;
    if (first) {
      MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      demand(!done || size == 1, "that it has not ended");
    }
    sum_of_ranks(MPI_COMM_WORLD);
    if (!first) MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    demand(sum == size * (size - 1) / 2 + size * turn, "its sum");
  }
}

/* Rank 0's message is still to be moved by its MPI while it waits for any of its calls. */
static void pending_send_any(void) {
  const int bytes = 8 << 20;
  char* data = calloc((size_t)bytes, 1);
  sum_of_ranks(MPI_COMM_WORLD);
  for (int turn = 0; turn < 4; ++turn) {
    MPI_Request sent, call;
    int mine = rank, sum = -1, index = 0, done = 0;
    if (rank == 0) MPI_Isend(data, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &sent);
    if (rank == 1) MPI_Recv(data, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &call);
    if (turn % 2 == 0) {
      MPI_Waitany(1, &call, &index, MPI_STATUS_IGNORE);
    } else {
      MPI_Status status;
      MPI_Waitsome(1, &call, &done, &index, &status);
    }
    demand(sum == size * (size - 1) / 2, "the sum of the ranks");
    if (rank == 0) MPI_Wait(&sent, MPI_STATUS_IGNORE);
  }
  free(data);
}

/* The error of a call is that of what ends its request; with others in MPI_Waitall. */
static void nonblocking_errors(void) {
  MPI_Comm own = returning_errors();
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  double a[8] = {0}, b[8] = {0};
  for (int turn = 0; turn < 7; ++turn) {
    MPI_Request all[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[2];
    MPI_Iallreduce(a, b, rank == 0 ? 4 : 3, MPI_DOUBLE, MPI_SUM, own, &all[0]);
    int code = MPI_SUCCESS, done = 0, index = -1, several[2] = {-1, -1}, got = -1;
    switch (turn) {
      case 0:
        code = MPI_Wait(&all[0], MPI_STATUS_IGNORE);
        break;
      case 1: /* it is over */
        while (!done && code == MPI_SUCCESS) code = MPI_Test(&all[0], &done, MPI_STATUS_IGNORE);
        break;
      case 2:
        MPI_Ibarrier(MPI_COMM_WORLD, &all[1]);
        code = MPI_Waitall(2, all, statuses);
        break;
      case 3:
        while (!done && code == MPI_SUCCESS) code = MPI_Testall(2, all, &done, statuses);
        break;
      case 4: /* beside a request that is not active */
        MPI_Recv_init(&got, 1, MPI_INT, 0, 99, MPI_COMM_SELF, &all[1]);
        code = MPI_Waitany(2, all, &index, MPI_STATUS_IGNORE);
        demand(index == 0, "which request has ended");
        MPI_Request_free(&all[1]);
        break;
      case 5:
        code = MPI_Waitsome(2, all, &done, several, statuses);
        demand(done == 1 && several[0] == 0, "which request of some has ended");
        break;
      default:
        while (!done) MPI_Request_get_status(all[0], &done, MPI_STATUS_IGNORE);
        code = MPI_Wait(&all[0], MPI_STATUS_IGNORE);
    }
    if (turn == 2 || turn == 3 || turn == 5) {
      demand(code == MPI_ERR_IN_STATUS, "an error in a status");
      code = statuses[0].MPI_ERROR;
    }
    demand(code != MPI_SUCCESS, "an error that is returned");
    demand(all[0] == MPI_REQUEST_NULL && all[1] == MPI_REQUEST_NULL, "that requests have ended");
    MPI_Error_string(code, text, &length);
    demand(strstr(text, "tutti: MISMATCH") != NULL, "a sentence of tutti's");
    /* The handle may be used again. */
    MPI_Irecv(&got, 1, MPI_INT, 0, 5, MPI_COMM_SELF, &all[0]);
    MPI_Send(&turn, 1, MPI_INT, 0, 5, MPI_COMM_SELF);
    demand(MPI_Wait(&all[0], MPI_STATUS_IGNORE) == MPI_SUCCESS && got == turn,
           "a message behind it");
  }
  MPI_Errhandler handler;
  MPI_Request request;
  MPI_Comm_create_errhandler(count_errors, &handler);
  MPI_Comm_set_errhandler(own, handler);
  MPI_Iallreduce(a, b, 4, MPI_DOUBLE, MPI_SUM, own, &request);
  usleep(1000);
  demand(handled == 0, "that the program's handler is not called before the request ends");
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  demand(handled == 1, "that the program's handler was called once");
  MPI_Errhandler_free(&handler);
  sum_of_ranks(MPI_COMM_WORLD);
  MPI_Comm_free(&own);
}

/* A rank ends while a call is in flight. */
static void killed_nonblocking(void) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  sum_of_ranks(MPI_COMM_WORLD);
  int mine = 1, sum = 0, length = 0;
  char text[MPI_MAX_ERROR_STRING] = "";
  MPI_Request request;
  if (rank == 1) kill(getpid(), SIGKILL);
  MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  const int code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Error_string(code, text, &length);
  fprintf(stderr, "rank %d: %s\n", rank, text);
  fflush(stderr);
  _exit(code == MPI_SUCCESS ? 4 : 5);
}

#if MPI_VERSION >= 4 || defined(OPEN_MPI)
/* Prepared calls, a call of tutti, a nonblocking one and messages, all in flight at once, and each
 * way to end them. */
static void persistent(void) {
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  int mine = 0, sum = 0, told = 0, least = 0, sent = 0, got = 0, idle = 0;
  MPI_Request all[5], unused;
  MPI_Status statuses[5];
  MPI_Allreduce_init(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &all[0]);
  MPI_Bcast_init(&told, 1, MPI_INT, size - 1, MPI_COMM_WORLD, MPI_INFO_NULL, &all[1]);
  MPI_Send_init(&sent, 1, MPI_INT, to, 5, MPI_COMM_WORLD, &all[2]);
  MPI_Recv_init(&got, 1, MPI_INT, from, 5, MPI_COMM_WORLD, &all[3]);
  MPI_Scan_init(&mine, &idle, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &unused);
  for (int turn = 0; turn < 1000; ++turn) {
    int ended = 0, index = 0, several[5];
    mine = rank + turn;
    told = rank == size - 1 ? turn : -1;
    sent = 10 * turn + rank;
    sum = got = -1;
    if (turn % 2 == 0) {
      MPI_Startall(4, all);
    } else {
      for (int i = 0; i < 4; ++i) MPI_Start(&all[i]);
    }
    MPI_Iallreduce(&mine, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD, &all[4]);
    if (turn % 3 == 0) sum_of_ranks(MPI_COMM_WORLD);
    switch (turn % 6) {
      case 0:
        MPI_Waitall(5, all, statuses);
        break;
      case 1:
        for (int i = 0; i < 5; ++i) MPI_Waitany(5, all, &index, MPI_STATUS_IGNORE);
        break;
      case 2:
        for (int left = 5; left > 0; left -= ended)
          MPI_Waitsome(5, all, &ended, several, MPI_STATUSES_IGNORE);
        break;
      case 3: /* MPICH 4.0's MPI_Testall fails on collectives that were prepared */
        while (!ended) MPI_Testall(3, all + 2, &ended, statuses);
        for (int i = 0; i < 2; ++i) {
          for (ended = 0; !ended;) MPI_Test(&all[i], &ended, MPI_STATUS_IGNORE);
        }
        break;
      case 4:
        while (!ended) MPI_Request_get_status(all[0], &ended, MPI_STATUS_IGNORE);
        for (int i = 4; i >= 0; --i) MPI_Wait(&all[i], MPI_STATUS_IGNORE);
        break;
      default:
        for (int left = 5; left > 0; left -= ended != 0)
          MPI_Testany(5, all, &index, &ended, MPI_STATUS_IGNORE);
    }
    /* None is active, or one, where MPICH 4.0's MPI_Waitany has returned another twice. */
    MPI_Waitall(5, all, statuses);
    demand(sum == size * (size - 1) / 2 + size * turn, "the sum that was prepared");
    demand(told == turn && least == turn, "the broadcast and the nonblocking least");
    demand(got == 10 * turn + from, "the message that was prepared");
    demand(all[0] != MPI_REQUEST_NULL && all[4] == MPI_REQUEST_NULL, "what remains of requests");
    if (turn == 500) {
      demand(MPI_Request_free(&unused) == MPI_SUCCESS && unused == MPI_REQUEST_NULL, "its end");
    }
  }
  for (int i = 0; i < 4; ++i) MPI_Request_free(&all[i]);
}
#endif

/* Functions that the interposer has: a persistent form, which Open MPI 4.1 has not, and forms with
 * large counts, which MPIs before MPI 4 have not. Says whether the MPI has it, too. */
static int is_there(const char* name, int code) {
  char text[MPI_MAX_ERROR_STRING] = "", pmpi[64], wanted[80];
  int length = 0;
  snprintf(pmpi, sizeof pmpi, "P%s", name);
  if (dlsym(RTLD_DEFAULT, pmpi) != NULL) {
    demand(code == MPI_SUCCESS, name);
    return 1;
  }
  MPI_Error_string(code, text, &length);
  snprintf(wanted, sizeof wanted, "tutti: the host MPI has no %s", name);
  demand(strcmp(text, wanted) == 0, text);
  if (rank == 0) printf("%s\n", text);
  return 0;
}
static void missing(void) {
  int (*prepare)(MPI_Comm, MPI_Info, MPI_Request*);
  int (*sum_large)(const void*, void*, MPI_Count, MPI_Datatype, MPI_Op, MPI_Comm);
  int (*begin_large)(const void*, void*, MPI_Count, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Request*);
  MPI_Request request;
  int sum = 0;
  *(void**)&prepare = dlsym(RTLD_DEFAULT, "MPI_Barrier_init");
  *(void**)&sum_large = dlsym(RTLD_DEFAULT, "MPI_Allreduce_c");
  *(void**)&begin_large = dlsym(RTLD_DEFAULT, "MPI_Iallreduce_c");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (prepare != NULL &&
      is_there("MPI_Barrier_init", prepare(MPI_COMM_WORLD, MPI_INFO_NULL, &request)))
    demand(MPI_Request_free(&request) == MPI_SUCCESS, "a prepared barrier");
  if (sum_large == NULL) return;
  demand(sum_large(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS &&
             sum == size * (size - 1) / 2,
         "what tutti carries");
  is_there("MPI_Allreduce_c", sum_large(&rank, &sum, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  const int code = begin_large(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  if (is_there("MPI_Iallreduce_c", code)) MPI_Wait(&request, MPI_STATUS_IGNORE);
}

#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define WITH_SESSIONS
/* Communicators of a session: of all ranks in two orders, of every second one, and their
 * duplicates; also in a program without MPI_Init. */
static void calls_in_session(int alone) {
  MPI_Session session;
  MPI_Group all, turned, even;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Group_from_session_pset(session, "mpi://WORLD", &all);
  MPI_Group_size(all, &size); /* Intel MPI does not say the rank in it */
  MPI_Group_range_incl(all, 1, (int[1][3]){{size - 1, 0, -1}}, &turned);
  MPI_Group_range_incl(all, 1, (int[1][3]){{0, size - 1, 2}}, &even);
  for (int turn = 0; turn < 4; ++turn) {
    const MPI_Group groups[3] = {all, turned, even};
    for (int i = 0; i < 3; ++i) {
      MPI_Comm comm, copy;
      if (i == 2 && rank % 2 != 0) continue;
      MPI_Comm_create_from_group(groups[i], "situations", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL,
                                 &comm);
      if (i == 0) MPI_Comm_rank(comm, &rank);
      sum_of_ranks(comm);
      MPI_Comm_dup(comm, &copy);
      MPI_Comm_free(&comm);
      sum_of_ranks(copy);
      if (!alone && i < 2) sum_of_ranks(MPI_COMM_WORLD);
      MPI_Comm_free(&copy);
    }
  }
  MPI_Group_free(&even);
  MPI_Group_free(&turned);
  MPI_Group_free(&all);
  MPI_Session_finalize(&session);
  if (alone && rank == 0) printf("done\n");
}
static void sessions(void) { calls_in_session(0); }
static void sessions_alone(void) { calls_in_session(1); }
#endif

#if MPI_VERSION >= 4
/* More elements than an int counts. */
static void large_count(void) {
  const MPI_Count n = ((MPI_Count)1 << 31) + 7;
  unsigned char* const data = malloc((size_t)n);
  demand(data != NULL, "memory");
  for (MPI_Count i = 0; i < n; ++i) data[i] = rank == 0 ? (unsigned char)(i * 7 >> 3) : 1;
  MPI_Bcast_c(data, n, MPI_BYTE, 0, MPI_COMM_WORLD);
  for (MPI_Count i = 0; i < n; ++i) demand(data[i] == (unsigned char)(i * 7 >> 3), "what was sent");
  data[n - 1] = (unsigned char)rank;
  MPI_Allreduce_c(MPI_IN_PLACE, data, n, MPI_UINT8_T, MPI_MAX, MPI_COMM_WORLD);
  for (MPI_Count i = 0; i < n - 1; ++i)
    demand(data[i] == (unsigned char)(i * 7 >> 3), "the greatest of the same");
  demand(data[n - 1] == size - 1, "the greatest rank");
  free(data);
}
#endif

/* A duplicate, a call on it, and its end, over and over: prints microseconds. */
static void short_lived(void) {
  double best = 1e9;
  sum_of_ranks(MPI_COMM_WORLD);
  for (int turn = 0; turn < 20; ++turn) {
    const double begun = MPI_Wtime();
    for (int i = 0; i < 50; ++i) {
      MPI_Comm copy;
      MPI_Comm_dup(MPI_COMM_WORLD, &copy);
      sum_of_ranks(copy);
      MPI_Comm_free(&copy);
    }
    const double took = (MPI_Wtime() - begun) / 50 * 1e6;
    best = took < best ? took : best;
  }
  if (rank == 0) printf("%.1f us\n", best);
}

/* Where the MPI finds an error while tutti waits (Open MPI 5 that a rank is gone), it ends no
 * program. The interposer calls this in place of the MPI's. */
static int probed, fatal_probes;
static void (*while_waiting)(void);
int PMPI_Iprobe(int source, int tag, MPI_Comm comm, int* there, MPI_Status* status) {
  static int (*next)(int, int, MPI_Comm, int*, MPI_Status*);
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "PMPI_Iprobe");
  if (comm != MPI_COMM_WORLD) {
    MPI_Errhandler handler;
    MPI_Comm_get_errhandler(comm, &handler);
    fatal_probes += handler != MPI_ERRORS_RETURN;
    ++probed;
    if (while_waiting != NULL) while_waiting();
  }
  return next(source, tag, comm, there, status);
}

/* A rank that comes late to a collective is waited for, whatever tutti's limit is. */
static void late(void) {
  sum_of_ranks(MPI_COMM_WORLD);
  if (rank == 1) sleep(3);
  sum_of_ranks(MPI_COMM_WORLD);
  demand(rank == 1 || probed > 0, "that the MPI is called while a rank waits");
  demand(fatal_probes == 0, "that its errors are returned then");
}

/* The first call makes the communicator of tutti's, by few all-gathers of the MPI's; some may fail
 * here. */
static int counted, gathers, first_to_fail, last_to_fail;
int PMPI_Allgather(const void* send, int sent, MPI_Datatype send_type, void* recv, int received,
                   MPI_Datatype recv_type, MPI_Comm comm) {
  static int (*next)(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm);
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "PMPI_Allgather");
  ++gathers;
  demand(!counted || gathers < 1000, "an end of all-gathers");
  if (gathers >= first_to_fail && gathers <= last_to_fail) return MPI_ERR_OTHER;
  return next(send, sent, send_type, recv, received, recv_type, comm);
}
static void first_call(void) {
  counted = 1;
  gathers = 0;
  sum_of_ranks(MPI_COMM_WORLD);
  printf("%d all-gathers\n", gathers);
  demand(gathers > 0 && gathers <= 8, "few all-gathers");
  sum_of_ranks(MPI_COMM_WORLD);
}

/* Where they fail, on all ranks from the fourth on, or the third of one rank, the MPI makes the
 * calls. */
static void failed_gathers(void) {
  counted = 1;
  for (int turn = 0; turn < 2; ++turn) {
    MPI_Comm part;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &part);
    gathers = 0;
    first_to_fail = turn == 0 ? 4 : 3;
    last_to_fail = turn == 0 ? 1000 : rank == 1 ? 3 : 0;
    sum_of_ranks(part);
    demand(gathers >= first_to_fail, "all-gathers that fail");
    sum_of_ranks(part);
    MPI_Comm_free(&part);
  }
}

/* Attributes whose delete functions call on the communicator that is being freed. */
static int deletions = 0;
static int call_at_deletion(MPI_Comm comm, int keyval, void* attribute, void* extra) {
  (void)keyval, (void)attribute, (void)extra;
  sum_of_ranks(comm);
  ++deletions;
  return MPI_SUCCESS;
}
static void freed(void) {
  int keyval;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, call_at_deletion, &keyval, NULL);
  for (int turn = 0; turn < 36; ++turn) {
    MPI_Comm part;
    if (turn % 3 == 2)
      MPI_Comm_dup(MPI_COMM_WORLD, &part);
    else
      MPI_Comm_split(MPI_COMM_WORLD, turn % 3 == 0 ? 0 : rank / 2, -rank, &part);
    /* before or after tutti's own, not alike on all ranks */
    const int before = (turn + rank) % 2;
    if (before) MPI_Comm_set_attr(part, keyval, NULL);
    sum_of_ranks(part);
    if (!before) MPI_Comm_set_attr(part, keyval, NULL);
    if (turn % 4 == 3)
      MPI_Comm_disconnect(&part);
    else
      MPI_Comm_free(&part);
    demand(part == MPI_COMM_NULL, "a handle of none");
  }
  demand(deletions == 36, "every attribute deleted");
  MPI_Comm_free_keyval(&keyval);
}

/* The same with requests on it in flight: MPICH deletes attributes when the last has ended, on
 * ranks that have waited for theirs at once. The handle is used again, of other ranks. */
static int in_free, late_deletions;
static MPI_Request in_flight[3];
static int call_late(MPI_Comm comm, int keyval, void* attribute, void* extra) {
  (void)keyval, (void)attribute, (void)extra;
  late_deletions += !in_free;
  sum_of_ranks(comm);
  sum_of_ranks(MPI_COMM_WORLD);
  sum_of_ranks(comm);
  ++deletions;
  return MPI_SUCCESS;
}
static void* wait_for_all(void* unused) {
  MPI_Waitall(3, in_flight, MPI_STATUSES_IGNORE);
  return unused;
}
static void freed_while(int threaded) {
  enum { bytes = 1 << 18 };
  static char in[bytes], out[bytes];
  int keyvals[3];
  for (int k = 0; k < 3; ++k)
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, call_late, &keyvals[k], NULL);
  for (int turn = 0; turn < 48; ++turn) {
    MPI_Comm part;
    pthread_t other;
    int me, n;
    if (turn % 3 == 2)
      MPI_Comm_dup(MPI_COMM_WORLD, &part);
    else
      MPI_Comm_split(MPI_COMM_WORLD, turn % 3 == 0 ? 0 : rank / 2, -rank, &part);
    MPI_Comm_rank(part, &me);
    MPI_Comm_size(part, &n);
    const int before = (turn + rank) % 4;
    for (int k = 0; k < before; ++k) MPI_Comm_set_attr(part, keyvals[k], NULL);
    if (turn % 5 != 0) sum_of_ranks(part);
    for (int k = before; k < 3; ++k) MPI_Comm_set_attr(part, keyvals[k], NULL);
    MPI_Irecv(in, bytes, MPI_BYTE, (me + n - 1) % n, 0, part, &in_flight[0]);
    MPI_Isend(out, bytes, MPI_BYTE, (me + 1) % n, 0, part, &in_flight[1]);
    MPI_Ibarrier(part, &in_flight[2]);
    const int waits = turn % 4 == 3 && rank == 0;
    if (threaded) {
      pthread_create(&other, NULL, wait_for_all, NULL);
    } else if (waits) {
      wait_for_all(NULL);
    }
    in_free = 1;
    MPI_Comm_free(&part);
    in_free = 0;
    if (turn % 2 == 0) sum_of_ranks(MPI_COMM_SELF);
    if (threaded) {
      pthread_join(other, NULL);
    } else if (!waits) {
      wait_for_all(NULL);
    }
    demand(part == MPI_COMM_NULL, "a handle of none");
    demand(deletions == 3 * (turn + 1), "every attribute deleted");
  }
#ifdef OPEN_MPI
  demand(threaded || late_deletions == 0, "deletions in MPI_Comm_free");
#else
  demand(threaded || late_deletions > 0, "late deletions");
#endif
  for (int k = 0; k < 3; ++k) MPI_Comm_free_keyval(&keyvals[k]);
}
static void freed_late(void) { freed_while(0); }
static void freed_by_threads(void) { freed_while(1); }

/* On rank 0 another thread has the handle again, for a new communicator, before MPI_Comm_free has
 * returned. The interposer calls this in place of the MPI's. */
static MPI_Comm handle_before;
static int same_handles;
static void* new_comm(void* unused) {
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  same_handles += copy == handle_before;
  sum_of_ranks(copy);
  sum_of_ranks(copy);
  MPI_Comm_free(&copy);
  return unused;
}
static int between_threads;
int PMPI_Comm_free(MPI_Comm* comm) {
  static int (*next)(MPI_Comm*);
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "PMPI_Comm_free");
  const int code = next(comm);
  if (between_threads) {
    pthread_t other;
    between_threads = 0;
    pthread_create(&other, NULL, new_comm, NULL);
    pthread_join(other, NULL);
  }
  return code;
}
static void freed_at_once(void) {
  for (int turn = 0; turn < 8; ++turn) {
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    sum_of_ranks(copy);
    handle_before = copy;
    between_threads = rank == 0;
    MPI_Comm_free(&copy);
    if (rank != 0) new_comm(NULL);
  }
#ifndef OPEN_MPI /* whose handles are addresses */
  demand(rank != 0 || same_handles > 0, "a handle that is used again");
#endif
}

/* One that the MPI refuses to free remains what it was. */
static int refuse(MPI_Comm comm, int keyval, void* attribute, void* extra) {
  (void)comm, (void)keyval, (void)attribute, (void)extra;
  return deletions++ == 0 ? MPI_ERR_OTHER : MPI_SUCCESS;
}
static void not_freed(void) {
  int keyval;
  MPI_Comm copy;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  sum_of_ranks(MPI_COMM_WORLD);
  if (rank == 0)
    demand(MPI_Comm_free(&(MPI_Comm){MPI_COMM_WORLD}) != MPI_SUCCESS, "no end of MPI_COMM_WORLD");
  for (int i = 0; i < 3; ++i) sum_of_ranks(MPI_COMM_WORLD);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, refuse, &keyval, NULL);
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  sum_of_ranks(copy);
  MPI_Comm_set_attr(copy, keyval, NULL);
  MPI_Comm kept = copy;
  demand(MPI_Comm_free(&copy) != MPI_SUCCESS, "an error of a function that deletes");
  if (copy != MPI_COMM_NULL) sum_of_ranks(kept);
}

/* Rank 0 makes in MPI_Finalize, where the attributes of MPI_COMM_SELF are deleted, the calls that
 * the others make before theirs. */
static int last_calls(MPI_Comm comm, int keyval, void* attribute, void* extra) {
  (void)comm, (void)keyval, (void)attribute, (void)extra;
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  sum_of_ranks(MPI_COMM_WORLD);
  sum_of_ranks(copy);
  MPI_Comm_free(&copy);
  sum_of_ranks(MPI_COMM_WORLD);
  return MPI_SUCCESS;
}
static void finalize(void) {
  int keyval;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, last_calls, &keyval, NULL);
  sum_of_ranks(MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0)
    MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
  else
    last_calls(MPI_COMM_SELF, keyval, NULL, NULL);
  MPI_Finalize();
  if (rank == 0) printf("done\n");
  exit(0);
}

/* Functions that delete attributes of types, also where the other ranks have one of their own. */
static int bcast_at_deletion(MPI_Datatype type, int keyval, void* attribute, void* extra) {
  (void)keyval, (void)attribute, (void)extra;
  int data[6];
  for (int i = 0; i < 6; ++i) data[i] = rank == 0 ? i : -1;
  MPI_Bcast(data, 1, type, 0, MPI_COMM_WORLD);
  demand(data[0] == 0 && data[3] == 3 && data[1] == (rank == 0 ? 1 : -1), "every third int");
  ++deletions;
  return MPI_SUCCESS;
}
static void freed_types(void) {
  int keyval, data[6] = {0}, ints[2], expected = 0;
  MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, bcast_at_deletion, &keyval, NULL);
  for (int turn = 0; turn < 240; ++turn) {
    MPI_Datatype type;
    MPI_Type_vector(2, 1, 3, MPI_INT, &type);
    MPI_Type_commit(&type);
    const int own = rank == 0 || turn % 4 > 0, before = turn % 2;
    if (own && before) MPI_Type_set_attr(type, keyval, NULL);
    if (turn % 3 > 0) MPI_Bcast(data, 1, type, 0, MPI_COMM_WORLD);
    if (own && !before) MPI_Type_set_attr(type, keyval, NULL);
    if (!own) {
      MPI_Bcast(ints, 2, MPI_INT, 0, MPI_COMM_WORLD);
      demand(ints[0] == 0 && ints[1] == 3, "two ints");
    }
    MPI_Type_free(&type);
    demand(type == MPI_DATATYPE_NULL, "a handle of none");
    expected += own;
  }
  demand(deletions == expected, "every attribute deleted");
  MPI_Type_free_keyval(&keyval);
}

/* The same with a message of the type in flight: MPICH deletes its attributes when that has ended.
 */
static int use_late(MPI_Datatype type, int keyval, void* attribute, void* extra) {
  (void)keyval, (void)attribute, (void)extra;
  int data[6], two[2] = {-1, -1};
  for (int i = 0; i < 6; ++i) data[i] = i;
  late_deletions += !in_free;
  MPI_Gather(data, 1, type, two, 2, MPI_INT, 0, MPI_COMM_SELF);
  demand(two[0] == 0 && two[1] == 3, "every third int of a type that is deleted late");
  MPI_Bcast(data, 1, type, 0, MPI_COMM_SELF);
  ++deletions;
  return MPI_SUCCESS;
}
static void freed_types_late(void) {
  enum { count = 1 << 16 };
  static int in[2 * count], out[6 * count];
  int keyvals[3], data[6] = {0};
  for (int k = 0; k < 3; ++k)
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, use_late, &keyvals[k], NULL);
  for (int turn = 0; turn < 60; ++turn) {
    MPI_Datatype type;
    MPI_Request requests[2];
    MPI_Type_vector(2, 1, 3, MPI_INT, &type);
    MPI_Type_commit(&type);
    for (int k = 0; k < turn % 4; ++k) MPI_Type_set_attr(type, keyvals[k], NULL);
    if (turn % 3 > 0) MPI_Bcast(data, 1, type, 0, MPI_COMM_WORLD);
    for (int k = turn % 4; k < 3; ++k) MPI_Type_set_attr(type, keyvals[k], NULL);
    MPI_Irecv(in, 2 * count, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, count, type, (rank + 1) % size, 0, MPI_COMM_WORLD, &requests[1]);
    in_free = 1;
    MPI_Type_free(&type);
    in_free = 0;
    if (turn % 2 > 0) {
      MPI_Barrier(MPI_COMM_WORLD);
      sum_of_ranks(MPI_COMM_WORLD);
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    demand(deletions == 3 * (turn + 1), "every attribute deleted");
  }
#if !defined(OPEN_MPI) && !defined(I_MPI_VERSION) /* which delete them in MPI_Type_free */
  demand(late_deletions > 0, "late deletions");
#endif
  for (int k = 0; k < 3; ++k) MPI_Type_free_keyval(&keyvals[k]);
}

/* Rank 0's other thread frees a type and an operator that a call of rank 0 uses, once rank 1 has
 * ended that call: MPI has it complete normally. */
static MPI_Datatype type_in_use;
static MPI_Op op_in_use;
static MPI_Comm between_ranks;
static atomic_int in_call, freed_in_call;
static void add_slowly(void* in, void* all, int* count, MPI_Datatype* type) {
  (void)type;
  if (rank == 0) usleep(2000);
  for (int i = 0; i < *count; ++i) ((int*)all)[i] += ((int*)in)[i];
}
static void* free_in_use(void* unused) {
  int turn = 0;
  MPI_Recv(&turn, 1, MPI_INT, 1, 0, between_ranks, MPI_STATUS_IGNORE);
  freed_in_call += in_call;
  if (turn % 2 == 0)
    MPI_Type_free(&type_in_use);
  else
    MPI_Op_free(&op_in_use);
  demand(turn % 2 == 0 ? type_in_use == MPI_DATATYPE_NULL : op_in_use == MPI_OP_NULL,
         "a handle of none");
  return unused;
}
static void freed_in_use(void) {
  enum { count = 1 << 19, few = 500 };
  int* const in = malloc(count * sizeof(int));
  int* const out = malloc((size_t)size * count * 2 * sizeof(int));
  MPI_Comm_dup(MPI_COMM_WORLD, &between_ranks);
  for (int turn = 0; turn < 12; ++turn) {
    pthread_t other;
    for (int i = 0; i < count; ++i) in[i] = rank * 1000 + i + turn;
    if (turn % 2 > 0)
      MPI_Op_create(add_slowly, 1, &op_in_use);
    else if (rank == 0) { /* the other ranks gather ints without gaps */
      MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &type_in_use);
      MPI_Type_commit(&type_in_use);
    }
    if (rank == 0) pthread_create(&other, NULL, free_in_use, NULL);
    in_call = 1;
    if (turn % 2 > 0)
      MPI_Reduce_scatter_block(in, out, few, MPI_INT, op_in_use, MPI_COMM_WORLD);
    else
      MPI_Allgather(in, count, MPI_INT, out, count, rank == 0 ? type_in_use : MPI_INT,
                    MPI_COMM_WORLD);
    in_call = 0;
    if (rank == 1) MPI_Send(&turn, 1, MPI_INT, 0, 0, between_ranks);
    if (rank == 0)
      pthread_join(other, NULL);
    else if (turn % 2 > 0)
      MPI_Op_free(&op_in_use);
    const int gap = rank == 0 ? 2 : 1;
    for (int i = 0; turn % 2 > 0 && i < few; ++i)
      demand(out[i] == size * (size - 1) / 2 * 1000 + size * (rank * few + i + turn), "a sum");
    for (int from = 0; turn % 2 == 0 && from < size; ++from) {
      for (int i = 0; i < count; ++i)
        demand(out[(size_t)gap * ((size_t)from * count + (size_t)i)] == from * 1000 + i + turn,
               "a rank's ints");
    }
  }
  demand(rank != 0 || freed_in_call > 0, "something freed in a call");
  free(in);
  free(out);
}

/* While a call waits, the MPI may call functions that delete attributes, which may call as well. */
static MPI_Op of_nested;
static int nested;
static void greatest(void* in, void* all, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *count; ++i)
    if (((int*)in)[i] > ((int*)all)[i]) ((int*)all)[i] = ((int*)in)[i];
}
static void scan_nested(void) {
  int seven = 7, same = 0;
  while_waiting = NULL;
  MPI_Scan(&seven, &same, 1, MPI_INT, of_nested, MPI_COMM_SELF);
  while_waiting = scan_nested;
  demand(same == 7, "a nested scan of one rank");
  ++nested;
}
static void nested_operators(void) {
  enum { count = 1000 };
  MPI_Op sum;
  int in[count], all[count];
  MPI_Op_create(add_slowly, 1, &sum);
  MPI_Op_create(greatest, 1, &of_nested);
  for (int turn = 0; turn < 8; ++turn) {
    for (int i = 0; i < count; ++i) in[i] = rank + i + turn;
    if (turn % size == rank) usleep(50000);
    while_waiting = scan_nested;
    MPI_Allreduce(in, all, count, MPI_INT, sum, MPI_COMM_WORLD);
    while_waiting = NULL;
    for (int i = 0; i < count; ++i)
      demand(all[i] == size * (size - 1) / 2 + size * (i + turn), "a sum around a nested scan");
  }
  demand(nested > 0, "a nested scan");
  MPI_Op_free(&sum);
  MPI_Op_free(&of_nested);
}

/* What was completed before a barrier is seen by the first MPI_Win_test after it. */
static void win_test(void) {
  int memory = 0, flag = 0;
  const int zero = 0;
  MPI_Win win;
  MPI_Group all, group;
  MPI_Win_create(&memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Win_get_group(win, &all);
  for (int turn = 0; turn < 50; ++turn) {
    if (rank == 0) {
      MPI_Group_excl(all, 1, &zero, &group);
      MPI_Win_start(group, 0, win);
      MPI_Barrier(MPI_COMM_WORLD);
      MPI_Win_complete(win);
      MPI_Barrier(MPI_COMM_WORLD);
    } else {
      MPI_Group_incl(all, 1, &zero, &group);
      MPI_Win_post(group, 0, win);
      MPI_Win_test(win, &flag);
      demand(!flag, "not completed yet");
      MPI_Barrier(MPI_COMM_WORLD);
      MPI_Barrier(MPI_COMM_WORLD);
      MPI_Win_test(win, &flag);
      demand(flag, "completed before the barrier");
    }
    MPI_Group_free(&group);
  }
  MPI_Group_free(&all);
  MPI_Win_free(&win);
}

static int provided; /* by MPI_Init_thread */

/* Each of MPI's levels is given as the host gives it, and served. */
static void level_served(void) {
  int level = -1, sum = 0;
  const int one = 1;
  MPI_Query_thread(&level);
  demand(level == provided, "the level that MPI_Init_thread has given");
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  demand(sum == size, "a sum at this level");
}

/* One call of 8 B, over and over: prints nanoseconds. */
static void loop(void) {
  double x = rank + 1, y = 0;
  const int turns = 200000;
  for (int i = 0; i < 1000; ++i) MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  const double begun = MPI_Wtime();
  for (int i = 0; i < turns; ++i) MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%.1f ns\n", (MPI_Wtime() - begun) / turns * 1e9);
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*run)(void);
    int level;
    int level_of_others; /* than rank 0; 0: the same */
  } situations[] = {
    {"pending-send", pending_send, MPI_THREAD_SINGLE},
    {"errors", errors, MPI_THREAD_MULTIPLE}, /* MPI_COMM_WORLD goes on after one */
    {"overlap", overlap, MPI_THREAD_SINGLE},
    {"threads", threads, MPI_THREAD_MULTIPLE},
    {"single", level_served, MPI_THREAD_SINGLE},
    {"funneled", level_served, MPI_THREAD_FUNNELED},
    {"serialized", level_served, MPI_THREAD_SERIALIZED},
    {"multiple", level_served, MPI_THREAD_MULTIPLE},
    {"crossed", crossed, MPI_THREAD_MULTIPLE},
    {"crossed-with-single", crossed, MPI_THREAD_MULTIPLE, MPI_THREAD_SINGLE},
    {"types", types, MPI_THREAD_MULTIPLE},
    {"large-element", large_element, MPI_THREAD_SINGLE},
    {"huge-element", huge_element, MPI_THREAD_SINGLE},
    {"killed", killed, MPI_THREAD_SINGLE},
    {"many-comms", many_comms, MPI_THREAD_MULTIPLE},
    {"duplicates", duplicates, MPI_THREAD_SERIALIZED},
    {"first-threaded", few_duplicates, MPI_THREAD_MULTIPLE, MPI_THREAD_SERIALIZED},
    {"others-threaded", few_duplicates, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE},
    {"created", created, MPI_THREAD_SERIALIZED},
    {"few-calls", few_calls, MPI_THREAD_SINGLE},
    {"requests", requests, MPI_THREAD_SINGLE},
    {"requests-carried", requests, MPI_THREAD_MULTIPLE},
    {"requests-of-one", requests, MPI_THREAD_MULTIPLE, MPI_THREAD_SERIALIZED},
    {"nonblocking", nonblocking, MPI_THREAD_MULTIPLE},
    {"moved-on", moved_on, MPI_THREAD_MULTIPLE},
    {"moved-on-late", moved_on_late, MPI_THREAD_MULTIPLE},
    {"interleaved", interleaved, MPI_THREAD_MULTIPLE},
    {"passed", passed, MPI_THREAD_MULTIPLE},
    {"pending-send-any", pending_send_any, MPI_THREAD_MULTIPLE},
    {"nonblocking-errors", nonblocking_errors, MPI_THREAD_MULTIPLE},
    {"killed-nonblocking", killed_nonblocking, MPI_THREAD_MULTIPLE},
#if MPI_VERSION >= 4 || defined(OPEN_MPI)
    {"persistent", persistent, MPI_THREAD_SINGLE},
    {"persistent-threaded", persistent, MPI_THREAD_MULTIPLE},
#endif
#ifdef WITH_SESSIONS
    {"sessions", sessions, MPI_THREAD_SINGLE},
    {"sessions-alone", sessions_alone, -1}, /* without MPI_Init */
#endif
#if MPI_VERSION >= 4
    {"large-count", large_count, MPI_THREAD_SINGLE},
#endif
    {"missing", missing, MPI_THREAD_SINGLE},
    {"freed", freed, MPI_THREAD_SINGLE},
    {"freed-late", freed_late, MPI_THREAD_SINGLE},
    {"freed-by-threads", freed_by_threads, MPI_THREAD_MULTIPLE},
    {"freed-at-once", freed_at_once, MPI_THREAD_MULTIPLE},
    {"finalize", finalize, MPI_THREAD_SINGLE},
    {"not-freed", not_freed, MPI_THREAD_SINGLE},
    {"freed-types", freed_types, MPI_THREAD_SINGLE},
    {"freed-types-late", freed_types_late, MPI_THREAD_SINGLE},
    {"freed-in-use", freed_in_use, MPI_THREAD_MULTIPLE},
    {"nested-operators", nested_operators, MPI_THREAD_SINGLE},
    {"late", late, MPI_THREAD_SINGLE},
    {"first-call", first_call, MPI_THREAD_SINGLE},
    {"failed-gathers", failed_gathers, MPI_THREAD_SINGLE},
    {"win-test", win_test, MPI_THREAD_SINGLE},
    {"loop", loop, MPI_THREAD_SINGLE},
    {"short-lived", short_lived, MPI_THREAD_SINGLE},
    {"none", NULL, MPI_THREAD_MULTIPLE}
  };
  const int n = sizeof situations / sizeof situations[0];
  int which = n - 1;
  for (int i = 0; i < n && argc > 1; ++i) {
    if (strcmp(argv[1], situations[i].name) == 0) which = i;
  }
  /* An MPI besides, as a plugin of the program's brings one. */
  if (argc > 2 && dlopen(argv[2], RTLD_LAZY | RTLD_LOCAL) == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 4;
  }
  if (situations[which].level < 0) {
    situations[which].run();
    return 0;
  }
  const char* const of_launcher = getenv(getenv("PMI_RANK") ? "PMI_RANK" : "OMPI_COMM_WORLD_RANK");
  int level = situations[which].level;
  if (situations[which].level_of_others != 0 && of_launcher != NULL && atoi(of_launcher) != 0) {
    level = situations[which].level_of_others;
  }
  MPI_Init_thread(&argc, &argv, level, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (situations[which].run != NULL) situations[which].run();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("done\n");
  MPI_Finalize();
  return 0;
}
