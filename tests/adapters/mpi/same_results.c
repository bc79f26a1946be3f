/* Every collective by MPI_X, which the interposer takes, and by PMPI_X, which is the host's, with
 * the same input: the same result, byte by byte. `all`: of every type. All values are small
 * integers, so that sums are exact in any order. With -DNONBLOCKING by MPI_IX, whose requests end
 * in every way that MPI has, beside a message's. */
#include <limits.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The forms of MPI 4, whose counts are MPI_Count. */
#ifdef LARGE
typedef MPI_Count count_of;
typedef MPI_Aint place_of;
#else
typedef int count_of, place_of;
#endif
#if defined(NONBLOCKING) && defined(LARGE)
#define CALL(name, lower, ...) ended(MPI_I##lower##_c(__VA_ARGS__, &begun))
#elif defined(NONBLOCKING)
#define CALL(name, lower, ...) ended(MPI_I##lower(__VA_ARGS__, &begun))
#elif defined(LARGE)
#define CALL(name, lower, ...) MPI_##name##_c(__VA_ARGS__)
#endif
#ifdef CALL
#define MPI_Allreduce(...) CALL(Allreduce, allreduce, __VA_ARGS__)
#define MPI_Reduce(...) CALL(Reduce, reduce, __VA_ARGS__)
#define MPI_Scan(...) CALL(Scan, scan, __VA_ARGS__)
#define MPI_Exscan(...) CALL(Exscan, exscan, __VA_ARGS__)
#define MPI_Reduce_scatter_block(...) CALL(Reduce_scatter_block, reduce_scatter_block, __VA_ARGS__)
#define MPI_Reduce_scatter(...) CALL(Reduce_scatter, reduce_scatter, __VA_ARGS__)
#define MPI_Bcast(...) CALL(Bcast, bcast, __VA_ARGS__)
#define MPI_Allgather(...) CALL(Allgather, allgather, __VA_ARGS__)
#define MPI_Gather(...) CALL(Gather, gather, __VA_ARGS__)
#define MPI_Scatter(...) CALL(Scatter, scatter, __VA_ARGS__)
#define MPI_Alltoall(...) CALL(Alltoall, alltoall, __VA_ARGS__)
#define MPI_Allgatherv(...) CALL(Allgatherv, allgatherv, __VA_ARGS__)
#define MPI_Gatherv(...) CALL(Gatherv, gatherv, __VA_ARGS__)
#define MPI_Scatterv(...) CALL(Scatterv, scatterv, __VA_ARGS__)
#define MPI_Alltoallv(...) CALL(Alltoallv, alltoallv, __VA_ARGS__)
#endif
#ifdef LARGE
#define PMPI_Reduce_scatter PMPI_Reduce_scatter_c
#define PMPI_Allgatherv PMPI_Allgatherv_c
#define PMPI_Gatherv PMPI_Gatherv_c
#define PMPI_Scatterv PMPI_Scatterv_c
#define PMPI_Alltoallv PMPI_Alltoallv_c
#endif

static int world_rank, every_type;
static long compared, wrong;
static const char* on = "";

static void same(const char* what, const void* a, const void* b, size_t bytes) {
  ++compared;
  if (memcmp(a, b, bytes) == 0) return;
  ++wrong;
  if (wrong < 10) printf("rank %d: %s on %s differs (%zu bytes)\n", world_rank, what, on, bytes);
}

#ifdef NONBLOCKING
static MPI_Request begun;
/* Ends the request in one way after another, other ranks in others. */
static int ended(int code) {
  static int turn;
  const int way = (turn++ + 5 * world_rank) % 9;
  int done = 0, index = 0, several[2], sent = turn, got = -1;
  MPI_Request all[2] = {begun, MPI_REQUEST_NULL};
  MPI_Status statuses[2];
  if (way >= 6) {
    MPI_Request send;
    MPI_Irecv(&got, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &all[1]);
    MPI_Isend(&sent, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &send);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
  }
  switch (way) {
    case 0:
      MPI_Wait(&all[0], MPI_STATUS_IGNORE);
      break;
    case 1: /* without a call meanwhile: a thread of the interposer makes it */
      usleep(300);
      MPI_Wait(&all[0], MPI_STATUS_IGNORE);
      break;
    case 2:
      while (!done) MPI_Test(&all[0], &done, MPI_STATUS_IGNORE);
      break;
    case 3:
      while (!done) MPI_Testany(1, all, &index, &done, MPI_STATUS_IGNORE);
      break;
    case 4:
      while (!done) MPI_Testsome(1, all, &done, several, statuses);
      break;
    case 5:
      while (!done) MPI_Request_get_status(all[0], &done, MPI_STATUS_IGNORE);
      MPI_Wait(&all[0], MPI_STATUS_IGNORE);
      break;
    case 6:
      MPI_Waitall(2, all, statuses);
      break;
    case 7:
      for (int i = 0; i < 2; ++i) MPI_Waitany(2, all, &index, MPI_STATUS_IGNORE);
      break;
    default:
      for (int left = 2; left > 0; left -= done) MPI_Waitsome(2, all, &done, several, statuses);
  }
  if (all[0] != MPI_REQUEST_NULL || all[1] != MPI_REQUEST_NULL || (way >= 6 && got != sent)) {
    ++wrong;
    printf("rank %d: a request has not ended, or a message is wrong\n", world_rank);
  }
  return code;
}
#endif

/* ---- values of every type */
typedef struct {
  const char* name;
  MPI_Datatype type;
  size_t bytes;
  char kind;
} type_info;
static type_info types[64];
static int n_types;
static void add_type(const char* name, MPI_Datatype type, char kind) {
  MPI_Aint low, extent;
  if (type == MPI_DATATYPE_NULL) return;
  MPI_Type_get_extent(type, &low, &extent);
  types[n_types++] = (type_info){name, type, (size_t)extent, kind};
}
/* kind: i(nteger), u(nsigned), f(loat), c(omplex), l(ogical), b(yte), and pairs F D L I S G */
#define T(type, kind) add_type(#type, type, kind)

static void put(char* at, const type_info* t, int v) {
  memset(at, 0, t->bytes);
  switch (t->kind) {
    case 'i':
    case 'u':
    case 'b': {
      const long long x = v;
      memcpy(at, &x, t->bytes);
    } break;
    case 'l': {
      const long long x = v % 2;
      memcpy(at, &x, t->bytes);
    } break;
    case 'f':
      if (t->bytes == 4)
        *(float*)at = (float)v;
      else if (t->bytes == 8)
        *(double*)at = v;
      else
        *(long double*)at = v;
      break;
    case 'c':
      if (t->bytes == 8) {
        ((float*)at)[0] = (float)v;
        ((float*)at)[1] = 1;
      } else if (t->bytes == 16) {
        ((double*)at)[0] = v;
        ((double*)at)[1] = 1;
      } else {
        ((long double*)at)[0] = v;
        ((long double*)at)[1] = 1;
      }
      break;
    case 'F':
      *(float*)at = (float)(v % 3);
      *(int*)(at + 4) = v;
      break;
    case 'D':
      *(double*)at = v % 3;
      *(int*)(at + 8) = v;
      break;
    case 'L':
      *(long*)at = v % 3;
      *(int*)(at + 8) = v;
      break;
    case 'I':
      *(int*)at = v % 3;
      *(int*)(at + 4) = v;
      break;
    case 'S':
      *(short*)at = (short)(v % 3);
      *(int*)(at + 4) = v;
      break;
    case 'G':
      *(long double*)at = v % 3;
      *(int*)(at + 16) = v;
      break;
  }
}
static int is_defined(char op, char kind) {
  switch (op) {
    case '+':
    case '*':
      return strchr("iufc", kind) != NULL;
    case '<':
    case '>':
      return strchr("iuf", kind) != NULL;
    case 'L':
      return strchr("iul", kind) != NULL;
    case 'B':
      return strchr("iub", kind) != NULL;
    case '@':
      return strchr("FDLISG", kind) != NULL;
  }
  return 0;
}
/* The ten bytes of a long double, and pairs without their gaps. */
static void clean(char* v, const type_info* t, size_t count) {
  for (size_t i = 0; i < count; ++i, v += t->bytes) {
    if (t->kind == 'f' && t->bytes == 16) memset(v + 10, 0, 6);
    if (t->kind == 'c' && t->bytes == 32) {
      memset(v + 10, 0, 6);
      memset(v + 26, 0, 6);
    }
    if (t->kind == 'S') memset(v + 2, 0, 2);
    if (t->kind == 'D' || t->kind == 'L') memset(v + 12, 0, 4);
    if (t->kind == 'G') {
      memset(v + 10, 0, 6);
      memset(v + 20, 0, 12);
    }
  }
}

static int is_quick(const char* name) {
  static const char* const quick[] = {"MPI_INT",    "MPI_DOUBLE", "MPI_LONG_DOUBLE",
                                      "MPI_C_BOOL", "MPI_BYTE",   "MPI_DOUBLE_INT"};
  for (size_t i = 0; i < sizeof quick / sizeof quick[0]; ++i) {
    if (strcmp(name, quick[i]) == 0) return 1;
  }
  return 0;
}

static void reductions(MPI_Comm comm) {
  static const struct {
    const char* name;
    char kind;
  } op_kinds[] = {{"sum", '+'},  {"prod", '*'}, {"min", '<'},    {"max", '>'},
                  {"land", 'L'}, {"lor", 'L'},  {"lxor", 'L'},   {"band", 'B'},
                  {"bor", 'B'},  {"bxor", 'B'}, {"minloc", '@'}, {"maxloc", '@'}};
  const MPI_Op ops[] = {MPI_SUM,  MPI_PROD, MPI_MIN, MPI_MAX,  MPI_LAND,   MPI_LOR,
                        MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_MINLOC, MPI_MAXLOC};
  int rank, n;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &n);
  count_of* counts = malloc((size_t)n * sizeof(count_of));
  for (int t = 0; t < n_types; ++t) {
    if (!every_type && !is_quick(types[t].name)) continue;
    for (int o = 0; o < 12; ++o) {
      if (!is_defined(op_kinds[o].kind, types[t].kind)) continue;
      for (int c = 0; c < 2; ++c) {
        const int count = (int[]){1, 300}[c];
        const size_t each = (size_t)count * types[t].bytes, all = each * (size_t)n;
        char what[128];
        char *in = malloc(all), *a = malloc(all), *b = malloc(all);
        for (int i = 0; i < count * n; ++i)
          put(in + (size_t)i * types[t].bytes, &types[t],
              op_kinds[o].kind == 'L' ? (rank + i) % 2
                                      : (rank * 3 + i) % 4 + (op_kinds[o].kind == '*' ? 0 : 1));
#define COMPARE(label, span, X, P)                                                           \
  snprintf(what, sizeof what, "%s %s %s %d", label, types[t].name, op_kinds[o].name, count); \
  memset(a, 0, all);                                                                         \
  memset(b, 0, all);                                                                         \
  X;                                                                                         \
  P;                                                                                         \
  clean(a, &types[t], (span) / types[t].bytes);                                              \
  clean(b, &types[t], (span) / types[t].bytes);                                              \
  same(what, a, b, span)
#define ALSO_IN_PLACE(label, span, given, X, P)                                               \
  snprintf(what, sizeof what, "%s in place %s %s %d", label, types[t].name, op_kinds[o].name, \
           count);                                                                            \
  memcpy(a, in, given);                                                                       \
  memcpy(b, in, given);                                                                       \
  X;                                                                                          \
  P;                                                                                          \
  clean(a, &types[t], (span) / types[t].bytes);                                               \
  clean(b, &types[t], (span) / types[t].bytes);                                               \
  same(what, a, b, span)
        const MPI_Datatype type = types[t].type;
        const MPI_Op op = ops[o];
        COMPARE("allreduce", each, MPI_Allreduce(in, a, count, type, op, comm),
                PMPI_Allreduce(in, b, count, type, op, comm));
        ALSO_IN_PLACE("allreduce", each, each,
                      MPI_Allreduce(MPI_IN_PLACE, a, count, type, op, comm),
                      PMPI_Allreduce(MPI_IN_PLACE, b, count, type, op, comm));
        const int root = (t + o) % n;
        COMPARE("reduce", rank == root ? each : 0, MPI_Reduce(in, a, count, type, op, root, comm),
                PMPI_Reduce(in, b, count, type, op, root, comm));
        ALSO_IN_PLACE("reduce", rank == root ? each : 0, each,
                      MPI_Reduce(rank == root ? MPI_IN_PLACE : in, rank == root ? a : NULL, count,
                                 type, op, root, comm),
                      /* MPICH 4.0.2 dereferences its MPI_IN_PLACE where rank 1 wants pairs */
                      PMPI_Reduce(in, b, count, type, op, root, comm));
        COMPARE("scan", each, MPI_Scan(in, a, count, type, op, comm),
                PMPI_Scan(in, b, count, type, op, comm));
        ALSO_IN_PLACE("scan", each, each, MPI_Scan(MPI_IN_PLACE, a, count, type, op, comm),
                      PMPI_Scan(MPI_IN_PLACE, b, count, type, op, comm));
        COMPARE("exscan", rank > 0 ? each : 0, MPI_Exscan(in, a, count, type, op, comm),
                PMPI_Exscan(in, b, count, type, op, comm));
        ALSO_IN_PLACE("exscan", rank > 0 ? each : 0, each,
                      MPI_Exscan(MPI_IN_PLACE, a, count, type, op, comm),
                      PMPI_Exscan(MPI_IN_PLACE, b, count, type, op, comm));
        COMPARE("reduce_scatter_block", each,
                MPI_Reduce_scatter_block(in, a, count, type, op, comm),
                PMPI_Reduce_scatter_block(in, b, count, type, op, comm));
        ALSO_IN_PLACE("reduce_scatter_block", each, all,
                      MPI_Reduce_scatter_block(MPI_IN_PLACE, a, count, type, op, comm),
                      PMPI_Reduce_scatter_block(MPI_IN_PLACE, b, count, type, op, comm));
        for (int i = 0; i < n; ++i) counts[i] = (i * 5) % (count + 1);
        const size_t mine = (size_t)counts[rank] * types[t].bytes;
        COMPARE("reduce_scatter", mine, MPI_Reduce_scatter(in, a, counts, type, op, comm),
                PMPI_Reduce_scatter(in, b, counts, type, op, comm));
        ALSO_IN_PLACE("reduce_scatter", mine, all,
                      MPI_Reduce_scatter(MPI_IN_PLACE, a, counts, type, op, comm),
                      PMPI_Reduce_scatter(MPI_IN_PLACE, b, counts, type, op, comm));
        free(in);
        free(a);
        free(b);
      }
    }
  }
  free(counts);
}

/* ---- the program's operators: products of 2 by 2 matrices, which do not commute */
static void multiply(void* in, void* inout, int* count, MPI_Datatype* type) {
  const int* x = in;
  int* y = inout;
  (void)type;
  for (int i = 0; i < *count; ++i, x += 4, y += 4) {
    const int z[4] = {(x[0] * y[0] + x[1] * y[2]) % 97, (x[0] * y[1] + x[1] * y[3]) % 97,
                      (x[2] * y[0] + x[3] * y[2]) % 97, (x[2] * y[1] + x[3] * y[3]) % 97};
    memcpy(y, z, sizeof z);
  }
}
static void add_ints(void* in, void* inout, int* count, MPI_Datatype* type) {
  if (*type != MPI_INT) abort(); /* the type is the one of the call */
  for (int i = 0; i < *count; ++i) ((int*)inout)[i] += ((int*)in)[i];
}
static void user_operators(MPI_Comm comm) {
  int rank, n;
  MPI_Op product, sum;
  MPI_Datatype matrix;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &n);
  MPI_Op_create(multiply, 0, &product);
  MPI_Op_create(add_ints, 1, &sum);
  MPI_Type_contiguous(4, MPI_INT, &matrix);
  MPI_Type_commit(&matrix);
  for (int c = 0; c < 3; ++c) {
    const int count = (int[]){1, 9, 500}[c];
    const size_t bytes = (size_t)count * 16;
    char *in = malloc(bytes), *a = malloc(bytes), *b = malloc(bytes);
    for (int i = 0; i < count * 4; ++i) ((int*)in)[i] = (rank * 7 + i * 3) % 11 + 1;
#define OP(name, compared_bytes, X, P) \
  memset(a, 0, bytes);                 \
  memset(b, 0, bytes);                 \
  X;                                   \
  P;                                   \
  same(name " by the program's operator", a, b, compared_bytes)
    OP("allreduce", bytes, MPI_Allreduce(in, a, count, matrix, product, comm),
       PMPI_Allreduce(in, b, count, matrix, product, comm));
    OP("reduce", rank == n - 1 ? bytes : 0, MPI_Reduce(in, a, count, matrix, product, n - 1, comm),
       PMPI_Reduce(in, b, count, matrix, product, n - 1, comm));
    OP("scan", bytes, MPI_Scan(in, a, count, matrix, product, comm),
       PMPI_Scan(in, b, count, matrix, product, comm));
    OP("exscan", rank > 0 ? bytes : 0, MPI_Exscan(in, a, count, matrix, product, comm),
       PMPI_Exscan(in, b, count, matrix, product, comm));
    OP("allreduce", bytes, MPI_Allreduce(in, a, count * 4, MPI_INT, sum, comm),
       PMPI_Allreduce(in, b, count * 4, MPI_INT, sum, comm));
    free(in);
    free(a);
    free(b);
  }
  MPI_Op_free(&product);
  MPI_Op_free(&sum);
  MPI_Type_free(&matrix);
}

/* ---- movement: the same 60 ints, by different types on different ranks */
enum { ints = 60 };
static MPI_Datatype shapes[6];
static int shape_counts[6];
static void make_shapes(void) {
  shapes[0] = MPI_INT, shape_counts[0] = ints;
  MPI_Type_contiguous(6, MPI_INT, &shapes[1]), shape_counts[1] = 10;
  MPI_Type_vector(5, 2, 3, MPI_INT, &shapes[2]), shape_counts[2] = 6;
  int lengths[3] = {1, 2, 1}, places[3] = {4, 0, 2}; /* out of order, without gaps at the end */
  MPI_Type_indexed(3, lengths, places, MPI_INT, &shapes[3]), shape_counts[3] = 15;
  MPI_Type_create_resized(MPI_INT, 0, 12, &shapes[4]), shape_counts[4] = ints;
  int order[2] = {1, 0}, ones[2] = {1, 1}; /* as large as its extent, but turned round */
  MPI_Type_indexed(2, ones, order, MPI_INT, &shapes[5]), shape_counts[5] = 30;
  for (int i = 1; i < 6; ++i) MPI_Type_commit(&shapes[i]);
}
/* Types of addresses, at MPI_BOTTOM: every other int of an array. */
static MPI_Datatype addressed(const int* data) {
  MPI_Aint places[ints];
  int lengths[ints];
  MPI_Datatype type;
  for (int i = 0; i < ints; ++i) lengths[i] = 1, MPI_Get_address(data + 2 * i, &places[i]);
  MPI_Type_create_hindexed(ints, lengths, places, MPI_INT, &type);
  MPI_Type_commit(&type);
  return type;
}
static void bottom(MPI_Comm comm) {
  static int in[2 * ints], a[2 * ints], b[2 * ints];
  int rank;
  MPI_Comm_rank(comm, &rank);
  for (int i = 0; i < 2 * ints; ++i) in[i] = a[i] = b[i] = 1000 * rank + i;
  MPI_Datatype of_in = addressed(in), of_a = addressed(a), of_b = addressed(b);
  MPI_Bcast(MPI_BOTTOM, 1, of_a, 0, comm);
  PMPI_Bcast(MPI_BOTTOM, 1, of_b, 0, comm);
  same("bcast at MPI_BOTTOM", a, b, sizeof a);
  int all[8 * ints], host[8 * ints], n;
  MPI_Comm_size(comm, &n);
  if (n <= 8) {
    MPI_Gather(MPI_BOTTOM, 1, of_in, all, ints, MPI_INT, 0, comm);
    PMPI_Gather(MPI_BOTTOM, 1, of_in, host, ints, MPI_INT, 0, comm);
    if (rank == 0) same("gather from MPI_BOTTOM", all, host, sizeof(int) * (size_t)(n * ints));
  }
  MPI_Type_free(&of_in);
  MPI_Type_free(&of_a);
  MPI_Type_free(&of_b);
}
static void movements(MPI_Comm comm) {
  int rank, n;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &n);
  const size_t room = (size_t)ints * 4 * 4 * (size_t)n + 64;
  char *in = malloc(room), *a = malloc(room), *b = malloc(room);
  count_of *counts = malloc(sizeof(count_of) * (size_t)n),
           *counts2 = malloc(sizeof(count_of) * (size_t)n);
  place_of *places = malloc(sizeof(place_of) * (size_t)n),
           *places2 = malloc(sizeof(place_of) * (size_t)n);
#define FILL                                    \
  for (size_t i = 0; i < room; ++i) {           \
    in[i] = (char)(i * 7 + (size_t)rank * 13);  \
    a[i] = b[i] = (char)(i * 3 + (size_t)rank); \
  }
#define MOVE(name, X, P)                                           \
  FILL;                                                            \
  X;                                                               \
  P;                                                               \
  snprintf(what, sizeof what, "%s, shapes %d and %d", name, f, g); \
  same(what, a, b, room)
  char what[128];
  for (int f0 = 0; f0 < 6; ++f0) {
    for (int g0 = 0; g0 < 6; ++g0) {
      /* other shapes on other ranks */
      const int f = (f0 + rank) % 6, g = (g0 + 2 * rank) % 6, root = (f0 + g0) % n;
      const MPI_Datatype ft = shapes[f], gt = shapes[g];
      const int fc = shape_counts[f], gc = shape_counts[g];
      MOVE("bcast", MPI_Bcast(a, fc, ft, root, comm), PMPI_Bcast(b, fc, ft, root, comm));
      MOVE("allgather", MPI_Allgather(in, fc, ft, a, gc, gt, comm),
           PMPI_Allgather(in, fc, ft, b, gc, gt, comm));
      MOVE("allgather in place", MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, a, gc, gt, comm),
           PMPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, gc, gt, comm));
      MOVE("gather", MPI_Gather(in, fc, ft, a, gc, gt, root, comm),
           PMPI_Gather(in, fc, ft, b, gc, gt, root, comm));
      MOVE("gather in place",
           MPI_Gather(rank == root ? MPI_IN_PLACE : in, fc, ft, rank == root ? a : NULL, gc, gt,
                      root, comm),
           PMPI_Gather(rank == root ? MPI_IN_PLACE : in, fc, ft, rank == root ? b : NULL, gc, gt,
                       root, comm));
      MOVE("scatter", MPI_Scatter(in, fc, ft, a, gc, gt, root, comm),
           PMPI_Scatter(in, fc, ft, b, gc, gt, root, comm));
      MOVE("scatter in place",
           MPI_Scatter(in, fc, ft, rank == root ? MPI_IN_PLACE : a, gc, gt, root, comm),
           PMPI_Scatter(in, fc, ft, rank == root ? MPI_IN_PLACE : b, gc, gt, root, comm));
      MOVE("alltoall", MPI_Alltoall(in, fc, ft, a, gc, gt, comm),
           PMPI_Alltoall(in, fc, ft, b, gc, gt, comm));
      MOVE("alltoall in place", MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, a, gc, gt, comm),
           PMPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, gc, gt, comm));
      /* blocks of different lengths, in descending places: rank i's is empty or the 60 ints */
      for (int i = 0; i < n; ++i) {
        counts[i] = (i % 3 != 0) * gc, places[i] = (n - 1 - i) * gc;
        counts2[i] = (i % 3 != 0) * fc, places2[i] = (n - 1 - i) * fc;
      }
      MOVE("allgatherv", MPI_Allgatherv(in, counts2[rank], ft, a, counts, places, gt, comm),
           PMPI_Allgatherv(in, counts2[rank], ft, b, counts, places, gt, comm));
      MOVE("allgatherv in place",
           MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, a, counts, places, gt, comm),
           PMPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, counts, places, gt, comm));
      MOVE("gatherv", MPI_Gatherv(in, counts2[rank], ft, a, counts, places, gt, root, comm),
           PMPI_Gatherv(in, counts2[rank], ft, b, counts, places, gt, root, comm));
      MOVE("gatherv in place",
           MPI_Gatherv(rank == root ? MPI_IN_PLACE : in, counts2[rank], ft, rank == root ? a : NULL,
                       counts, places, gt, root, comm),
           PMPI_Gatherv(rank == root ? MPI_IN_PLACE : in, counts2[rank], ft,
                        rank == root ? b : NULL, counts, places, gt, root, comm));
      MOVE("scatterv", MPI_Scatterv(in, counts2, places2, ft, a, counts[rank], gt, root, comm),
           PMPI_Scatterv(in, counts2, places2, ft, b, counts[rank], gt, root, comm));
      MOVE("scatterv in place",
           MPI_Scatterv(in, counts2, places2, ft, rank == root ? MPI_IN_PLACE : a, counts[rank], gt,
                        root, comm),
           PMPI_Scatterv(in, counts2, places2, ft, rank == root ? MPI_IN_PLACE : b, counts[rank],
                         gt, root, comm));
      /* from rank i to rank j as much as both say: by (i + j) */
      for (int i = 0; i < n; ++i)
        counts[i] = ((i + rank) % 2) * shape_counts[g],
        counts2[i] = ((i + rank) % 2) * shape_counts[f];
      MOVE("alltoallv", MPI_Alltoallv(in, counts2, places2, ft, a, counts, places, gt, comm),
           PMPI_Alltoallv(in, counts2, places2, ft, b, counts, places, gt, comm));
      MOVE(
          "alltoallv in place",
          MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, a, counts, places, gt, comm),
          PMPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, b, counts, places, gt, comm));
    }
  }
  MPI_Barrier(comm);
  free(in);
  free(a);
  free(b);
  free(counts);
  free(places);
  free(counts2);
  free(places2);
}

static void all_on(const char* name, MPI_Comm comm) {
  on = name;
  MPI_Barrier(comm); /* nonblocking calls make no communicator */
  reductions(comm);
  user_operators(comm);
  movements(comm);
  bottom(comm);
}

int main(int argc, char** argv) {
  int size;
#ifdef NONBLOCKING
  int level;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
#else
  MPI_Init(&argc, &argv);
#endif
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  every_type = argc > 1 && strcmp(argv[1], "all") == 0;
  T(MPI_SIGNED_CHAR, 'i');
  T(MPI_UNSIGNED_CHAR, 'u');
  T(MPI_SHORT, 'i');
  T(MPI_UNSIGNED_SHORT, 'u');
  T(MPI_INT, 'i');
  T(MPI_UNSIGNED, 'u');
  T(MPI_LONG, 'i');
  T(MPI_UNSIGNED_LONG, 'u');
  T(MPI_LONG_LONG, 'i');
  T(MPI_INT64_T, 'i');
  T(MPI_UINT16_T, 'u');
  T(MPI_FLOAT, 'f');
  T(MPI_DOUBLE, 'f');
  T(MPI_LONG_DOUBLE, 'f');
  T(MPI_C_FLOAT_COMPLEX, 'c');
  T(MPI_C_DOUBLE_COMPLEX, 'c');
  T(MPI_C_BOOL, 'l');
  T(MPI_BYTE, 'b');
  T(MPI_FLOAT_INT, 'F');
  T(MPI_DOUBLE_INT, 'D');
  T(MPI_LONG_INT, 'L');
  T(MPI_2INT, 'I');
  T(MPI_SHORT_INT, 'S');
  T(MPI_LONG_DOUBLE_INT, 'G');
  make_shapes();
  all_on("MPI_COMM_WORLD", MPI_COMM_WORLD);
  for (int i = 0; i < (every_type ? 3 : 1); ++i) { /* a handle may be used again */
    MPI_Comm copy, part;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, -world_rank, &part);
    on = "a duplicate";
    MPI_Barrier(copy);
    movements(copy);
    on = "a part";
    MPI_Barrier(part);
    user_operators(part);
    movements(part);
    MPI_Comm_free(&part);
    MPI_Comm_free(&copy);
  }
  on = "MPI_COMM_SELF";
  MPI_Barrier(MPI_COMM_SELF);
  user_operators(MPI_COMM_SELF);
  movements(MPI_COMM_SELF);
  if (size >= 2) {
    MPI_Comm half, between;
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - world_rank % 2, 5, &between);
    int mine = world_rank + 1, a = 0, b = 0;
    on = "an intercommunicator";
    MPI_Allreduce(&mine, &a, 1, MPI_INT, MPI_SUM, between);
    PMPI_Allreduce(&mine, &b, 1, MPI_INT, MPI_SUM, between);
    same("allreduce", &a, &b, sizeof a);
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
  }
  long sums[2], mine[2] = {compared, wrong};
  PMPI_Reduce(mine, sums, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (world_rank == 0) printf("%ld results compared, %ld differ\n", sums[0], sums[1]);
  PMPI_Bcast(sums, 2, MPI_LONG, 0, MPI_COMM_WORLD);
  for (int i = 1; i < 6; ++i) MPI_Type_free(&shapes[i]);
  MPI_Finalize();
  return sums[1] != 0;
}
