/* tutti: collective communication. The C ABI, the only ABI of the library.
 *
 * Every function returns a tutti_status; nothing here prints, aborts, exits or hangs: every call
 * ends by its deadline. After TUTTI_OK the result is right on this rank. After any other status the
 * sentence that says why is at tutti_comm_last_error() (for functions that have a communicator) or
 * tutti_last_error() (the calling thread's last failure, for those that have none).
 *
 * Limits: that of a blocking call counts from entering it, that of a nonblocking one from entering
 * each tutti_wait(). Past it a call ends with TIMEOUT, whether nothing moves any more or data still
 * does. But a function of the program's that does not return is not interrupted, and the clock is
 * only read now and then, so a slow function delays the TIMEOUT. INT64_MAX is no limit at all.
 *
 * Errors: INVALID and UNSUPPORTED leave the communicator as it was, and so does whatever a local
 * function says. Any other error of a collective call or a message
 * ends the communicator on all ranks: TIMEOUT, and also memory that runs out on one of them, or a
 * function of the program's that throws, be it before that rank's call had begun. The calls of the
 * others end at once with the same status and a sentence that names the rank and the cause; all
 * that is left to do with the communicator is tutti_comm_shrink() and tutti_comm_free().
 *
 * Structs that start with their size may be shorter or longer than this header's, as those of
 * programs built with another version's are: what a shorter one does not have is the default, and
 * what a longer one has more must be zero (else INVALID); of results a program gets what its own
 * has room for, and zeros for what this version does not know.
 *
 * Threads: one thread at a time per communicator; different communicators may be used from
 * different threads in parallel. tutti_comm_abort() may be called from any thread at any time.
 * Functions without a communicator are thread-safe.
 *
 * A thread makes its collectives on several communicators in the same order on all ranks. Orders
 * that make ranks wait for each other in a cycle end with MISMATCH within seconds, rather than at
 * the deadline. In that search a communicator belongs to the thread that makes calls on it, and has
 * no part in it once a second thread has: where one is handed over, let the new thread make its
 * first call before the old one blocks.
 *
 * fork(): a child is refused its parent's communicators and requests (INVALID), and to free one
 * does nothing there; whatever it does reaches nobody else. It may make communicators of its own.
 *
 * Buffers belong to the caller, before, during and after a call. Counts are in elements, sizes in
 * bytes, times in milliseconds unless the name says otherwise. */
#ifndef TUTTI_TUTTI_H
#define TUTTI_TUTTI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header; tutti_version() has the library's. */
#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0

/* Marks what libtutti.so exports. */
#if defined(__GNUC__)
#define TUTTI_API __attribute__((visibility("default")))
#else
#define TUTTI_API
#endif

/* ---------------------------------------------------------------- status */

/* How a call ended. */
typedef enum tutti_status {
  TUTTI_OK = 0,
  TUTTI_IN_PROGRESS = 1, /* a nonblocking operation has not ended */
  TUTTI_INVALID = 2,     /* an argument is wrong; nothing was sent, the communicator is unharmed */
  TUTTI_UNSUPPORTED = 3, /* right, but not possible here (a forced algorithm that does not apply) */
  TUTTI_NO_MEMORY = 4,   /* on this rank or on the one that the text names */
  TUTTI_TIMEOUT = 5,     /* the deadline passed; the text names who was waited for */
  TUTTI_PEER_FAILED = 6, /* a rank died or its host does not answer; the error names it */
  TUTTI_ABORTED = 7,     /* somebody called tutti_comm_abort(), the program's function threw, or the
                            ranks that go on do so without this one (tutti_comm_shrink()) */
  TUTTI_MISMATCH = 8,    /* ranks made different calls, or made those on several communicators in
                            orders that cannot end; the text names both */
  TUTTI_CORRUPT = 9,     /* bytes from a peer make no sense */
  TUTTI_AUTH = 10,       /* a peer could not prove that it belongs to the job */
  TUTTI_SYSTEM = 11,     /* the operating system refused; the text names the resource */
  TUTTI_INTERNAL = 12    /* a defect of tutti */
} tutti_status;

/* The name of a status, "PEER_FAILED" for example; never NULL, static storage. */
TUTTI_API const char* tutti_status_name(tutti_status status);

/* What the calling thread's last failed function without a communicator said; "" if none failed.
 * Valid until the thread's next tutti call. */
TUTTI_API const char* tutti_last_error(void);

/* "0.1.0"; static storage. */
TUTTI_API const char* tutti_version(void);

/* ---------------------------------------------------------------- types and operators */

/* Types of elements: built in, or made by tutti_dtype_create(). */
typedef enum tutti_dtype {
  TUTTI_INT8 = 0,
  TUTTI_INT16 = 1,
  TUTTI_INT32 = 2,
  TUTTI_INT64 = 3,
  TUTTI_UINT8 = 4,
  TUTTI_UINT16 = 5,
  TUTTI_UINT32 = 6,
  TUTTI_UINT64 = 7,
  TUTTI_FLOAT16 = 8,  /* IEEE 754 binary16 */
  TUTTI_BFLOAT16 = 9, /* upper half of a binary32 */
  TUTTI_FLOAT32 = 10,
  TUTTI_FLOAT64 = 11,
  TUTTI_COMPLEX64 = 12,   /* two float32: real, then imaginary part; sum, prod and avg only */
  TUTTI_COMPLEX128 = 13,  /* two float64 */
  TUTTI_FLOAT8_E4M3 = 14, /* OCP "fn": no infinity, 448 is the greatest; what does not round
                             to it (more than 464) is NaN, as in PyTorch */
  TUTTI_FLOAT8_E5M2 = 15, /* OCP: as IEEE 754 would have it, with infinities */
  TUTTI_BOOL = 16, /* one byte, true unless 0; results are 0 or 1. sum and max are or, prod and
                      min are and; no avg */
  /* A value and an index, with the struct of the same name; minloc and maxloc only. */
  TUTTI_FLOAT32_INT32 = 17,
  TUTTI_FLOAT64_INT64 = 18,
  TUTTI_INT32_INT32 = 19,
  TUTTI_INT64_INT64 = 20,
  TUTTI_BINNED_FLOAT32 = 21, /* tutti_binned_float32: an accumulator; sum only */
  TUTTI_BINNED_FLOAT64 = 22, /* tutti_binned_float64 */
  TUTTI_DTYPE_COUNT = 23,
  TUTTI_DTYPE_ANY_INT = 0x7fffffff /* none: lets a wrong value be refused rather than undefined */
} tutti_dtype;

/* An element of TUTTI_FLOAT32_INT32. */
typedef struct tutti_float32_int32 {
  float value;   /* what is compared */
  int32_t index; /* decides among equal values */
} tutti_float32_int32;
/* An element of TUTTI_FLOAT64_INT64. */
typedef struct tutti_float64_int64 {
  double value;  /* what is compared */
  int64_t index; /* decides among equal values */
} tutti_float64_int64;
/* An element of TUTTI_INT32_INT32. */
typedef struct tutti_int32_int32 {
  int32_t value; /* what is compared */
  int32_t index; /* decides among equal values */
} tutti_int32_int32;
/* An element of TUTTI_INT64_INT64. */
typedef struct tutti_int64_int64 {
  int64_t value; /* what is compared */
  int64_t index; /* decides among equal values */
} tutti_int64_int64;

/* Operators: built in, or made by tutti_op_create() and tutti_op_create_premul_sum(). */
typedef enum tutti_op {
  TUTTI_SUM = 0,
  TUTTI_PROD = 1,
  TUTTI_MIN = 2, /* NaN propagates, -0 < +0 */
  TUTTI_MAX = 3,
  TUTTI_AVG = 4,  /* the sum, then one true division by the number of ranks; integers truncate */
  TUTTI_LAND = 5, /* logical: integers and bool only, result 0 or 1 */
  TUTTI_LOR = 6,
  TUTTI_LXOR = 7,
  TUTTI_BAND = 8, /* bitwise: integers and, the same as logical, bool only */
  TUTTI_BOR = 9,
  TUTTI_BXOR = 10,
  TUTTI_MINLOC = 11, /* the least value with its index; of equal values the lowest index. A NaN is
                        below (maxloc: above) all numbers, -0 < +0 */
  TUTTI_MAXLOC = 12,
  TUTTI_OP_COUNT = 13,
  TUTTI_OP_ANY_INT = 0x7fffffff
} tutti_op;

/* A type of the program's own: `size` bytes an element, 1 to TUTTI_DTYPE_MOST_BYTES, that the
 * library only moves; `name` (copied, not empty) appears in messages. The built-in operators are
 * not defined on it. Ranks of a call need not agree on names or on the order of creation; that
 * sizes differ is a MISMATCH. At most 4096 types, and as many operators, may exist at a time: then
 * NO_MEMORY. Any thread; process-wide. */
#define TUTTI_DTYPE_MOST_BYTES 4096
TUTTI_API tutti_status tutti_dtype_create(size_t size, const char* name, tutti_dtype* out);
/* From then on the number is unknown; it is never given to another type. No call with it may be in
 * flight. INVALID for a built-in type, an unknown one, and one that was freed. */
TUTTI_API tutti_status tutti_dtype_free(tutti_dtype dtype);

/* An operator of the program's own: for each i < count, out[i] = lower[i] op higher[i]. `out` may
 * be the same vector as `lower` or `higher`, and overlaps neither otherwise. Vectors are aligned to
 * the largest power of two that divides the type's size, 16 at most. Must be associative, and a
 * function of its operands alone: it is called by whichever rank holds them, on a thread that
 * advances that rank's calls, with parts of vectors of any length, also in shared memory. Must not
 * call tutti. An exception that it throws ends the call, on all ranks, with ABORTED. */
typedef void (*tutti_op_fn)(const void* lower, const void* higher, void* out, size_t count,
                            tutti_dtype dtype, void* context);
/* The operator is defined on every type, built-in or not; the function is told which. `context` is
 * passed through and must live as long as the operator. Unless `commutative`, operands always meet
 * in rank order: algorithms that cannot keep it are not chosen, and are UNSUPPORTED when asked for
 * by name. All ranks of a call must pass the same `commutative` (else MISMATCH); that their
 * functions compute the same is up to the program. Any thread; process-wide. */
TUTTI_API tutti_status tutti_op_create(tutti_op_fn function, void* context, int commutative,
                                       tutti_op* out);
/* As tutti_dtype_free(). */
TUTTI_API tutti_status tutti_op_free(tutti_op op);

/* Bytes of one element, 0 for an unknown type. */
TUTTI_API size_t tutti_dtype_size(tutti_dtype dtype);
/* "float32", "sum"; NULL for an unknown value. Static storage; the name of a type of the program's
 * own lives until it is freed. Operators of the program's own are "user", pre-multiplied sums
 * "premul_sum". */
TUTTI_API const char* tutti_dtype_name(tutti_dtype dtype);
TUTTI_API const char* tutti_op_name(tutti_op op);
/* The inverse, for what is built in. INVALID with the list of names that are allowed. */
TUTTI_API tutti_status tutti_dtype_from_name(const char* name, tutti_dtype* out);
TUTTI_API tutti_status tutti_op_from_name(const char* name, tutti_op* out);
/* Whether the operator is defined on the type (bitwise ones are not on floats). 1 or 0. */
TUTTI_API int tutti_op_supports(tutti_op op, tutti_dtype dtype);

/* What is promised of a result's bits, weakest first; each level holds what the ones before do.
 * Reductions among integers, minima, maxima and logical operators have the same bits at all levels:
 * these are about sums and products that round. */
typedef enum tutti_level {
  TUTTI_LEVEL_DEFAULT = 0, /* of a call: the communicator's; of that: TUTTI_LEVEL, else fast */
  /* the same on all ranks, and in every run of the same call with the same tuning table and as many
   * ranks and cores on the same hosts: which algorithm runs, and so the order in which operands are
   * combined, follows from these */
  TUTTI_LEVEL_FAST = 1,
  /* and independent of where in a vector an element stands and, unless algorithms are forced, of
   * how long the vector is: buckets may be cut and joined */
  TUTTI_LEVEL_LAYOUT = 2,
  /* and the same for every algorithm and transport: one tree over the ranks. With q the largest
   * power of two <= n and e = n - q, the first 2e operands are combined in adjacent pairs, then the
   * q that are left by an aligned binary tree, rounding to the type at every node */
  TUTTI_LEVEL_CANONICAL = 3,
  /* the same for every order of the operands: a sum of floats is the exact one, rounded once to
   * nearest even (and then divided, for an average). Products of floats have no such form */
  TUTTI_LEVEL_EXACT = 4,
  TUTTI_LEVEL_COUNT = 5,
  TUTTI_LEVEL_ANY_INT = 0x7fffffff
} tutti_level;

/* "canonical"; NULL for an unknown value; static storage. */
TUTTI_API const char* tutti_level_name(tutti_level level);
/* The inverse. INVALID with the list of names that are allowed. */
TUTTI_API tutti_status tutti_level_from_name(const char* name, tutti_level* out);

/* ---------------------------------------------------------------- local arithmetic */

/* out[i] = operands[0][i] op ... op operands[n-1][i] of `n` vectors of this process: at `canonical`
 * by the tree of that level, operand k in the place of rank k; at `exact` in no order; below, from
 * left to right, types narrower than float32 rounded once. An average is over the operands.
 * 1 <= n < 2^31; a single operand is the result, as 0 or 1 under logical operators. `out` may be
 * one of the operands, but not overlap one otherwise. UNSUPPORTED at `exact`: a product of floats,
 * an operator of the program's own; at all levels: a pre-multiplied sum. */
TUTTI_API tutti_status tutti_reduce_local(const void* const* operands, size_t n, void* out,
                                          size_t count, tutti_dtype dtype, tutti_op op,
                                          tutti_level level);

/* Accumulators of sums whose bits depend on the values that were added and on nothing else. Add
 * values in any order, on any number of ranks, to any number of accumulators; sum these in any
 * grouping, with tutti_allreduce(..., TUTTI_BINNED_FLOAT64, TUTTI_SUM, ...), any other reduction or
 * tutti_reduce_local(): the bits are the same, and so is what tutti_binned_finish() makes of them.
 *
 * Zeroed memory is an empty sum. Up to 2^39 - 1 values; more give NaN. With n values of magnitude
 * at most M the result is the correctly rounded sum of values that differ from the given ones by at
 * most M / 2^49 (float32) or M / 2^145 (float64) each; without any difference where all bits of all
 * values lie within 48 or 144 bits. NaN, infinities and zeros as at the level `exact`. The content
 * is the library's own and the same on all machines of one byte order. */
typedef struct tutti_binned_float32 {
  uint64_t words[4]; /* the library's own */
} tutti_binned_float32;
typedef struct tutti_binned_float64 {
  uint64_t words[8]; /* the library's own */
} tutti_binned_float64;

/* Adds values[i] to accumulators[i], `count` of both. `accumulator` is TUTTI_BINNED_FLOAT32 or
 * TUTTI_BINNED_FLOAT64, `dtype` the values' type: any floating-point one, but float64 only for the
 * latter. */
TUTTI_API tutti_status tutti_binned_deposit(void* accumulators, tutti_dtype accumulator,
                                            const void* values, size_t count, tutti_dtype dtype);
/* Adds all `count` values to one accumulator. */
TUTTI_API tutti_status tutti_binned_deposit_all(void* accumulator_place, tutti_dtype accumulator,
                                                const void* values, size_t count,
                                                tutti_dtype dtype);
/* out[i] = accumulators[i], rounded once to nearest even to the floating-point type `dtype`.
 * INVALID where an accumulator holds what no sum does; `out` is then unspecified. */
TUTTI_API tutti_status tutti_binned_finish(const void* accumulators, tutti_dtype accumulator,
                                           void* out, size_t count, tutti_dtype dtype);

/* ---------------------------------------------------------------- communicators */

/* A communicator: the handle of one rank. Made by the tutti_comm_create_ functions,
 * tutti_comm_split() and the like, freed by tutti_comm_free(). */
typedef struct tutti_comm_s* tutti_comm;

/* What ranks that have no launcher pass among themselves to find each other: rank 0's address and a
 * secret. Treat it as a password: who holds it can join. */
typedef struct tutti_unique_id {
  unsigned char bytes[128]; /* to be copied as they are */
} tutti_unique_id;

/* What a waiting rank calls so that another library of the program's moves on, too: an MPI whose
 * messages are in flight, for one. On the thread that waits, between two looks for its own call,
 * once that has not ended within the first spins (some 100 us; at once where ranks share cores):
 * then at every look while it yields, every 100 us while it sleeps. Must not block, and must not
 * call tutti. An exception that it throws ends the communicator. */
typedef void (*tutti_progress_fn)(void* context);

/* Settings of a communicator. Zero or NULL means the default. */
typedef struct tutti_comm_config {
  size_t size;            /* sizeof(tutti_comm_config) */
  const char* transports; /* allowed ones in order of preference, "shm,tcp"; NULL: what suits */
  int64_t timeout_ms;     /* limit of each call on the communicator; default 30000 */
  int64_t setup_ms;       /* limit of making the communicator; default 60000 */
  const char* interface_; /* network interface or address that tcp uses; NULL: the one that reaches
                             rank 0 */
  int progress_thread; /* 1: a thread of the library advances nonblocking calls while nobody waits
                          for them; one for all communicators of the process */
  tutti_level level;   /* of reductions that do not name one, equal on all ranks */
  const char* device;  /* the GPU whose memory calls take, too: "cuda:0", or "cuda" for the one that
                          is current in this thread; "none": no device; NULL: TUTTI_DEVICE, else
                          none. All ranks name one, or none does (else MISMATCH) */
  const char* tuning;  /* file with the tuning table (`tutti tune` makes one), which is read now;
                          "none": the defaults; "measure": as TUTTI_TUNING has it; NULL: that, else
                          the one that was made for this machine, else the defaults. What is no table
                          is INVALID, with line and reason; all ranks have one (else MISMATCH) */
  tutti_progress_fn progress; /* called by ranks that wait in a call on the communicator or on one
                                 derived from it, not while these are made; NULL: nothing is */
  void* progress_context;     /* passed through; must live as long as these communicators */
} tutti_comm_config;
#define TUTTI_COMM_CONFIG_INIT \
  { sizeof(tutti_comm_config), NULL, 0, 0, NULL, 0, TUTTI_LEVEL_DEFAULT, NULL, NULL, NULL, NULL }

/* Makes an id in this process, which must become rank 0 of the communicator made from it (in any of
 * its threads), and starts to listen for the others. `interface_`: network interface or address to
 * listen on, NULL for loopback: then only ranks of this host can join. */
TUTTI_API tutti_status tutti_unique_id_create(const char* interface_, tutti_unique_id* out);

/* Collective over `nranks` callers that hold the same id; `rank` in [0, nranks), each once. Callers
 * may be processes, or threads of one process. On failure *out is NULL. `config` may be NULL. */
TUTTI_API tutti_status tutti_comm_create_from_id(const tutti_unique_id* id, int rank, int nranks,
                                                 const tutti_comm_config* config, tutti_comm* out);

/* Collective over all processes that a launcher started: `tutti run` (TUTTI_RANK ...), or anything
 * that sets RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT with TUTTI_KEY_FILE. Without any launcher's
 * environment: a communicator of one rank. */
TUTTI_API tutti_status tutti_comm_create_from_env(const tutti_comm_config* config, tutti_comm* out);

/* The caller's own all-gather: every rank gives `bytes` bytes at `mine`; `all` receives nranks
 * times `bytes` in rank order. Returns 0 on success; one that throws has failed. Used only while
 * the communicator is made; whoever can listen to it can join the job. */
typedef int (*tutti_allgather_fn)(const void* mine, void* all, size_t bytes, void* context);
TUTTI_API tutti_status tutti_comm_create_from_allgather(tutti_allgather_fn allgather, void* context,
                                                        int rank, int nranks,
                                                        const tutti_comm_config* config,
                                                        tutti_comm* out);

/* Collective over `comm`: ranks of equal `color` form a new communicator, ordered by (key, rank).
 * color < 0: no member, *out is NULL and the status OK. */
TUTTI_API tutti_status tutti_comm_split(tutti_comm comm, int color, int key, tutti_comm* out);
/* Collective over `comm`: the ranks of each host form a new communicator, ordered by (key, rank).
 * Ranks share a host where processes and sockets of one are not hidden from the other: one kernel,
 * user and namespaces. */
TUTTI_API tutti_status tutti_comm_split_host(tutti_comm comm, int key, tutti_comm* out);
/* Collective over the `n` ranks of `comm` that `ranks` lists, each once, in the order of their new
 * ranks; the caller is among them, and all of them pass the same list (else MISMATCH). The other
 * ranks do not take part. Calls for groups with ranks in common must come in one order. */
TUTTI_API tutti_status tutti_comm_create_group(tutti_comm comm, const int* ranks, size_t n,
                                               tutti_comm* out);
/* Collective: the same ranks, an independent communicator. */
TUTTI_API tutti_status tutti_comm_dup(tutti_comm comm, tutti_comm* out);
/* Local; NULL is allowed. Calls in flight must have ended. */
TUTTI_API tutti_status tutti_comm_free(tutti_comm comm);
/* Ends every call on the communicator on every rank with ABORTED, now and from now on. Any thread;
 * never blocks. `reason` may be NULL. */
TUTTI_API tutti_status tutti_comm_abort(tutti_comm comm, const char* reason);

/* This rank's number, from 0, and how many there are. Local. */
TUTTI_API tutti_status tutti_comm_rank(tutti_comm comm, int* rank);
TUTTI_API tutti_status tutti_comm_size(tutti_comm comm, int* nranks);
/* "inproc", "shm", "tcp" or, where pairs differ, "shm+tcp"; belongs to the communicator. */
TUTTI_API tutti_status tutti_comm_transport(tutti_comm comm, const char** name);

/* The last failure on a communicator. */
typedef struct tutti_error {
  tutti_status status; /* OK: no call on this communicator has failed */
  int rank;            /* the rank that the error is about, -1 if none in particular */
  uint64_t call;       /* number of the call on the communicator, from 1; 0 if none */
  const char* text;    /* one sentence; belongs to the communicator, valid until its next call */
} tutti_error;
/* Local. */
TUTTI_API tutti_status tutti_comm_last_error(tutti_comm comm, tutti_error* out);

/* ---------------------------------------------------------------- going on after a failure
 *
 * When a call has ended with PEER_FAILED, TIMEOUT, MISMATCH or another error that ends the
 * communicator, it has ended so on all ranks, and those that live may go on: each calls
 * tutti_comm_shrink() and, when that returns, frees the old communicator (in any order). They need
 * neither a launcher nor rank 0: they meet over what is left of the old communicator.
 *
 * Blocking; one thread at a time on `comm`, no call of its in flight (else INVALID), no other limit
 * than `timeout_ms` (0: the communicator's). A rank that does not come within half of that is left
 * out; so is one whose host does not answer (TUTTI_HEARTBEAT_MS). One that was left out gets
 * ABORTED when it comes, and never goes on by itself: the ranks that go on are more than half
 * of all, or half of all with rank 0, or all others have died (silence, or a connection that their
 * host resets, proves nothing). Those that get a result get the same one. A communicator can be
 * shrunk once, even if that fails (else INVALID), its derived ones each by itself, or made anew. */

/* The ranks that this rank knows to have died or to be lost, in order: *n of them, of which the
 * first `most` are written to `ranks` (NULL where that is 0). Other ranks may know of fewer or
 * more; the ranks of a shrunk communicator are the same to all. Local, also between calls. */
TUTTI_API tutti_status tutti_comm_failed_ranks(tutti_comm comm, int* ranks, size_t most, size_t* n);
/* Collective, also on a communicator that is over: *value becomes the bitwise AND of what the ranks
 * that came passed, the same on all of them. OK: all came; PEER_FAILED: not all, *value is valid
 * all the same. Otherwise it is as it was: TIMEOUT, MISMATCH (a rank called tutti_comm_shrink()),
 * ABORTED (too few ranks are left, or this one was left out). */
TUTTI_API tutti_status tutti_comm_agree(tutti_comm comm, uint64_t* value, int64_t timeout_ms);
/* Collective over the ranks of `comm` that are left: a new communicator of them, in the order of
 * their old ranks, with the settings and over the transports of the old one. A rank that dies
 * meanwhile is left out, too. If `comm` is not over yet, it is from now on, for all (ABORTED).
 * On failure *out is NULL. */
TUTTI_API tutti_status tutti_comm_shrink(tutti_comm comm, int64_t timeout_ms, tutti_comm* out);

/* Collective over `comm`, which must work, and `joining` processes that are not in it: a new
 * communicator of all, in which the ranks of `comm` keep their numbers. Rank 0 passes an id that it
 * has made by tutti_unique_id_create(), for this once; what the others pass is not used. Those that
 * join get the id from it in a way of the program's own, and call tutti_comm_create_from_id() with
 * the ranks from the size of `comm` on, all with the same transports and settings. All must come
 * within the limit of setting up. `comm` stays as it is, also where this fails; *out is NULL
 * then. */
TUTTI_API tutti_status tutti_comm_grow(tutti_comm comm, const tutti_unique_id* id, int joining,
                                       tutti_comm* out);

/* ---------------------------------------------------------------- counters */

/* How much a communicator has done since it was made.
 *
 * Bytes are those of vectors and messages, counted once for each rank that they go to, however they
 * travel: headers and flags are left out, and what one rank publishes in shared memory for three
 * others to read was sent three times. A message is a piece for one rank that the algorithm sends
 * at once, in however many parts it is carried; empty ones do not count. So a call moves what the
 * schedule of its algorithm says (`tutti show`), in which a call that goes direct counts as
 * two-shot. Beside vectors there are only the block lengths that ranks of gatherv, scatterv and
 * alltoallv tell each other first, of 8 bytes, and the single bytes of barriers.
 *
 * Calls in flight count with what they have moved so far; those in which ranks read each other's
 * memory count when they have ended. */
typedef struct tutti_comm_counters {
  size_t size;                /* sizeof(tutti_comm_counters), set by the caller */
  uint64_t calls;             /* collective calls */
  uint64_t direct_calls;      /* of them those in which ranks read or wrote each other's memory */
  uint64_t messages_sent;     /* by this rank to others */
  uint64_t bytes_sent;        /* in them */
  uint64_t messages_received; /* by this rank from others */
  uint64_t bytes_received;    /* in them */
} tutti_comm_counters;
TUTTI_API tutti_status tutti_comm_get_counters(tutti_comm comm, tutti_comm_counters* out);

/* ---------------------------------------------------------------- pre-multiplied sums */

/* An operator for calls on `comm` with `dtype` (any integer, float or complex type): the sum over
 * ranks of scalar * input, the product being rounded to the type before it is added (as
 * TUTTI_PROD does it). `scalar`: one element, read now; ranks may pass different ones, and make
 * the operator in any order. Local. tutti_op_free() frees it. A call on another communicator or
 * with another type is INVALID. */
TUTTI_API tutti_status tutti_op_create_premul_sum(tutti_comm comm, const void* scalar,
                                                  tutti_dtype dtype, tutti_op* out);

/* ---------------------------------------------------------------- symmetric memory */

/* Vectors in symmetric memory go without staging: every rank reads the others' inputs and writes
 * their outputs, with the same bits as otherwise. It pays from some KiB on, where all ranks are on
 * one host (threads of one process get it for any buffer). No rank need know what the others pass:
 * an allreduce goes direct when the vectors of all ranks, input and output, lie in such memory,
 * wherever in it; in other calls a rank's long input that lies in it is read there, where that is
 * faster. Elsewhere it is ordinary memory. After an allreduce has failed a slow rank may still
 * write to the output.
 *
 * Collective over `comm`; sizes may differ. The memory is zero, aligned to a page, in huge pages
 * where the host has reserved them, placed near the rank that it belongs to, and lives until
 * tutti_mem_free() or the end of the communicator. */
TUTTI_API tutti_status tutti_mem_alloc(tutti_comm comm, size_t bytes, void** out);
/* Local; NULL is allowed. To be called by all ranks: once one has, a call that would go direct with
 * what another still holds fails with MISMATCH, also one that is in flight, unless it goes already.
 */
TUTTI_API tutti_status tutti_mem_free(tutti_comm comm, void* memory);
/* Collective: the same for memory that the caller has mapped (MAP_SHARED, for reading and writing)
 * from `fd`, `address` being the byte at `offset` of it. The descriptor may be closed afterwards;
 * the memory behind it must not shrink. INVALID, on all ranks, when one's mapping is not as it
 * says. */
TUTTI_API tutti_status tutti_mem_register(tutti_comm comm, void* address, size_t bytes, int fd,
                                          uint64_t offset);
/* Local. The memory stays mapped in this process. To be called by all ranks, as tutti_mem_free().
 */
TUTTI_API tutti_status tutti_mem_deregister(tutti_comm comm, void* address);

/* Collective: the same for memory that the program has already, from malloc() for one. Its content
 * and its address stay. Where ranks are processes of one host, the whole pages within [address,
 * address + bytes) become a shared mapping; elsewhere nothing is done to it. What is left of pages
 * at both ends may share them with other data, which is not touched: calls copy it. So vectors
 * whose ends lie on pages are fastest; those of 64 KiB and more gain in any case, and shorter than
 * three pages or so they go as before.
 *
 * Only ordinary memory can be adopted: private, anonymous, to be read and written. INVALID, on all
 * ranks, where one's cannot be read and written, is adopted already or has no whole page;
 * UNSUPPORTED, with why, where it is of a file, shared, locked, in reserved huge pages, part of a
 * stack, or advised what a shared mapping does not keep (madvise). That nobody else refers to the
 * pages themselves, a device or a network card for which they were pinned, is up to the program.
 * What is adopted is not in transparent huge pages unless the host has them for shared memory.
 *
 * Threads: until the call has returned no thread may write to the memory, nor the kernel in a
 * thread's name; tutti_mem_release() and tutti_comm_free() are such calls, too. To read it is safe
 * at any time, and so is to write to what lies beside it.
 *
 * fork(): the child gets a private copy, as of any memory, at once rather than page by page; where
 * there is no memory for that, it has none there. Parent and child do not see what the other
 * writes. A process made without the handlers of pthread_atfork(), by _Fork() or clone(), does not
 * get the memory at all.
 *
 * Release memory before it is freed, unmapped, moved (mremap()) or given back to the system
 * (MADV_DONTNEED keeps its content now, and allocators that take it for zeros must not get it).
 * Calls look at their vectors before they go direct, and take whatever lies there: memory that was
 * unmapped while it was adopted causes no wrong result, but before Linux 6.11 only the first and
 * the last page of a vector are looked at.
 *
 * With TUTTI_ADOPT=auto in the environment of all ranks the library adopts by itself what comes
 * back in blocking calls, the vectors of an allreduce and the inputs of reduce_scatter, allgather
 * and alltoall: those with blocks of 64 KiB and more that malloc() has given out and mapped by
 * themselves, which free() unmaps and realloc() copies. The rules above about devices and madvise
 * hold for them, too; and on all ranks the same of these calls must be blocking ones. */
TUTTI_API tutti_status tutti_mem_adopt(tutti_comm comm, void* address, size_t bytes);
/* Local. The memory is private again, its content stays; what has been unmapped since is left
 * alone. To be called by all ranks, as tutti_mem_free(). The end of the communicator does the same.
 */
TUTTI_API tutti_status tutti_mem_release(tutti_comm comm, void* address);

/* ---------------------------------------------------------------- device memory */

/* Buffers of any call may lie on the GPU that the communicator was made with; a buffer of another
 * GPU is INVALID. A call that blocks has ended on the GPU, too, when it returns; before it the
 * program must have waited for what it has begun on its own streams. Where a call cannot run on the
 * GPU it goes through pinned memory of the host, with the bits it has there. Managed memory is
 * taken as memory of the GPU. The i and _init forms, whose counterparts are the _on forms, and
 * sparse and compressed allreduces take memory of the host only.
 *
 * A process may have one communicator, or one for each of its threads, on a GPU; several processes
 * may share one. Threads that are ranks on one GPU must have streams of their own, free none of its
 * memory while calls go on, and have CUDA_DEVICE_MAX_CONNECTIONS set to the number of these streams
 * and two per communicator. */
typedef enum tutti_memory_kind {
  TUTTI_MEMORY_HOST = 0,    /* or anything the GPU's driver knows nothing of */
  TUTTI_MEMORY_PINNED = 1,  /* of the host, registered with the driver */
  TUTTI_MEMORY_MANAGED = 2, /* moves between host and GPU */
  TUTTI_MEMORY_DEVICE = 3
} tutti_memory_kind;
/* Where `pointer` points. *device (may be NULL) is the GPU's number, -1 for memory of the host. OK
 * also where there is no driver: then all memory is the host's. Any thread. */
TUTTI_API tutti_status tutti_memory_classify(const void* pointer, tutti_memory_kind* kind,
                                             int* device);

/* Collective: as tutti_mem_alloc(), on the communicator's GPU, aligned to 512 bytes. The content is
 * unspecified. Freed by tutti_mem_free(). */
TUTTI_API tutti_status tutti_mem_alloc_device(tutti_comm comm, size_t bytes, void** out);
/* Collective: as tutti_mem_register(), for memory of the GPU (from cudaMalloc(), or a mapping made
 * with cuMemCreate() that can be exported as a file descriptor). Undone by tutti_mem_deregister(),
 * before it is freed. */
TUTTI_API tutti_status tutti_mem_register_device(tutti_comm comm, void* address, size_t bytes);

/* OK: no stream-ordered call on the communicator has failed so far, and what ended is right. Else
 * the first failure: its sentence is at tutti_comm_last_error(), further calls are refused, and
 * those on streams end without having done anything. Local, never blocks, sends nothing. */
TUTTI_API tutti_status tutti_comm_device_status(tutti_comm comm);

/* ---------------------------------------------------------------- collectives */

/* As `send`: take the input from the receive buffer. */
#define TUTTI_IN_PLACE ((const void*)(intptr_t)-1)

/* Settings of one call. Zero or NULL means the communicator's. All ranks must pass the same
 * algorithm and level; the deadline may differ. */
typedef struct tutti_call_config {
  size_t size;           /* sizeof(tutti_call_config) */
  int64_t timeout_ms;    /* limit of this call */
  const char* algorithm; /* forced by name; NULL or "auto": chosen. One that cannot run is
                            UNSUPPORTED, never replaced */
  uint32_t flags;        /* TUTTI_CALL_* */
  tutti_level level;     /* of a reduction's bits. An algorithm that cannot hold it is UNSUPPORTED,
                            as are at `exact` products of floats and the program's own operators */
} tutti_call_config;
#define TUTTI_CALL_CONFIG_INIT \
  { sizeof(tutti_call_config), 0, NULL, 0, TUTTI_LEVEL_DEFAULT }
/* Run the algorithm's schedule step by step, also where a fused path would do the same faster. */
#define TUTTI_CALL_UNFUSED 1u
/* Of calls on device memory: the vectors of all ranks, input and output, lie in memory that
 * tutti_mem_alloc_device() or tutti_mem_register_device() has made known, or all ranks are threads
 * of one process. Then long ones go in one piece. INVALID where this rank's do not. All ranks must
 * pass it alike. */
#define TUTTI_CALL_SYMMETRIC 2u

/* Collective. recv[i] = send[i] of rank 0 op send[i] of rank 1 op ..., on all ranks the same bits.
 * `send` may be TUTTI_IN_PLACE; otherwise the buffers must not overlap. `count` 0 is allowed. */
TUTTI_API tutti_status tutti_allreduce(const void* send, void* recv, size_t count,
                                       tutti_dtype dtype, tutti_op op, tutti_comm comm);
TUTTI_API tutti_status tutti_allreduce_with(const void* send, void* recv, size_t count,
                                            tutti_dtype dtype, tutti_op op, tutti_comm comm,
                                            const tutti_call_config* config);

/* Collective. As tutti_allreduce(), with the result on rank `root` only; there `send` may be
 * TUTTI_IN_PLACE, elsewhere `recv` is ignored and may be NULL. */
TUTTI_API tutti_status tutti_reduce(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                    tutti_op op, int root, tutti_comm comm);
TUTTI_API tutti_status tutti_reduce_with(const void* send, void* recv, size_t count,
                                         tutti_dtype dtype, tutti_op op, int root, tutti_comm comm,
                                         const tutti_call_config* config);

/* Collective. `buffer` of rank `root` is copied to all ranks. */
TUTTI_API tutti_status tutti_broadcast(void* buffer, size_t count, tutti_dtype dtype, int root,
                                       tutti_comm comm);
TUTTI_API tutti_status tutti_broadcast_with(void* buffer, size_t count, tutti_dtype dtype, int root,
                                            tutti_comm comm, const tutti_call_config* config);

/* Collectives in blocks: `count` is the length of one block, and a buffer of nranks blocks holds
 * that of rank r at r * count. In the v forms blocks have their own lengths, counts[r], and places,
 * displs[r] elements from the buffer's start; displs NULL: one after the other. Both arrays have
 * nranks entries and are only read. Blocks that are received must not overlap. */

/* Collective. The block `send` of every rank goes to all ranks; `recv` has nranks blocks.
 * TUTTI_IN_PLACE: the own block is in its place in `recv`. */
TUTTI_API tutti_status tutti_allgather(const void* send, void* recv, size_t count,
                                       tutti_dtype dtype, tutti_comm comm);
TUTTI_API tutti_status tutti_allgather_with(const void* send, void* recv, size_t count,
                                            tutti_dtype dtype, tutti_comm comm,
                                            const tutti_call_config* config);
/* The same with blocks of different lengths; `counts` is equal on all ranks, send_count the own
 * entry of it (ignored in place). */
TUTTI_API tutti_status tutti_allgatherv(const void* send, size_t send_count, void* recv,
                                        const size_t* counts, const size_t* displs,
                                        tutti_dtype dtype, tutti_comm comm);
TUTTI_API tutti_status tutti_allgatherv_with(const void* send, size_t send_count, void* recv,
                                             const size_t* counts, const size_t* displs,
                                             tutti_dtype dtype, tutti_comm comm,
                                             const tutti_call_config* config);

/* Collective. The block `send` of every rank goes to rank `root`, whose `recv` has nranks blocks;
 * elsewhere `recv` is ignored. TUTTI_IN_PLACE, at the root only: its block is in its place. */
TUTTI_API tutti_status tutti_gather(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                    int root, tutti_comm comm);
TUTTI_API tutti_status tutti_gather_with(const void* send, void* recv, size_t count,
                                         tutti_dtype dtype, int root, tutti_comm comm,
                                         const tutti_call_config* config);
/* The same with blocks of different lengths; counts and displs matter at the root only. MISMATCH
 * names the rank whose send_count is not what the root expects. */
TUTTI_API tutti_status tutti_gatherv(const void* send, size_t send_count, void* recv,
                                     const size_t* counts, const size_t* displs, tutti_dtype dtype,
                                     int root, tutti_comm comm);
TUTTI_API tutti_status tutti_gatherv_with(const void* send, size_t send_count, void* recv,
                                          const size_t* counts, const size_t* displs,
                                          tutti_dtype dtype, int root, tutti_comm comm,
                                          const tutti_call_config* config);

/* Collective. Rank `root` has nranks blocks in `send`, ignored elsewhere; rank r gets the r-th.
 * TUTTI_IN_PLACE as `recv`, at the root only: its block stays where it is. */
TUTTI_API tutti_status tutti_scatter(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                     int root, tutti_comm comm);
TUTTI_API tutti_status tutti_scatter_with(const void* send, void* recv, size_t count,
                                          tutti_dtype dtype, int root, tutti_comm comm,
                                          const tutti_call_config* config);
/* The same with blocks of different lengths; counts and displs matter at the root only. MISMATCH
 * names the rank whose recv_count is not what the root sends. */
TUTTI_API tutti_status tutti_scatterv(const void* send, const size_t* counts, const size_t* displs,
                                      void* recv, size_t recv_count, tutti_dtype dtype, int root,
                                      tutti_comm comm);
TUTTI_API tutti_status tutti_scatterv_with(const void* send, const size_t* counts,
                                           const size_t* displs, void* recv, size_t recv_count,
                                           tutti_dtype dtype, int root, tutti_comm comm,
                                           const tutti_call_config* config);

/* Collective. Every rank has nranks blocks in `send`; rank r gets the r-th block of their reduction
 * in `recv`. TUTTI_IN_PLACE: the blocks are in `recv`, which then begins with the result. */
TUTTI_API tutti_status tutti_reduce_scatter_block(const void* send, void* recv, size_t count,
                                                  tutti_dtype dtype, tutti_op op, tutti_comm comm);
TUTTI_API tutti_status tutti_reduce_scatter_block_with(const void* send, void* recv, size_t count,
                                                       tutti_dtype dtype, tutti_op op,
                                                       tutti_comm comm,
                                                       const tutti_call_config* config);
/* The same with blocks of different lengths, one after the other; `counts` is equal on all ranks.
 */
TUTTI_API tutti_status tutti_reduce_scatter(const void* send, void* recv, const size_t* counts,
                                            tutti_dtype dtype, tutti_op op, tutti_comm comm);
TUTTI_API tutti_status tutti_reduce_scatter_with(const void* send, void* recv, const size_t* counts,
                                                 tutti_dtype dtype, tutti_op op, tutti_comm comm,
                                                 const tutti_call_config* config);

/* Collective. Every rank has nranks blocks in `send` and gets as many: block r goes to rank r, and
 * the block from rank r comes to place r. TUTTI_IN_PLACE: the blocks are in `recv`. */
TUTTI_API tutti_status tutti_alltoall(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                      tutti_comm comm);
TUTTI_API tutti_status tutti_alltoall_with(const void* send, void* recv, size_t count,
                                           tutti_dtype dtype, tutti_comm comm,
                                           const tutti_call_config* config);
/* The same with blocks of different lengths. In place the send counts and displacements are
 * ignored: a block that is received is as long as the one that is sent. MISMATCH names both ranks
 * of a block on whose length they differ. */
TUTTI_API tutti_status tutti_alltoallv(const void* send, const size_t* send_counts,
                                       const size_t* send_displs, void* recv,
                                       const size_t* recv_counts, const size_t* recv_displs,
                                       tutti_dtype dtype, tutti_comm comm);
TUTTI_API tutti_status tutti_alltoallv_with(const void* send, const size_t* send_counts,
                                            const size_t* send_displs, void* recv,
                                            const size_t* recv_counts, const size_t* recv_displs,
                                            tutti_dtype dtype, tutti_comm comm,
                                            const tutti_call_config* config);

/* Collective. Rank r gets the reduction of ranks 0 to r, itself included; TUTTI_AVG is their mean.
 */
TUTTI_API tutti_status tutti_scan(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                  tutti_op op, tutti_comm comm);
TUTTI_API tutti_status tutti_scan_with(const void* send, void* recv, size_t count,
                                       tutti_dtype dtype, tutti_op op, tutti_comm comm,
                                       const tutti_call_config* config);
/* Collective. Rank r gets the reduction of ranks 0 to r-1; `recv` of rank 0 is left as it is. */
TUTTI_API tutti_status tutti_exscan(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                    tutti_op op, tutti_comm comm);
TUTTI_API tutti_status tutti_exscan_with(const void* send, void* recv, size_t count,
                                         tutti_dtype dtype, tutti_op op, tutti_comm comm,
                                         const tutti_call_config* config);

/* Collective. Returns after every rank has entered. */
TUTTI_API tutti_status tutti_barrier(tutti_comm comm);
TUTTI_API tutti_status tutti_barrier_with(tutti_comm comm, const tutti_call_config* config);

/* ---------------------------------------------------------------- sparse and compressed allreduce
 */

/* Each of these calls is made of several collectives, which is how they are counted; all of them
 * together end by the call's deadline. A call config may not name an algorithm: there is one, which
 * holds level `layout` (where blocks are encoded, `fast`); a stronger one is UNSUPPORTED. Only
 * built-in operators. Ranks that pass different lengths, types, operators, k or codecs get a
 * MISMATCH that names what two of them passed. */

/* Entries of a vector: indices ascend, each is there once and below the vector's length. */
typedef struct tutti_sparse_in {
  const uint32_t* indices; /* ascending */
  const void* values;      /* of the call's type, one for each index */
  size_t entries;          /* how many indices and values */
} tutti_sparse_in;
typedef struct tutti_sparse_out {
  uint32_t* indices; /* `capacity` of them, and as many values */
  void* values;      /* of the call's type */
  size_t capacity;   /* room for so many entries */
  size_t entries;    /* set by the call */
} tutti_sparse_out;

/* Collective. Vectors of `length` elements, 2^32 at most, of which every rank gives some entries;
 * the result has each index that some rank gives, with the values of those ranks combined in rank
 * order. A rank that does not give an index takes no part there; for an average its value is zero.
 * On all ranks the same bits, that depend on nothing but the values at that index: level `layout`.
 * Types narrower than float32 are rounded once. The arrays of `send` and `recv` must not overlap.
 *
 * When the result does not fit into the capacity of some rank, the call is INVALID on all ranks,
 * recv->entries is the capacity that it takes, and the communicator is unharmed; the entries of all
 * ranks together, or `length`, are enough in any case.
 *
 * Entries go to the rank that owns their index and come back merged: the split allgather of SparCML
 * (Renggli et al., SC 2019). Where more than a 32nd of a part is there, its indices travel as a
 * bitmap, so that full vectors take an eighth of a byte an element more than dense ones. */
TUTTI_API tutti_status tutti_allreduce_sparse(const tutti_sparse_in* send, tutti_sparse_out* recv,
                                              size_t length, tutti_dtype dtype, tutti_op op,
                                              tutti_comm comm);
TUTTI_API tutti_status tutti_allreduce_sparse_with(const tutti_sparse_in* send,
                                                   tutti_sparse_out* recv, size_t length,
                                                   tutti_dtype dtype, tutti_op op, tutti_comm comm,
                                                   const tutti_call_config* config);

/* Sums of the largest entries only, with memory of the others: sparsified SGD with memory (Stich et
 * al., NeurIPS 2018), Deep Gradient Compression (Lin et al., ICLR 2018). One for each vector that
 * is summed again and again; one call with it at a time. */
typedef struct tutti_topk_s* tutti_topk;

/* Local. For vectors of `length` elements (2^32 at most) of float32 or float64; k <= length. The
 * memory, the residual, begins with zeros; twice a vector is allocated. */
TUTTI_API tutti_status tutti_topk_create(size_t length, size_t k, tutti_dtype dtype,
                                         tutti_topk* out);
/* Local; NULL is allowed. */
TUTTI_API tutti_status tutti_topk_free(tutti_topk topk);
/* Collective. send[i] is added to the residual (one rounding each). The k entries of it that are
 * largest in magnitude are sent, of equal ones those with the lowest indices; a NaN is larger than
 * any number, and zeros are not sent. What is sent leaves the residual, which is zero there; the
 * rest stays. So what a rank sends of an element is the sum, from the first to the last, of its
 * inputs since it was last sent: nothing is lost. recv[i] is the sum (TUTTI_SUM) or the average
 * (TUTTI_AVG) of what ranks sent, in rank order, and zero where none did. `send` may be
 * TUTTI_IN_PLACE. After any status but OK the residual is what it was before. */
TUTTI_API tutti_status tutti_topk_allreduce(const void* send, void* recv, tutti_op op,
                                            tutti_topk topk, tutti_comm comm);
TUTTI_API tutti_status tutti_topk_allreduce_with(const void* send, void* recv, tutti_op op,
                                                 tutti_topk topk, tutti_comm comm,
                                                 const tutti_call_config* config);
/* The residual, `length` elements, to be read or written (checkpoints). Belongs to the handle;
 * valid until the next call with it. */
TUTTI_API tutti_status tutti_topk_residual(tutti_topk topk, void** out);

/* How vectors of float32 travel. The functions must not call tutti; an exception that one throws
 * ends the call, on all ranks, with ABORTED. They are called on the threads of calls, so that
 * several may run at once. What is encoded may have any alignment. */
typedef struct tutti_codec {
  size_t size;      /* sizeof(tutti_codec) */
  const char* name; /* 1 to 31 printable characters, the same on all ranks */
  size_t block; /* elements that are encoded together: a vector is cut at multiples of it only */
  /* Bytes of `count` encoded elements: known from the count alone, the same on all ranks. */
  size_t (*encoded_bytes)(size_t count, void* context);
  /* Encodes `count` values to as many bytes as encoded_bytes() says. */
  void (*encode)(const float* values, size_t count, void* encoded, void* context);
  /* The inverse. */
  void (*decode)(const void* encoded, size_t count, float* values, void* context);
  void* context; /* passed through */
} tutti_codec;

/* The built-in codecs, static storage; INVALID with the list of names for any other.
 *
 * "bf16": rounded to nearest even to 16 bits. A value x below 3.39e38 changes by at most
 * max(|x| / 256, 2^-134); larger ones may become infinite.
 *
 * "fp8": float8_e4m3 with one scale for 32 elements, as the Open Compute Project's MXFP8: 33 bytes
 * for 32 elements. The scale is the least power of two with which the block's largest finite
 * magnitude A is at most 448: scaling is exact then, decoded values are encoded without error, and
 * a scale takes a byte. A value x below 3.29e38 changes by at most
 * max(|x| / 16, A / 229376, 2^-137); larger ones may become infinite. Infinities become NaN. */
TUTTI_API tutti_status tutti_codec_from_name(const char* name, const tutti_codec** out);

/* What encoding changed on this rank: of its vector, and of the part of the result that it owns. */
typedef struct tutti_codec_error {
  size_t size;         /* sizeof(tutti_codec_error), set by the caller */
  double max_error;    /* the greatest |decoded - given| */
  double rms_error;    /* root of the mean of its squares */
  double rms_value;    /* the same of what was given, to compare with */
  uint64_t not_finite; /* elements left out: infinite or NaN, before or after */
} tutti_codec_error;

/* Collective. As tutti_allreduce() of `count` float32, but encoded on the way: with Q for encoding
 * and decoding, recv = Q(Q(vector of rank 0) op Q(vector of rank 1) op ...), in float32 and in rank
 * order; on all ranks the same bits. An element is encoded twice, whatever the number of ranks
 * (two-shot). The codec is the caller's and must live until the call returns. */
TUTTI_API tutti_status tutti_allreduce_coded(const void* send, void* recv, size_t count,
                                             tutti_op op, const tutti_codec* codec,
                                             tutti_comm comm);
/* `error` may be NULL; measuring costs one more decoding. */
TUTTI_API tutti_status tutti_allreduce_coded_with(const void* send, void* recv, size_t count,
                                                  tutti_op op, const tutti_codec* codec,
                                                  tutti_comm comm, const tutti_call_config* config,
                                                  tutti_codec_error* error);

/* ---------------------------------------------------------------- point to point */

/* In order per pair of ranks; type, count and tag must agree on both sides. A send may end before
 * its receive begins; it may also wait for it. To itself a rank cannot send. */
TUTTI_API tutti_status tutti_send(const void* buffer, size_t count, tutti_dtype dtype, int peer,
                                  int tag, tutti_comm comm);
TUTTI_API tutti_status tutti_recv(void* buffer, size_t count, tutti_dtype dtype, int peer, int tag,
                                  tutti_comm comm);
TUTTI_API tutti_status tutti_send_with(const void* buffer, size_t count, tutti_dtype dtype,
                                       int peer, int tag, tutti_comm comm,
                                       const tutti_call_config* config);
TUTTI_API tutti_status tutti_recv_with(void* buffer, size_t count, tutti_dtype dtype, int peer,
                                       int tag, tutti_comm comm, const tutti_call_config* config);
#define TUTTI_NO_PEER (-1)
/* Sends to rank `to` and receives from rank `from` at once, so that a ring of ranks does not wait
 * in a circle. TUTTI_NO_PEER as either leaves that half out. The buffers must not overlap. */
TUTTI_API tutti_status tutti_sendrecv(const void* send, size_t send_count, int to, int send_tag,
                                      void* recv, size_t recv_count, int from, int recv_tag,
                                      tutti_dtype dtype, tutti_comm comm);
TUTTI_API tutti_status tutti_sendrecv_with(const void* send, size_t send_count, int to,
                                           int send_tag, void* recv, size_t recv_count, int from,
                                           int recv_tag, tutti_dtype dtype, tutti_comm comm,
                                           const tutti_call_config* config);

/* Between the two, sends and receives on the communicator are only recorded; tutti_group_end() runs
 * them all concurrently, those of a pair of ranks in order, and returns when they have ended. Their
 * buffers must stay until then; their configs are only checked, and the limit is that of
 * tutti_group_end_with(). Collective calls are INVALID in between. */
TUTTI_API tutti_status tutti_group_begin(tutti_comm comm);
TUTTI_API tutti_status tutti_group_end(tutti_comm comm);
TUTTI_API tutti_status tutti_group_end_with(tutti_comm comm, const tutti_call_config* config);
/* Discards what was recorded. */
TUTTI_API tutti_status tutti_group_cancel(tutti_comm comm);

/* ---------------------------------------------------------------- nonblocking and persistent */

/* A nonblocking or persistent call. NULL: none. */
typedef struct tutti_request_s* tutti_request;

/* The i forms begin a call and return; it has ended when tutti_wait() or a tutti_test() that says
 * so has returned. Any number may be in flight on a communicator. They run in the order in which
 * they were begun, which must be the same on all ranks; blocking calls made meanwhile run behind
 * them. Adjacent messages run concurrently, those of a pair of ranks in order. Until a call has
 * ended its buffers belong to the library; counts and displacements are copied. Arguments are as in
 * the form without i, `config` may be NULL. On failure *request is NULL and nothing was begun; a
 * later failure is the status of the function that finds the end.
 *
 * Calls progress while any thread of the process waits or tests, on any communicator; with a
 * progress thread (tutti_comm_config, TUTTI_PROGRESS_THREAD) at any time. The limit counts from
 * entering each wait; of tutti_waitany() it is that of the first request in the list. A request has
 * one thread at a time, and its communicator's threads must not be in another call on it meanwhile.
 */
TUTTI_API tutti_status tutti_iallreduce(const void* send, void* recv, size_t count,
                                        tutti_dtype dtype, tutti_op op, tutti_comm comm,
                                        const tutti_call_config* config, tutti_request* request);
TUTTI_API tutti_status tutti_ireduce(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                     tutti_op op, int root, tutti_comm comm,
                                     const tutti_call_config* config, tutti_request* request);
TUTTI_API tutti_status tutti_ibroadcast(void* buffer, size_t count, tutti_dtype dtype, int root,
                                        tutti_comm comm, const tutti_call_config* config,
                                        tutti_request* request);
TUTTI_API tutti_status tutti_iallgather(const void* send, void* recv, size_t count,
                                        tutti_dtype dtype, tutti_comm comm,
                                        const tutti_call_config* config, tutti_request* request);
TUTTI_API tutti_status tutti_iallgatherv(const void* send, size_t send_count, void* recv,
                                         const size_t* counts, const size_t* displs,
                                         tutti_dtype dtype, tutti_comm comm,
                                         const tutti_call_config* config, tutti_request* request);
TUTTI_API tutti_status tutti_igather(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                     int root, tutti_comm comm, const tutti_call_config* config,
                                     tutti_request* request);
TUTTI_API tutti_status tutti_igatherv(const void* send, size_t send_count, void* recv,
                                      const size_t* counts, const size_t* displs, tutti_dtype dtype,
                                      int root, tutti_comm comm, const tutti_call_config* config,
                                      tutti_request* request);
TUTTI_API tutti_status tutti_iscatter(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                      int root, tutti_comm comm, const tutti_call_config* config,
                                      tutti_request* request);
TUTTI_API tutti_status tutti_iscatterv(const void* send, const size_t* counts, const size_t* displs,
                                       void* recv, size_t recv_count, tutti_dtype dtype, int root,
                                       tutti_comm comm, const tutti_call_config* config,
                                       tutti_request* request);
TUTTI_API tutti_status tutti_ireduce_scatter_block(const void* send, void* recv, size_t count,
                                                   tutti_dtype dtype, tutti_op op, tutti_comm comm,
                                                   const tutti_call_config* config,
                                                   tutti_request* request);
TUTTI_API tutti_status tutti_ireduce_scatter(const void* send, void* recv, const size_t* counts,
                                             tutti_dtype dtype, tutti_op op, tutti_comm comm,
                                             const tutti_call_config* config,
                                             tutti_request* request);
TUTTI_API tutti_status tutti_ialltoall(const void* send, void* recv, size_t count,
                                       tutti_dtype dtype, tutti_comm comm,
                                       const tutti_call_config* config, tutti_request* request);
TUTTI_API tutti_status tutti_ialltoallv(const void* send, const size_t* send_counts,
                                        const size_t* send_displs, void* recv,
                                        const size_t* recv_counts, const size_t* recv_displs,
                                        tutti_dtype dtype, tutti_comm comm,
                                        const tutti_call_config* config, tutti_request* request);
TUTTI_API tutti_status tutti_iscan(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                   tutti_op op, tutti_comm comm, const tutti_call_config* config,
                                   tutti_request* request);
TUTTI_API tutti_status tutti_iexscan(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                     tutti_op op, tutti_comm comm, const tutti_call_config* config,
                                     tutti_request* request);
TUTTI_API tutti_status tutti_ibarrier(tutti_comm comm, const tutti_call_config* config,
                                      tutti_request* request);
TUTTI_API tutti_status tutti_isend(const void* buffer, size_t count, tutti_dtype dtype, int peer,
                                   int tag, tutti_comm comm, const tutti_call_config* config,
                                   tutti_request* request);
TUTTI_API tutti_status tutti_irecv(void* buffer, size_t count, tutti_dtype dtype, int peer, int tag,
                                   tutti_comm comm, const tutti_call_config* config,
                                   tutti_request* request);
/* Receives from any other rank: the next message of that type, count (of elements, at least 1) and
 * tag. Ranks whose messages are there at once are served in turn. *source becomes the sender's
 * rank; like the buffer it belongs to the call until the request has ended, and is undefined if it
 * fails. Messages of other types, counts and tags, and what ranks send in collective calls, are
 * left alone; what their rank sends behind them is seen once they have been received, or their
 * receives begun. Of what a rank sends, receives get their messages in the order in which they were
 * made: one from that rank made before gets its message first, one made later takes what this one
 * cannot take, or the message after it. Collective calls made later wait until this one has ended.
 * It ends with PEER_FAILED where a rank dies, or all others have freed the communicator. */
TUTTI_API tutti_status tutti_irecv_any(void* buffer, size_t count, tutti_dtype dtype, int tag,
                                       int* source, tutti_comm comm,
                                       const tutti_call_config* config, tutti_request* request);
TUTTI_API tutti_status tutti_isendrecv(const void* send, size_t send_count, int to, int send_tag,
                                       void* recv, size_t recv_count, int from, int recv_tag,
                                       tutti_dtype dtype, tutti_comm comm,
                                       const tutti_call_config* config, tutti_request* request);

/* The _init forms make a request for a call that is begun by tutti_start(), as often as the program
 * likes: the arguments, but not the contents of buffers, are read now. They send nothing. The
 * request lives until tutti_request_free(). */
TUTTI_API tutti_status tutti_allreduce_init(const void* send, void* recv, size_t count,
                                            tutti_dtype dtype, tutti_op op, tutti_comm comm,
                                            const tutti_call_config* config,
                                            tutti_request* request);
TUTTI_API tutti_status tutti_reduce_init(const void* send, void* recv, size_t count,
                                         tutti_dtype dtype, tutti_op op, int root, tutti_comm comm,
                                         const tutti_call_config* config, tutti_request* request);
TUTTI_API tutti_status tutti_broadcast_init(void* buffer, size_t count, tutti_dtype dtype, int root,
                                            tutti_comm comm, const tutti_call_config* config,
                                            tutti_request* request);
TUTTI_API tutti_status tutti_allgather_init(const void* send, void* recv, size_t count,
                                            tutti_dtype dtype, tutti_comm comm,
                                            const tutti_call_config* config,
                                            tutti_request* request);
TUTTI_API tutti_status tutti_allgatherv_init(const void* send, size_t send_count, void* recv,
                                             const size_t* counts, const size_t* displs,
                                             tutti_dtype dtype, tutti_comm comm,
                                             const tutti_call_config* config,
                                             tutti_request* request);
TUTTI_API tutti_status tutti_gather_init(const void* send, void* recv, size_t count,
                                         tutti_dtype dtype, int root, tutti_comm comm,
                                         const tutti_call_config* config, tutti_request* request);
TUTTI_API tutti_status tutti_gatherv_init(const void* send, size_t send_count, void* recv,
                                          const size_t* counts, const size_t* displs,
                                          tutti_dtype dtype, int root, tutti_comm comm,
                                          const tutti_call_config* config, tutti_request* request);
TUTTI_API tutti_status tutti_scatter_init(const void* send, void* recv, size_t count,
                                          tutti_dtype dtype, int root, tutti_comm comm,
                                          const tutti_call_config* config, tutti_request* request);
TUTTI_API tutti_status tutti_scatterv_init(const void* send, const size_t* counts,
                                           const size_t* displs, void* recv, size_t recv_count,
                                           tutti_dtype dtype, int root, tutti_comm comm,
                                           const tutti_call_config* config, tutti_request* request);
TUTTI_API tutti_status tutti_reduce_scatter_block_init(const void* send, void* recv, size_t count,
                                                       tutti_dtype dtype, tutti_op op,
                                                       tutti_comm comm,
                                                       const tutti_call_config* config,
                                                       tutti_request* request);
TUTTI_API tutti_status tutti_reduce_scatter_init(const void* send, void* recv, const size_t* counts,
                                                 tutti_dtype dtype, tutti_op op, tutti_comm comm,
                                                 const tutti_call_config* config,
                                                 tutti_request* request);
TUTTI_API tutti_status tutti_alltoall_init(const void* send, void* recv, size_t count,
                                           tutti_dtype dtype, tutti_comm comm,
                                           const tutti_call_config* config, tutti_request* request);
TUTTI_API tutti_status tutti_alltoallv_init(const void* send, const size_t* send_counts,
                                            const size_t* send_displs, void* recv,
                                            const size_t* recv_counts, const size_t* recv_displs,
                                            tutti_dtype dtype, tutti_comm comm,
                                            const tutti_call_config* config,
                                            tutti_request* request);
TUTTI_API tutti_status tutti_scan_init(const void* send, void* recv, size_t count,
                                       tutti_dtype dtype, tutti_op op, tutti_comm comm,
                                       const tutti_call_config* config, tutti_request* request);
TUTTI_API tutti_status tutti_exscan_init(const void* send, void* recv, size_t count,
                                         tutti_dtype dtype, tutti_op op, tutti_comm comm,
                                         const tutti_call_config* config, tutti_request* request);
TUTTI_API tutti_status tutti_barrier_init(tutti_comm comm, const tutti_call_config* config,
                                          tutti_request* request);
TUTTI_API tutti_status tutti_send_init(const void* buffer, size_t count, tutti_dtype dtype,
                                       int peer, int tag, tutti_comm comm,
                                       const tutti_call_config* config, tutti_request* request);
TUTTI_API tutti_status tutti_recv_init(void* buffer, size_t count, tutti_dtype dtype, int peer,
                                       int tag, tutti_comm comm, const tutti_call_config* config,
                                       tutti_request* request);
TUTTI_API tutti_status tutti_sendrecv_init(const void* send, size_t send_count, int to,
                                           int send_tag, void* recv, size_t recv_count, int from,
                                           int recv_tag, tutti_dtype dtype, tutti_comm comm,
                                           const tutti_call_config* config, tutti_request* request);

/* Begins the call of an _init form, as its i form would. INVALID while it is in flight. */
TUTTI_API tutti_status tutti_start(tutti_request request);
/* The same for requests[0] ... requests[n-1]. Stops at the first that cannot be started. */
TUTTI_API tutti_status tutti_startall(size_t n, const tutti_request* requests);

/* Returns when the call has ended, with its status; the sentence is at tutti_last_error() and at
 * the communicator. *request becomes NULL, unless it can be started again. OK at once where nothing
 * is in flight. */
TUTTI_API tutti_status tutti_wait(tutti_request* request);
/* For all of requests[0] ... requests[n-1], also when one fails; then the status of the first that
 * did. */
TUTTI_API tutti_status tutti_waitall(size_t n, tutti_request* requests);
#define TUTTI_NO_REQUEST ((size_t)-1)
/* Waits until one of them has ended: *index says which; TUTTI_NO_REQUEST: none is in flight. */
TUTTI_API tutti_status tutti_waitany(size_t n, tutti_request* requests, size_t* index);
/* Advances calls and sets *ended to 1 if this one has ended, as tutti_wait(), else to 0. Never
 * blocks. */
TUTTI_API tutti_status tutti_test(tutti_request* request, int* ended);
/* Frees the request of an _init form. INVALID while it is in flight. NULL is allowed. */
TUTTI_API tutti_status tutti_request_free(tutti_request* request);

/* ---------------------------------------------------------------- stream-ordered calls */

/* The _on forms: collectives on memory of the communicator's GPU, in the order of `stream` (a
 * cudaStream_t or CUstream of that GPU; NULL: the null stream). They enqueue and return: OK says no
 * more than that the arguments are right; tutti_comm_device_status() tells what became of the call
 * once the stream has reached it. Work behind the call on the stream may use its buffers. Calls on
 * a communicator run in the order in which they are made, on whatever streams; all ranks make them
 * in the same order. `config` may be NULL; its deadline counts from when the call's turn comes on
 * the GPU. When it passes, a rank dies or the communicator is aborted, what waits on the GPU is
 * released.
 *
 * They can be captured into a CUDA graph, on all ranks alike, and replayed with changed data; calls
 * made before the capture must have ended before the graph is launched, and two launches may not
 * overlap.
 *
 * Where the ranks' GPUs cannot reach each other, on different hosts for one, the hosts make the
 * calls, on a thread of the library: in slices of 2 MiB through pinned memory, with copies that
 * overlap with the network. The bits are those of the same call of each slice in memory of the
 * host; the deadline is that of each slice.
 *
 * UNSUPPORTED where the communicator has no device, for pre-multiplied sums and, where the GPUs
 * reach each other, for what has no kernel: the program's own types and operators, accumulators,
 * and the level `exact`. */
TUTTI_API tutti_status tutti_allreduce_on(const void* send, void* recv, size_t count,
                                          tutti_dtype dtype, tutti_op op, tutti_comm comm,
                                          const tutti_call_config* config, void* stream);
TUTTI_API tutti_status tutti_reduce_on(const void* send, void* recv, size_t count,
                                       tutti_dtype dtype, tutti_op op, int root, tutti_comm comm,
                                       const tutti_call_config* config, void* stream);
TUTTI_API tutti_status tutti_broadcast_on(void* buffer, size_t count, tutti_dtype dtype, int root,
                                          tutti_comm comm, const tutti_call_config* config,
                                          void* stream);
TUTTI_API tutti_status tutti_allgather_on(const void* send, void* recv, size_t count,
                                          tutti_dtype dtype, tutti_comm comm,
                                          const tutti_call_config* config, void* stream);
TUTTI_API tutti_status tutti_gather_on(const void* send, void* recv, size_t count,
                                       tutti_dtype dtype, int root, tutti_comm comm,
                                       const tutti_call_config* config, void* stream);
TUTTI_API tutti_status tutti_scatter_on(const void* send, void* recv, size_t count,
                                        tutti_dtype dtype, int root, tutti_comm comm,
                                        const tutti_call_config* config, void* stream);
TUTTI_API tutti_status tutti_reduce_scatter_block_on(const void* send, void* recv, size_t count,
                                                     tutti_dtype dtype, tutti_op op,
                                                     tutti_comm comm,
                                                     const tutti_call_config* config, void* stream);
TUTTI_API tutti_status tutti_alltoall_on(const void* send, void* recv, size_t count,
                                         tutti_dtype dtype, tutti_comm comm,
                                         const tutti_call_config* config, void* stream);
TUTTI_API tutti_status tutti_scan_on(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                     tutti_op op, tutti_comm comm, const tutti_call_config* config,
                                     void* stream);
TUTTI_API tutti_status tutti_exscan_on(const void* send, void* recv, size_t count,
                                       tutti_dtype dtype, tutti_op op, tutti_comm comm,
                                       const tutti_call_config* config, void* stream);
/* What comes after it on any rank's stream begins when all ranks' streams have reached it. */
TUTTI_API tutti_status tutti_barrier_on(tutti_comm comm, const tutti_call_config* config,
                                        void* stream);

/* ---------------------------------------------------------------- algorithms */

/* An algorithm that calls can name. */
typedef struct tutti_algorithm_info {
  size_t size;            /* sizeof(tutti_algorithm_info), set by the caller */
  const char* name;       /* static storage, as all strings here */
  const char* collective; /* "allreduce", "broadcast", "reduce_scatter" ... */
  const char* about;      /* one sentence */
} tutti_algorithm_info;
/* The index-th algorithm; INVALID past the last one. */
TUTTI_API tutti_status tutti_algorithm_get(size_t index, tutti_algorithm_info* out);

/* What an allreduce with these arguments would run, and why. Local, sends nothing. UNSUPPORTED,
 * with the reason as the last error and in `reason`, when config forces what cannot run. */
typedef struct tutti_explanation {
  size_t size;         /* sizeof(tutti_explanation), set by the caller */
  char algorithm[32];  /* the choice */
  char path[32];       /* how it runs: "fused", "schedule" */
  char transport[32];  /* as of tutti_comm_transport() */
  char reason[256];    /* one sentence */
  double predicted_us; /* by the model, of as many elements as the next power of two; 0: no model */
  char runner_up[32];  /* the next best; "" if none applies */
  double runner_up_us; /* its predicted_us */
  char tuning[32];     /* id of the tuning table, and ", measured" of such; "default": none */
  /* Ways with the same bits are tried in the first calls of a size class and settled by their time
   * on all ranks. Then `algorithm` is the settled way's and `runner_up` the next best way's. */
  double measured_us; /* what its calls took here, the median, of as many elements; 0: not tried */
  double runner_up_measured_us; /* what the runner-up's took */
  char way[48];                 /* "in slices, ring in cache"; "" if there is one way only */
  char runner_up_way[48];       /* the runner-up's */
} tutti_explanation;
TUTTI_API tutti_status tutti_allreduce_explain(size_t count, tutti_dtype dtype, tutti_op op,
                                               tutti_comm comm, const tutti_call_config* config,
                                               tutti_explanation* out);

/* ---------------------------------------------------------------- log */

/* How grave a message of the library is. */
typedef enum tutti_log_level {
  TUTTI_LOG_ERROR = 0,
  TUTTI_LOG_WARNING = 1,
  TUTTI_LOG_INFO = 2,
  TUTTI_LOG_DEBUG = 3
} tutti_log_level;
/* Where messages go besides TUTTI_LOG; NULL, the default: nowhere. Process-wide; called from any
 * thread, also the library's own; must not call tutti. What it throws is dropped. */
typedef void (*tutti_log_fn)(tutti_log_level level, const char* text, void* context);
TUTTI_API void tutti_log_set(tutti_log_fn log, void* context);

#ifdef __cplusplus
}
#endif
#endif /* TUTTI_TUTTI_H */
