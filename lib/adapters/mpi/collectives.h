// The collectives, for counts of any type: `host` is the same call of the host MPI, for what tutti
// does not take. That is decided by what the standard makes equal on all ranks: the communicator,
// counts, operators, and types as far as they are. Buffers, and types in calls where ranks may
// describe the same data differently, decide nothing: what has gaps is packed.
#pragma once

#include <algorithm>
#include <climits>
#include <cstdint>
#include <exception>
#include <new>
#include <stdexcept>

#include "lib/adapters/mpi/job.h"
#include "lib/adapters/mpi/types.h"
#include "lib/base/clock.h"

namespace tutti::mpi {

template <class Host>
int by_host(Comm* kept, Function function, Why why, const Host& host) {
  if (kept != nullptr) {
    ++kept->counters.of(function).by_host[size_t(why)];
  } else {
    count_without_comm(function);
  }
  return host();
}

inline int carried(Comm& kept, MPI_Comm comm, Function function, uint64_t bytes,
                   tutti_status status) {
  if (status != TUTTI_OK) [[unlikely]]
    return raise(kept, comm, status);
  Counters::OfFunction& counts = kept.counters.of(function);
  ++counts.calls;
  counts.bytes += bytes;
  return MPI_SUCCESS;
}

// Elements with gaps, one after the other without; and back. Throw where the host refuses.
void pack(const void* from, int64_t count, MPI_Datatype type, const Type& known, char* to);
void unpack(const char* from, int64_t count, MPI_Datatype type, const Type& known, void* to);

// One program's buffer of elements one after the other.
struct Elements {
  const Type* known;
  MPI_Datatype type;
  int64_t count;
  size_t bytes() const { return size_t(count) * known->size; }
};

inline char* at(const void* buffer, ptrdiff_t bytes) {
  return static_cast<char*>(const_cast<void*>(buffer)) + bytes;
}

// Where the data of a buffer lies without gaps: itself, or packed into `scratch`.
const void* gapless(const void* buffer, const Elements& elements, std::vector<char>* scratch);
// Where such data is to be received, and its way home.
char* room_for(void* buffer, const Elements& elements, std::vector<char>* scratch);
void bring_home(const char* data, void* buffer, const Elements& elements);

// Blocks of different lengths in one buffer, in bytes.
struct Blocks {
  char* data;  // of the first; without gaps they follow each other
  const size_t* lengths;
  const size_t* places;  // null: one after the other
};
template <class Count, class Place>
Blocks blocks_of(const void* buffer, const Count* counts, const Place* places, int nranks,
                 const Type& known, std::vector<size_t>* lengths, std::vector<size_t>* offsets) {
  lengths->resize(size_t(nranks));
  offsets->resize(size_t(nranks));
  ptrdiff_t least = PTRDIFF_MAX;
  for (int i = 0; i < nranks; ++i) {
    (*lengths)[size_t(i)] = size_t(counts[i]) * known.size;
    if (counts[i] > 0) least = std::min(least, ptrdiff_t(places[i]) * known.extent);
  }
  if (least == PTRDIFF_MAX) least = 0;
  for (int i = 0; i < nranks; ++i) {
    (*offsets)[size_t(i)] = counts[i] > 0 ? size_t(ptrdiff_t(places[i]) * known.extent - least) : 0;
  }
  return {at(buffer, least), lengths->data(), offsets->data()};
}
template <class Count, class Place>
void pack_blocks(const void* buffer, const Count* counts, const Place* places, int nranks,
                 MPI_Datatype type, const Type& known, Blocks* blocks, std::vector<char>* scratch,
                 bool with_content) {
  size_t total = 0;
  for (int i = 0; i < nranks; ++i) total += blocks->lengths[i];
  scratch->resize(total + 1);
  char* to = scratch->data();
  for (int i = 0; with_content && i < nranks; ++i) {
    pack(at(buffer, ptrdiff_t(places[i]) * known.extent), counts[i], type, known, to);
    to += blocks->lengths[i];
  }
  blocks->data = scratch->data();
  blocks->places = nullptr;
}
template <class Count, class Place>
void unpack_blocks(const Blocks& blocks, void* buffer, const Count* counts, const Place* places,
                   int nranks, MPI_Datatype type, const Type& known) {
  const char* from = blocks.data;
  for (int i = 0; i < nranks; ++i) {
    unpack(from, counts[i], type, known, at(buffer, ptrdiff_t(places[i]) * known.extent));
    from += blocks.lengths[i];
  }
}

// Runs a call that other ranks wait for: what is thrown ends the communicator.
template <class Call>
tutti_status run(Comm& kept, Call&& call) {
  try {
    return call();
  } catch (const std::exception& thrown) {
    tutti_comm_abort(kept.own, thrown.what());
    return tutti_barrier(kept.own);  // says what has become of the communicator
  }
}

inline void expect_own_block(size_t given, size_t wanted) {
  if (given != wanted)
    throw std::runtime_error("a rank sends " + std::to_string(given) + " B to itself and expects " +
                             std::to_string(wanted) + " B");
}

// Calls of this function that tutti may take; null: the host makes it.
template <class Host>
bool taken(Comm* kept, MPI_Comm comm, Function function, const Host& host, int* result) {
  if (kept != nullptr && kept->own != nullptr) [[likely]]
    return true;
  if (kept != nullptr && make_in_time(comm, *kept)) return true;
  const Why why = kept != nullptr ? kept->why : Why::off;
  const uint64_t begun = why == Why::few ? now_ns() : 0;
  *result = by_host(kept, function, why, host);
  if (why == Why::few) kept->spent_ns += now_ns() - begun;
  return false;
}

inline bool is_rank(const Comm& kept, int root) { return root >= 0 && root < kept.nranks; }

// A reduction of `count` elements: `call` gets tutti's type and operator.
template <class Call, class Host>
int reduction(Comm& kept, MPI_Comm comm, Function function, int64_t count, MPI_Datatype type,
              MPI_Op op, const Host& host, Call&& call) {
  if (count <= 0) [[unlikely]]
    return by_host(&kept, function, count == 0 ? Why::empty : Why::arguments, host);
  const Type* const known = type_of(type);
  if (known == nullptr) [[unlikely]]
    return by_host(&kept, function, Why::arguments, host);
  const Reduction how = reduction_of(*known, op);
  const uint64_t bytes = uint64_t(count) * known->size;
  if (how.by == Reduction::By::tutti) [[likely]]
    return carried(kept, comm, function, bytes, call(how.dtype, how.op));
  if (how.by == Reduction::By::nobody) return by_host(&kept, function, Why::operation, host);
  const HostOperator in_use(op, type, known->extent);
  return carried(kept, comm, function, bytes, call(how.dtype, how.op));
}

// Programs that pass one buffer twice mean it to be in place, whatever their MPI says to it.
inline const void* input(const void* send, const void* recv) {
  return send == MPI_IN_PLACE || send == recv ? TUTTI_IN_PLACE : send;
}

template <class Host>
int allreduce(const void* send, void* recv, int64_t count, MPI_Datatype type, MPI_Op op,
              MPI_Comm comm, const Host& host) {
  Comm* const kept = comm_of(comm);
  int result = 0;
  if (!taken(kept, comm, Function::allreduce, host, &result)) return result;
  return reduction(*kept, comm, Function::allreduce, count, type, op, host,
                   [&](tutti_dtype dtype, tutti_op own) {
                     return tutti_allreduce(input(send, recv), recv, size_t(count), dtype, own,
                                            kept->own);
                   });
}

template <class Host>
int reduce(const void* send, void* recv, int64_t count, MPI_Datatype type, MPI_Op op, int root,
           MPI_Comm comm, const Host& host) {
  Comm* const kept = comm_of(comm);
  int result = 0;
  if (!taken(kept, comm, Function::reduce, host, &result)) return result;
  if (!is_rank(*kept, root)) return by_host(kept, Function::reduce, Why::arguments, host);
  const void* const in = kept->rank == root ? input(send, recv) : send;
  return reduction(*kept, comm, Function::reduce, count, type, op, host,
                   [&](tutti_dtype dtype, tutti_op own) {
                     return tutti_reduce(in, recv, size_t(count), dtype, own, root, kept->own);
                   });
}

template <class Host>
int scan(const void* send, void* recv, int64_t count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
         const Host& host) {
  Comm* const kept = comm_of(comm);
  int result = 0;
  if (!taken(kept, comm, Function::scan, host, &result)) return result;
  return reduction(
      *kept, comm, Function::scan, count, type, op, host, [&](tutti_dtype dtype, tutti_op own) {
        return tutti_scan(input(send, recv), recv, size_t(count), dtype, own, kept->own);
      });
}

template <class Host>
int exscan(const void* send, void* recv, int64_t count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
           const Host& host) {
  Comm* const kept = comm_of(comm);
  int result = 0;
  if (!taken(kept, comm, Function::exscan, host, &result)) return result;
  return reduction(
      *kept, comm, Function::exscan, count, type, op, host, [&](tutti_dtype dtype, tutti_op own) {
        return tutti_exscan(input(send, recv), recv, size_t(count), dtype, own, kept->own);
      });
}

template <class Host>
int reduce_scatter_block(const void* send, void* recv, int64_t count, MPI_Datatype type, MPI_Op op,
                         MPI_Comm comm, const Host& host) {
  Comm* const kept = comm_of(comm);
  int result = 0;
  if (!taken(kept, comm, Function::reduce_scatter_block, host, &result)) return result;
  return reduction(*kept, comm, Function::reduce_scatter_block, count, type, op, host,
                   [&](tutti_dtype dtype, tutti_op own) {
                     return tutti_reduce_scatter_block(input(send, recv), recv, size_t(count),
                                                       dtype, own, kept->own);
                   });
}

template <class Count, class Host>
int reduce_scatter(const void* send, void* recv, const Count* counts, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, const Host& host) {
  Comm* const kept = comm_of(comm);
  int result = 0;
  if (!taken(kept, comm, Function::reduce_scatter, host, &result)) return result;
  int64_t total = 0;
  std::vector<size_t>& lengths = kept->lengths[0];
  lengths.resize(size_t(kept->nranks));
  for (int i = 0; i < kept->nranks; ++i) {
    if (counts[i] < 0) return by_host(kept, Function::reduce_scatter, Why::arguments, host);
    total += int64_t(counts[i]);
    lengths[size_t(i)] = size_t(counts[i]);
  }
  return reduction(*kept, comm, Function::reduce_scatter, total, type, op, host,
                   [&](tutti_dtype dtype, tutti_op own) {
                     return tutti_reduce_scatter(input(send, recv), recv, lengths.data(), dtype,
                                                 own, kept->own);
                   });
}

template <class Host>
int barrier(MPI_Comm comm, const Host& host) {
  Comm* const kept = comm_of(comm);
  int result = 0;
  if (!taken(kept, comm, Function::barrier, host, &result)) return result;
  return carried(*kept, comm, Function::barrier, 0, tutti_barrier(kept->own));
}

template <class Host>
int bcast(void* buffer, int64_t count, MPI_Datatype type, int root, MPI_Comm comm,
          const Host& host) {
  Comm* const kept = comm_of(comm);
  int result = 0;
  if (!taken(kept, comm, Function::bcast, host, &result)) return result;
  const Type* const known = type_of(type);
  if (known == nullptr || count < 0 || !is_rank(*kept, root)) [[unlikely]]
    return by_host(kept, Function::bcast, Why::arguments, host);
  const Elements elements{known, type, count};
  const size_t bytes = elements.bytes();
  if (bytes == 0) return by_host(kept, Function::bcast, Why::empty, host);
  if (known->contiguous) [[likely]]
    return carried(*kept, comm, Function::bcast, bytes,
                   tutti_broadcast(buffer, bytes, TUTTI_UINT8, root, kept->own));
  const tutti_status status = run(*kept, [&] {
    std::vector<char>& scratch = kept->packed[0];
    const bool gives = kept->rank == root;
    if (gives) {
      gapless(buffer, elements, &scratch);
    } else {
      room_for(buffer, elements, &scratch);
    }
    const tutti_status ended = tutti_broadcast(scratch.data(), bytes, TUTTI_UINT8, root, kept->own);
    if (ended == TUTTI_OK && !gives) bring_home(scratch.data(), buffer, elements);
    return ended;
  });
  return carried(*kept, comm, Function::bcast, bytes, status);
}

// What a rank gives to a gathering: `own`, at `send`, or in place `mine`, which begins with that
// element of `recv`.
inline const void* given(bool in_place, const void* send, const Elements& own, const void* recv,
                         int64_t first, const Elements& mine, std::vector<char>* scratch) {
  if (!in_place) return gapless(send, own, scratch);
  if (mine.known->contiguous) return TUTTI_IN_PLACE;
  return gapless(at(recv, ptrdiff_t(first) * mine.known->extent), mine, scratch);
}

template <class Host>
int allgather(const void* send, int64_t send_count, MPI_Datatype send_type, void* recv,
              int64_t recv_count, MPI_Datatype recv_type, MPI_Comm comm, const Host& host) {
  Comm* const kept = comm_of(comm);
  int result = 0;
  if (!taken(kept, comm, Function::allgather, host, &result)) return result;
  const bool in_place = send == MPI_IN_PLACE;
  const Type* const to = type_of(recv_type);
  const Type* const from = in_place ? to : type_of(send_type);
  if (to == nullptr || from == nullptr || recv_count < 0 || (!in_place && send_count < 0))
    return by_host(kept, Function::allgather, Why::arguments, host);
  const size_t bytes = size_t(recv_count) * to->size;
  if (bytes == 0) return by_host(kept, Function::allgather, Why::empty, host);
  const tutti_status status = run(*kept, [&] {
    const Elements all{to, recv_type, recv_count * kept->nranks};
    const Elements own{from, send_type, send_count};
    if (!in_place) expect_own_block(own.bytes(), bytes);
    const void* const in = given(in_place, send, own, recv, in_place ? kept->rank * recv_count : 0,
                                 {to, recv_type, recv_count}, &kept->packed[0]);
    char* const out = room_for(recv, all, &kept->packed[1]);
    const tutti_status ended = tutti_allgather(in, out, bytes, TUTTI_UINT8, kept->own);
    if (ended == TUTTI_OK) bring_home(out, recv, all);
    return ended;
  });
  return carried(*kept, comm, Function::allgather, bytes * size_t(kept->nranks), status);
}

template <class Host>
int gather(const void* send, int64_t send_count, MPI_Datatype send_type, void* recv,
           int64_t recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm, const Host& host) {
  Comm* const kept = comm_of(comm);
  int result = 0;
  if (!taken(kept, comm, Function::gather, host, &result)) return result;
  const bool is_root = kept->rank == root, in_place = is_root && send == MPI_IN_PLACE;
  const Type* const to = is_root ? type_of(recv_type) : nullptr;
  const Type* const from = in_place ? to : type_of(send_type);
  if (!is_rank(*kept, root) || from == nullptr || (is_root && (to == nullptr || recv_count < 0)) ||
      (!in_place && send_count < 0))
    return by_host(kept, Function::gather, Why::arguments, host);
  const size_t bytes = is_root ? size_t(recv_count) * to->size : size_t(send_count) * from->size;
  if (bytes == 0) return by_host(kept, Function::gather, Why::empty, host);
  const tutti_status status = run(*kept, [&] {
    const Elements own{from, send_type, send_count};
    if (!in_place) expect_own_block(own.bytes(), bytes);
    const void* const in = given(in_place, send, own, recv, in_place ? kept->rank * recv_count : 0,
                                 {to, recv_type, recv_count}, &kept->packed[0]);
    if (!is_root) return tutti_gather(in, nullptr, bytes, TUTTI_UINT8, root, kept->own);
    const Elements all{to, recv_type, recv_count * kept->nranks};
    char* const out = room_for(recv, all, &kept->packed[1]);
    const tutti_status ended = tutti_gather(in, out, bytes, TUTTI_UINT8, root, kept->own);
    if (ended == TUTTI_OK) bring_home(out, recv, all);
    return ended;
  });
  return carried(*kept, comm, Function::gather, is_root ? bytes * size_t(kept->nranks) : bytes,
                 status);
}

template <class Host>
int scatter(const void* send, int64_t send_count, MPI_Datatype send_type, void* recv,
            int64_t recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm, const Host& host) {
  Comm* const kept = comm_of(comm);
  int result = 0;
  if (!taken(kept, comm, Function::scatter, host, &result)) return result;
  const bool is_root = kept->rank == root, in_place = is_root && recv == MPI_IN_PLACE;
  const Type* const from = is_root ? type_of(send_type) : nullptr;
  const Type* const to = in_place ? from : type_of(recv_type);
  if (!is_rank(*kept, root) || to == nullptr || (is_root && (from == nullptr || send_count < 0)) ||
      (!in_place && recv_count < 0))
    return by_host(kept, Function::scatter, Why::arguments, host);
  const size_t bytes = is_root ? size_t(send_count) * from->size : size_t(recv_count) * to->size;
  if (bytes == 0) return by_host(kept, Function::scatter, Why::empty, host);
  const tutti_status status = run(*kept, [&] {
    const void* in = nullptr;
    if (is_root) in = gapless(send, {from, send_type, send_count * kept->nranks}, &kept->packed[0]);
    if (in_place)
      return tutti_scatter(in, const_cast<void*>(TUTTI_IN_PLACE), bytes, TUTTI_UINT8, root,
                           kept->own);
    const Elements own{to, recv_type, recv_count};
    expect_own_block(own.bytes(), bytes);
    char* const out = room_for(recv, own, &kept->packed[1]);
    const tutti_status ended = tutti_scatter(in, out, bytes, TUTTI_UINT8, root, kept->own);
    if (ended == TUTTI_OK) bring_home(out, recv, own);
    return ended;
  });
  return carried(*kept, comm, Function::scatter, is_root ? bytes * size_t(kept->nranks) : bytes,
                 status);
}

template <class Host>
int alltoall(const void* send, int64_t send_count, MPI_Datatype send_type, void* recv,
             int64_t recv_count, MPI_Datatype recv_type, MPI_Comm comm, const Host& host) {
  Comm* const kept = comm_of(comm);
  int result = 0;
  if (!taken(kept, comm, Function::alltoall, host, &result)) return result;
  const bool in_place = send == MPI_IN_PLACE;
  const Type* const to = type_of(recv_type);
  const Type* const from = in_place ? to : type_of(send_type);
  if (to == nullptr || from == nullptr || recv_count < 0 || (!in_place && send_count < 0))
    return by_host(kept, Function::alltoall, Why::arguments, host);
  const size_t bytes = size_t(recv_count) * to->size;
  if (bytes == 0) return by_host(kept, Function::alltoall, Why::empty, host);
  const tutti_status status = run(*kept, [&] {
    const Elements all{to, recv_type, recv_count * kept->nranks};
    const void* in = TUTTI_IN_PLACE;
    char* out = nullptr;
    if (in_place) {
      out = const_cast<char*>(static_cast<const char*>(gapless(recv, all, &kept->packed[1])));
    } else {
      const Elements sent{from, send_type, send_count * kept->nranks};
      expect_own_block(sent.bytes(), all.bytes());
      in = gapless(send, sent, &kept->packed[0]);
      out = room_for(recv, all, &kept->packed[1]);
    }
    const tutti_status ended = tutti_alltoall(in, out, bytes, TUTTI_UINT8, kept->own);
    if (ended == TUTTI_OK) bring_home(out, recv, all);
    return ended;
  });
  return carried(*kept, comm, Function::alltoall, bytes * size_t(kept->nranks), status);
}

template <class Count>
bool counts_are_right(const Count* counts, int nranks) {
  return std::all_of(counts, counts + nranks, [](Count count) { return count >= 0; });
}

template <class Count, class Place, class Host>
int allgatherv(const void* send, int64_t send_count, MPI_Datatype send_type, void* recv,
               const Count* counts, const Place* places, MPI_Datatype recv_type, MPI_Comm comm,
               const Host& host) {
  Comm* const kept = comm_of(comm);
  int result = 0;
  if (!taken(kept, comm, Function::allgatherv, host, &result)) return result;
  const bool in_place = send == MPI_IN_PLACE;
  const int n = kept->nranks;
  const Type* const to = type_of(recv_type);
  const Type* const from = in_place ? to : type_of(send_type);
  if (to == nullptr || from == nullptr || !counts_are_right(counts, n) ||
      (!in_place && send_count < 0))
    return by_host(kept, Function::allgatherv, Why::arguments, host);
  uint64_t bytes = 0;
  const tutti_status status = run(*kept, [&] {
    Blocks blocks = blocks_of(recv, counts, places, n, *to, &kept->lengths[1], &kept->places[1]);
    const size_t own = blocks.lengths[kept->rank];
    for (int i = 0; i < n; ++i) bytes += blocks.lengths[i];
    const Elements sent{from, send_type, send_count};
    if (!in_place) expect_own_block(sent.bytes(), own);
    const void* const in = given(in_place, send, sent, recv, int64_t(places[kept->rank]),
                                 {to, recv_type, int64_t(counts[kept->rank])}, &kept->packed[0]);
    if (!to->contiguous)
      pack_blocks(recv, counts, places, n, recv_type, *to, &blocks, &kept->packed[1], false);
    const tutti_status ended = tutti_allgatherv(in, own, blocks.data, blocks.lengths, blocks.places,
                                                TUTTI_UINT8, kept->own);
    if (ended == TUTTI_OK && !to->contiguous)
      unpack_blocks(blocks, recv, counts, places, n, recv_type, *to);
    return ended;
  });
  return carried(*kept, comm, Function::allgatherv, bytes, status);
}

template <class Count, class Place, class Host>
int gatherv(const void* send, int64_t send_count, MPI_Datatype send_type, void* recv,
            const Count* counts, const Place* places, MPI_Datatype recv_type, int root,
            MPI_Comm comm, const Host& host) {
  Comm* const kept = comm_of(comm);
  int result = 0;
  if (!taken(kept, comm, Function::gatherv, host, &result)) return result;
  const bool is_root = kept->rank == root, in_place = is_root && send == MPI_IN_PLACE;
  const int n = kept->nranks;
  const Type* const to = is_root ? type_of(recv_type) : nullptr;
  const Type* const from = in_place ? to : type_of(send_type);
  if (!is_rank(*kept, root) || from == nullptr ||
      (is_root && (to == nullptr || !counts_are_right(counts, n))) || (!in_place && send_count < 0))
    return by_host(kept, Function::gatherv, Why::arguments, host);
  uint64_t bytes = 0;
  const tutti_status status = run(*kept, [&] {
    const void* in = TUTTI_IN_PLACE;
    size_t own = 0;
    if (!in_place) {
      const Elements sent{from, send_type, send_count};
      own = sent.bytes();
      in = gapless(send, sent, &kept->packed[0]);
    }
    if (!is_root) {
      bytes = own;
      return tutti_gatherv(in, own, nullptr, nullptr, nullptr, TUTTI_UINT8, root, kept->own);
    }
    Blocks blocks = blocks_of(recv, counts, places, n, *to, &kept->lengths[1], &kept->places[1]);
    for (int i = 0; i < n; ++i) bytes += blocks.lengths[i];
    if (in_place) own = blocks.lengths[kept->rank];
    if (in_place && !to->contiguous) {
      in = gapless(at(recv, ptrdiff_t(places[kept->rank]) * to->extent),
                   {to, recv_type, int64_t(counts[kept->rank])}, &kept->packed[0]);
    }
    if (!to->contiguous)
      pack_blocks(recv, counts, places, n, recv_type, *to, &blocks, &kept->packed[1], false);
    const tutti_status ended = tutti_gatherv(in, own, blocks.data, blocks.lengths, blocks.places,
                                             TUTTI_UINT8, root, kept->own);
    if (ended == TUTTI_OK && !to->contiguous)
      unpack_blocks(blocks, recv, counts, places, n, recv_type, *to);
    return ended;
  });
  return carried(*kept, comm, Function::gatherv, bytes, status);
}

template <class Count, class Place, class Host>
int scatterv(const void* send, const Count* counts, const Place* places, MPI_Datatype send_type,
             void* recv, int64_t recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm,
             const Host& host) {
  Comm* const kept = comm_of(comm);
  int result = 0;
  if (!taken(kept, comm, Function::scatterv, host, &result)) return result;
  const bool is_root = kept->rank == root, in_place = is_root && recv == MPI_IN_PLACE;
  const int n = kept->nranks;
  const Type* const from = is_root ? type_of(send_type) : nullptr;
  const Type* const to = in_place ? from : type_of(recv_type);
  if (!is_rank(*kept, root) || to == nullptr ||
      (is_root && (from == nullptr || !counts_are_right(counts, n))) ||
      (!in_place && recv_count < 0))
    return by_host(kept, Function::scatterv, Why::arguments, host);
  uint64_t bytes = 0;
  const tutti_status status = run(*kept, [&] {
    Blocks blocks{nullptr, nullptr, nullptr};
    if (is_root) {
      blocks = blocks_of(send, counts, places, n, *from, &kept->lengths[0], &kept->places[0]);
      for (int i = 0; i < n; ++i) bytes += blocks.lengths[i];
      if (!from->contiguous)
        pack_blocks(send, counts, places, n, send_type, *from, &blocks, &kept->packed[0], true);
    }
    if (in_place)
      return tutti_scatterv(blocks.data, blocks.lengths, blocks.places,
                            const_cast<void*>(TUTTI_IN_PLACE), blocks.lengths[kept->rank],
                            TUTTI_UINT8, root, kept->own);
    const Elements own{to, recv_type, recv_count};
    if (!is_root) bytes = own.bytes();
    char* const out = room_for(recv, own, &kept->packed[1]);
    const tutti_status ended = tutti_scatterv(blocks.data, blocks.lengths, blocks.places, out,
                                              own.bytes(), TUTTI_UINT8, root, kept->own);
    if (ended == TUTTI_OK) bring_home(out, recv, own);
    return ended;
  });
  return carried(*kept, comm, Function::scatterv, bytes, status);
}

template <class Count, class Place, class Host>
int alltoallv(const void* send, const Count* send_counts, const Place* send_places,
              MPI_Datatype send_type, void* recv, const Count* recv_counts,
              const Place* recv_places, MPI_Datatype recv_type, MPI_Comm comm, const Host& host) {
  Comm* const kept = comm_of(comm);
  int result = 0;
  if (!taken(kept, comm, Function::alltoallv, host, &result)) return result;
  const bool in_place = send == MPI_IN_PLACE;
  const int n = kept->nranks;
  const Type* const to = type_of(recv_type);
  const Type* const from = in_place ? to : type_of(send_type);
  if (to == nullptr || from == nullptr || !counts_are_right(recv_counts, n) ||
      (!in_place && !counts_are_right(send_counts, n)))
    return by_host(kept, Function::alltoallv, Why::arguments, host);
  uint64_t bytes = 0;
  const tutti_status status = run(*kept, [&] {
    Blocks in{nullptr, nullptr, nullptr};
    Blocks out =
        blocks_of(recv, recv_counts, recv_places, n, *to, &kept->lengths[1], &kept->places[1]);
    for (int i = 0; i < n; ++i) bytes += out.lengths[i];
    if (!to->contiguous)
      pack_blocks(recv, recv_counts, recv_places, n, recv_type, *to, &out, &kept->packed[1],
                  in_place);
    if (!in_place) {
      in = blocks_of(send, send_counts, send_places, n, *from, &kept->lengths[0], &kept->places[0]);
      if (!from->contiguous)
        pack_blocks(send, send_counts, send_places, n, send_type, *from, &in, &kept->packed[0],
                    true);
    }
    const tutti_status ended =
        tutti_alltoallv(in_place ? TUTTI_IN_PLACE : in.data, in.lengths, in.places, out.data,
                        out.lengths, out.places, TUTTI_UINT8, kept->own);
    if (ended == TUTTI_OK && !to->contiguous)
      unpack_blocks(out, recv, recv_counts, recv_places, n, recv_type, *to);
    return ended;
  });
  return carried(*kept, comm, Function::alltoallv, bytes, status);
}

}  // namespace tutti::mpi
