// The collectives of the C API: entry(name, parameters, arguments), as all forms of a collective
// begin. A new one is a row here, its declarations in tutti.h, and the function that checks its
// arguments (make_call.cc).
#pragma once

// clang-format off
#define TUTTI_EQUAL_BLOCK_COLLECTIVES(entry)                                                      \
  entry(allreduce, (const void* send, void* recv, size_t count, tutti_dtype dtype, tutti_op op),  \
      (send, recv, count, dtype, op))                                                             \
  entry(reduce, (const void* send, void* recv, size_t count, tutti_dtype dtype, tutti_op op,      \
        int root),                                                                                \
      (send, recv, count, dtype, op, root))                                                       \
  entry(broadcast, (void* buffer, size_t count, tutti_dtype dtype, int root),                     \
      (buffer, count, dtype, root))                                                               \
  entry(allgather, (const void* send, void* recv, size_t count, tutti_dtype dtype),               \
      (send, recv, count, dtype))                                                                 \
  entry(gather, (const void* send, void* recv, size_t count, tutti_dtype dtype, int root),        \
      (send, recv, count, dtype, root))                                                           \
  entry(scatter, (const void* send, void* recv, size_t count, tutti_dtype dtype, int root),       \
      (send, recv, count, dtype, root))                                                           \
  entry(reduce_scatter_block, (const void* send, void* recv, size_t count, tutti_dtype dtype,     \
        tutti_op op),                                                                             \
      (send, recv, count, dtype, op))                                                             \
  entry(alltoall, (const void* send, void* recv, size_t count, tutti_dtype dtype),                \
      (send, recv, count, dtype))                                                                 \
  entry(scan, (const void* send, void* recv, size_t count, tutti_dtype dtype, tutti_op op),       \
      (send, recv, count, dtype, op))                                                             \
  entry(exscan, (const void* send, void* recv, size_t count, tutti_dtype dtype, tutti_op op),     \
      (send, recv, count, dtype, op))                                                             \
  entry(barrier, (), ())

// Blocks with lengths of their own. They have no stream-ordered form.
#define TUTTI_V_COLLECTIVES(entry)                                                                \
  entry(allgatherv, (const void* send, size_t send_count, void* recv, const size_t* counts,       \
        const size_t* displs, tutti_dtype dtype),                                                 \
      (send, send_count, recv, counts, displs, dtype))                                            \
  entry(gatherv, (const void* send, size_t send_count, void* recv, const size_t* counts,          \
        const size_t* displs, tutti_dtype dtype, int root),                                       \
      (send, send_count, recv, counts, displs, dtype, root))                                      \
  entry(scatterv, (const void* send, const size_t* counts, const size_t* displs, void* recv,      \
        size_t recv_count, tutti_dtype dtype, int root),                                          \
      (send, counts, displs, recv, recv_count, dtype, root))                                      \
  entry(reduce_scatter, (const void* send, void* recv, const size_t* counts, tutti_dtype dtype,   \
        tutti_op op),                                                                             \
      (send, recv, counts, dtype, op))                                                            \
  entry(alltoallv, (const void* send, const size_t* send_counts, const size_t* send_displs,       \
        void* recv, const size_t* recv_counts, const size_t* recv_displs, tutti_dtype dtype),     \
      (send, send_counts, send_displs, recv, recv_counts, recv_displs, dtype))

#define TUTTI_COLLECTIVES(entry) TUTTI_EQUAL_BLOCK_COLLECTIVES(entry) TUTTI_V_COLLECTIVES(entry)
// clang-format on

// What is in parentheses, before or behind something else.
#define TUTTI_BEFORE(...) __VA_ARGS__ __VA_OPT__(, )
#define TUTTI_BEHIND(...) __VA_OPT__(, ) __VA_ARGS__
