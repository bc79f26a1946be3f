// The collectives, for counts of any type: `host` is the same call of the host MPI, for what tutti
// does not take. That is decided by what the standard makes equal on all ranks: the communicator,
// counts, operators, and types as far as they are. Buffers, and types in calls where ranks may
// describe the same data differently, decide nothing: what has gaps, or overlaps, is copied.
// Nonblocking forms go through the same function twice: it decides, then begins the call.
#pragma once

#include <algorithm>
#include <climits>
#include <cstdint>
#include <exception>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lib/adapters/mpi/job.h"
#include "lib/adapters/mpi/nonblocking.h"
#include "lib/adapters/mpi/packing.h"
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

// The program's arrays of counts and of displacements in a nonblocking call. MPI wants them left
// alone until it has ended, but its libraries copy them, and programs (mpi4py) count on it.
class HeldArrays {
 public:
  template <class Number>
  void hold(const Number* array, int n) {
    if (array == nullptr) return;  // as where all counts are 0
    const char* const bytes = reinterpret_cast<const char*>(array);
    all_.emplace_back(array, std::vector<char>(bytes, bytes + size_t(n) * sizeof(Number)));
  }
  template <class Number>
  const Number* find(const Number* array) const {
    for (const auto& [given, copy] : all_) {
      if (given == array) return reinterpret_cast<const Number*>(copy.data());
    }
    return array;
  }

 private:
  std::vector<std::pair<const void*, std::vector<char>>> all_;
};

// In place of `host`: whether the function takes the call, and `waits` for others in it or only
// begins it.
template <class Host>
struct Decide {
  const Host& host;
  bool* is_taken;
  bool* waits;
  std::shared_ptr<HeldArrays>* held;
  int operator()() const { return host(); }
};
// In place of `host`: the function begins the call, with what the program had on that communicator;
// or makes it, if it waits.
struct Begin {
  Comm& kept;
  const HeldArrays* held;  // null: it has none
  tutti_request* request;
  bool may_wait;
  int operator()() const {
    tutti_comm_abort(kept.own, "a nonblocking call that was taken cannot be made");
    return MPI_ERR_INTERN;
  }
};
template <class Host>
constexpr bool is_nonblocking = std::is_same_v<Host, Begin>;
template <class Host>
constexpr bool is_nonblocking<Decide<Host>> = true;

template <class Host>
Comm* comm_for(MPI_Comm comm, const Host& host) {
  if constexpr (std::is_same_v<Host, Begin>) return &host.kept;
  return comm_of(comm);
}

// Whether a function that takes a call has to leave it at that. `waits`: something is left to be
// done once tutti's call has ended.
template <class Host>
constexpr bool is_decided(const Host&, bool) {
  return false;
}
template <class Host>
bool is_decided(const Decide<Host>& decide, bool waits) {
  *decide.waits = waits;
  return *decide.is_taken = true;
}

// Keeps arrays of n numbers that the call reads when it begins.
template <class Host, class... Number>
void hold(const Host&, int, const Number*...) {}
template <class Host, class... Number>
void hold(const Decide<Host>& decide, int n, const Number*... arrays) {
  if (n == 0) return;
  if (*decide.held == nullptr) *decide.held = std::make_shared<HeldArrays>();
  ((*decide.held)->hold(arrays, n), ...);
}
// Where they are then.
template <class Host, class Number>
const Number* held(const Host&, const Number* array) {
  return array;
}
template <class Number>
const Number* held(const Begin& begin, const Number* array) {
  return begin.held != nullptr ? begin.held->find(array) : array;
}

// What tutti's call is begun by; null: it is made.
template <class Host>
constexpr tutti_request* request_for(const Host&) {
  return nullptr;
}
inline tutti_request* request_for(const Begin& begin) { return begin.request; }

// What is to be copied once tutti's call has ended is for a thread that may wait for it.
template <class Host>
void expect_may_wait(const Host&) {}
inline void expect_may_wait(const Begin& begin) {
  if (!begin.may_wait) throw MustWait();
}

#define TUTTI_MPI_CALL(request, name, ...) \
  ((request) != nullptr ? tutti_i##name(__VA_ARGS__, nullptr, request) : tutti_##name(__VA_ARGS__))

// `host` of a function that not every host has: programs look for it by dlsym(), and find the
// interposer's in any case.
#define TUTTI_MPI_IF_THERE(name, ...)                                             \
  [&] {                                                                           \
    static const bool there = tutti::mpi::variable_of_host("P" #name) != nullptr; \
    return there ? P##name(__VA_ARGS__) : tutti::mpi::raise_missing(comm, #name); \
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

// Runs a call that other ranks wait for, on the buffers as they are; then, with `copied`, again
// what tutti refuses, for one because they overlap: MPI forbids that, but its libraries take it.
// Nothing has been sent by then, so that ranks need not agree. What is thrown ends the
// communicator.
template <class Host, class Call>
tutti_status run(Comm& kept, const Host& host, Call&& call) {
  try {
    const tutti_status direct = call(false);
    if (direct != TUTTI_INVALID) return direct;
    expect_may_wait(host);
    return call(true);
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

// Whether tutti may take a call of this function; else the host has made it.
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

template <class Count>
bool counts_are_right(const Count* counts, int nranks) {
  return std::all_of(counts, counts + nranks, [](Count count) { return count >= 0; });
}

inline bool is_rank(const Comm& kept, int root) { return root >= 0 && root < kept.nranks; }

// The input of a reduction: `count` elements at `data`, or the output, where that is
// TUTTI_IN_PLACE. Programs that pass one buffer twice mean it so, whatever their MPI says to it.
struct Input {
  const void* data;
  int64_t count;
};
inline Input input(const void* send, const void* recv, int64_t count) {
  return {send == MPI_IN_PLACE || send == recv ? TUTTI_IN_PLACE : send, count};
}

// Another try, with a copy of the input, where that may overlap the output.
template <class Call>
[[gnu::noinline, gnu::cold]] tutti_status reduced_again(Comm& kept, Input in, size_t extent,
                                                        Call call) {
  if (in.data == TUTTI_IN_PLACE || in.data == nullptr) return TUTTI_INVALID;
  return run(kept, nullptr, [&](bool) {
    const char* const data = static_cast<const char*>(in.data);
    kept.packed[0].assign(data, data + size_t(in.count) * extent);
    return call(kept.packed[0].data());
  });
}

template <class Call>
[[gnu::always_inline]] inline int reduced(Comm& kept, MPI_Comm comm, Function function, Input in,
                                          int64_t count, const Type& known, Reduction how,
                                          tutti_request* request, Call call) {
  const auto reduce = [=](const void* data) { return call(data, how.dtype, how.op, request); };
  tutti_status status = reduce(in.data);
  if (status == TUTTI_INVALID) [[unlikely]]
    status = reduced_again(kept, in, size_t(known.extent), reduce);
  return carried(kept, comm, function, uint64_t(count) * known.size, status);
}

// A reduction of `count` elements: `call` gets its input, and tutti's type and operator. It has
// what it needs by value: references to it would be stored by every call.
template <class Call, class Host>
[[gnu::always_inline]] inline int reduction(Comm& kept, MPI_Comm comm, Function function, Input in,
                                            int64_t count, MPI_Datatype type, MPI_Op op,
                                            const Host& host, Call call) {
  if (count <= 0) [[unlikely]]
    return by_host(&kept, function, count == 0 ? Why::empty : Why::arguments, host);
  DerivedType derived;
  const Type* const known = type_of(type, &derived);
  if (known == nullptr) [[unlikely]]
    return by_host(&kept, function, Why::arguments, host);
  const Reduction how = reduction_of(*known, op);
  if (how.by == Reduction::By::nobody) [[unlikely]]
    return by_host(&kept, function, Why::operation, host);
  if (is_nonblocking<Host> && how.by == Reduction::By::program)
    return by_host(&kept, function, Why::thread, host);
  // The host's operator is found by the thread that makes the call.
  if (is_decided(host, how.by == Reduction::By::host)) return MPI_SUCCESS;
  if (how.by == Reduction::By::tutti) [[likely]]
    return reduced(kept, comm, function, in, count, *known, how, request_for(host), call);
  const HostOperator in_use(op, type, known->extent);
  return reduced(kept, comm, function, in, count, *known, how, nullptr, call);
}

template <class Host>
int allreduce(const void* send, void* recv, int64_t count, MPI_Datatype type, MPI_Op op,
              MPI_Comm comm, const Host& host) {
  Comm* const kept = comm_for(comm, host);
  int result = 0;
  if (!taken(kept, comm, Function::allreduce, host, &result)) return result;
  return reduction(
      *kept, comm, Function::allreduce, input(send, recv, count), count, type, op, host,
      [=](const void* in, tutti_dtype dtype, tutti_op own, tutti_request* request) {
        return TUTTI_MPI_CALL(request, allreduce, in, recv, size_t(count), dtype, own, kept->own);
      });
}

template <class Host>
int reduce(const void* send, void* recv, int64_t count, MPI_Datatype type, MPI_Op op, int root,
           MPI_Comm comm, const Host& host) {
  Comm* const kept = comm_for(comm, host);
  int result = 0;
  if (!taken(kept, comm, Function::reduce, host, &result)) return result;
  if (!is_rank(*kept, root)) return by_host(kept, Function::reduce, Why::arguments, host);
  const Input given = kept->rank == root ? input(send, recv, count) : Input{send, count};
  return reduction(*kept, comm, Function::reduce, given, count, type, op, host,
                   [=](const void* in, tutti_dtype dtype, tutti_op own, tutti_request* request) {
                     return TUTTI_MPI_CALL(request, reduce, in, recv, size_t(count), dtype, own,
                                           root, kept->own);
                   });
}

template <class Host>
int scan(const void* send, void* recv, int64_t count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
         const Host& host) {
  Comm* const kept = comm_for(comm, host);
  int result = 0;
  if (!taken(kept, comm, Function::scan, host, &result)) return result;
  return reduction(*kept, comm, Function::scan, input(send, recv, count), count, type, op, host,
                   [=](const void* in, tutti_dtype dtype, tutti_op own, tutti_request* request) {
                     return TUTTI_MPI_CALL(request, scan, in, recv, size_t(count), dtype, own,
                                           kept->own);
                   });
}

template <class Host>
int exscan(const void* send, void* recv, int64_t count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
           const Host& host) {
  Comm* const kept = comm_for(comm, host);
  int result = 0;
  if (!taken(kept, comm, Function::exscan, host, &result)) return result;
  return reduction(*kept, comm, Function::exscan, input(send, recv, count), count, type, op, host,
                   [=](const void* in, tutti_dtype dtype, tutti_op own, tutti_request* request) {
                     return TUTTI_MPI_CALL(request, exscan, in, recv, size_t(count), dtype, own,
                                           kept->own);
                   });
}

template <class Host>
int reduce_scatter_block(const void* send, void* recv, int64_t count, MPI_Datatype type, MPI_Op op,
                         MPI_Comm comm, const Host& host) {
  Comm* const kept = comm_for(comm, host);
  int result = 0;
  if (!taken(kept, comm, Function::reduce_scatter_block, host, &result)) return result;
  const Input given = input(send, recv, count * kept->nranks);
  return reduction(*kept, comm, Function::reduce_scatter_block, given, count, type, op, host,
                   [=](const void* in, tutti_dtype dtype, tutti_op own, tutti_request* request) {
                     return TUTTI_MPI_CALL(request, reduce_scatter_block, in, recv, size_t(count),
                                           dtype, own, kept->own);
                   });
}

template <class Count, class Host>
int reduce_scatter(const void* send, void* recv, const Count* counts, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, const Host& host) {
  Comm* const kept = comm_for(comm, host);
  int result = 0;
  if (!taken(kept, comm, Function::reduce_scatter, host, &result)) return result;
  counts = held(host, counts);
  if (!counts_are_right(counts, kept->nranks))
    return by_host(kept, Function::reduce_scatter, Why::arguments, host);
  hold(host, kept->nranks, counts);
  const Count* const end = counts + kept->nranks;
  const int64_t total = std::accumulate(counts, end, int64_t{0});
  return reduction(*kept, comm, Function::reduce_scatter, input(send, recv, total), total, type, op,
                   host,
                   [=](const void* in, tutti_dtype dtype, tutti_op own, tutti_request* request) {
                     std::vector<size_t>& lengths = kept->lengths[0];
                     lengths.assign(counts, end);
                     return TUTTI_MPI_CALL(request, reduce_scatter, in, recv, lengths.data(), dtype,
                                           own, kept->own);
                   });
}

template <class Host>
int barrier(MPI_Comm comm, const Host& host) {
  Comm* const kept = comm_for(comm, host);
  int result = 0;
  if (!taken(kept, comm, Function::barrier, host, &result)) return result;
  if (is_decided(host, false)) return MPI_SUCCESS;
  return carried(*kept, comm, Function::barrier, 0,
                 TUTTI_MPI_CALL(request_for(host), barrier, kept->own));
}

template <class Host>
int bcast(void* buffer, int64_t count, MPI_Datatype type, int root, MPI_Comm comm,
          const Host& host) {
  Comm* const kept = comm_for(comm, host);
  int result = 0;
  if (!taken(kept, comm, Function::bcast, host, &result)) return result;
  DerivedType derived;
  const Type* const known = type_of(type, &derived);
  if (known == nullptr || count < 0 || !is_rank(*kept, root)) [[unlikely]]
    return by_host(kept, Function::bcast, Why::arguments, host);
  const Elements elements{known, type, count};
  const size_t bytes = elements.bytes();
  if (bytes == 0) return by_host(kept, Function::bcast, Why::empty, host);
  if (is_decided(host, !known->contiguous)) return MPI_SUCCESS;
  if (known->contiguous) [[likely]]
    return carried(
        *kept, comm, Function::bcast, bytes,
        TUTTI_MPI_CALL(request_for(host), broadcast, buffer, bytes, TUTTI_UINT8, root, kept->own));
  const tutti_status status = run(*kept, host, [&](bool) {
    std::vector<char>& scratch = kept->packed[0];
    const bool gives = kept->rank == root;
    if (gives) {
      gapless(buffer, elements, true, &scratch);
    } else {
      room_for(buffer, elements, true, &scratch);
    }
    const tutti_status ended = tutti_broadcast(scratch.data(), bytes, TUTTI_UINT8, root, kept->own);
    if (ended == TUTTI_OK && !gives) bring_home(scratch.data(), buffer, elements);
    return ended;
  });
  return carried(*kept, comm, Function::bcast, bytes, status);
}

// What a rank gives to a gathering: `own`, at `send`, or in place `mine`, which begins with that
// element of `recv`. Programs that pass this place as `send` mean the same.
inline const void* given(bool in_place, const void* send, const Elements& own, const void* recv,
                         int64_t first, const Elements& mine, bool copied,
                         std::vector<char>* scratch) {
  const void* const place = at(recv, ptrdiff_t(first) * mine.known->extent);
  const bool no_gaps = mine.known->contiguous && own.known->contiguous;
  if (!in_place && !(send == place && no_gaps)) return gapless(send, own, copied, scratch);
  if (mine.known->contiguous && !copied) return TUTTI_IN_PLACE;
  return gapless(place, mine, copied, scratch);
}

template <class Host>
int allgather(const void* send, int64_t send_count, MPI_Datatype send_type, void* recv,
              int64_t recv_count, MPI_Datatype recv_type, MPI_Comm comm, const Host& host) {
  Comm* const kept = comm_for(comm, host);
  int result = 0;
  if (!taken(kept, comm, Function::allgather, host, &result)) return result;
  const bool in_place = send == MPI_IN_PLACE;
  DerivedType derived_to, derived_from;
  const Type* const to = type_of(recv_type, &derived_to);
  const Type* const from = in_place ? to : type_of(send_type, &derived_from);
  if (to == nullptr || from == nullptr || recv_count < 0 || (!in_place && send_count < 0))
    return by_host(kept, Function::allgather, Why::arguments, host);
  const size_t bytes = size_t(recv_count) * to->size;
  if (bytes == 0) return by_host(kept, Function::allgather, Why::empty, host);
  const bool waits = !to->contiguous;
  if (is_decided(host, waits)) return MPI_SUCCESS;
  const tutti_status status = run(*kept, host, [&](bool copied) {
    tutti_request* const request = waits || copied ? nullptr : request_for(host);
    const Elements all{to, recv_type, recv_count * kept->nranks};
    const Elements own{from, send_type, send_count};
    if (!in_place) expect_own_block(own.bytes(), bytes);
    const void* const in = given(in_place, send, own, recv, kept->rank * recv_count,
                                 {to, recv_type, recv_count}, copied, &kept->packed[0]);
    char* const out = room_for(recv, all, copied, &kept->packed[1]);
    const tutti_status ended =
        TUTTI_MPI_CALL(request, allgather, in, out, bytes, TUTTI_UINT8, kept->own);
    if (ended == TUTTI_OK) bring_home(out, recv, all);
    return ended;
  });
  return carried(*kept, comm, Function::allgather, bytes * size_t(kept->nranks), status);
}

template <class Host>
int gather(const void* send, int64_t send_count, MPI_Datatype send_type, void* recv,
           int64_t recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm, const Host& host) {
  Comm* const kept = comm_for(comm, host);
  int result = 0;
  if (!taken(kept, comm, Function::gather, host, &result)) return result;
  const bool is_root = kept->rank == root, in_place = is_root && send == MPI_IN_PLACE;
  DerivedType derived_to, derived_from;
  const Type* const to = is_root ? type_of(recv_type, &derived_to) : nullptr;
  const Type* const from = in_place ? to : type_of(send_type, &derived_from);
  if (!is_rank(*kept, root) || from == nullptr || (is_root && (to == nullptr || recv_count < 0)) ||
      (!in_place && send_count < 0))
    return by_host(kept, Function::gather, Why::arguments, host);
  const size_t bytes = is_root ? size_t(recv_count) * to->size : size_t(send_count) * from->size;
  if (bytes == 0) return by_host(kept, Function::gather, Why::empty, host);
  const bool waits = is_root && !to->contiguous;
  if (is_decided(host, waits)) return MPI_SUCCESS;
  const tutti_status status = run(*kept, host, [&](bool copied) {
    tutti_request* const request = waits || copied ? nullptr : request_for(host);
    const Elements own{from, send_type, send_count};
    if (!in_place) expect_own_block(own.bytes(), bytes);
    if (!is_root)
      return TUTTI_MPI_CALL(request, gather, gapless(send, own, copied, &kept->packed[0]), nullptr,
                            bytes, TUTTI_UINT8, root, kept->own);
    const void* const in = given(in_place, send, own, recv, root * recv_count,
                                 {to, recv_type, recv_count}, copied, &kept->packed[0]);
    const Elements all{to, recv_type, recv_count * kept->nranks};
    char* const out = room_for(recv, all, copied, &kept->packed[1]);
    const tutti_status ended =
        TUTTI_MPI_CALL(request, gather, in, out, bytes, TUTTI_UINT8, root, kept->own);
    if (ended == TUTTI_OK) bring_home(out, recv, all);
    return ended;
  });
  return carried(*kept, comm, Function::gather, is_root ? bytes * size_t(kept->nranks) : bytes,
                 status);
}

template <class Host>
int scatter(const void* send, int64_t send_count, MPI_Datatype send_type, void* recv,
            int64_t recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm, const Host& host) {
  Comm* const kept = comm_for(comm, host);
  int result = 0;
  if (!taken(kept, comm, Function::scatter, host, &result)) return result;
  const bool is_root = kept->rank == root, in_place = is_root && recv == MPI_IN_PLACE;
  DerivedType derived_to, derived_from;
  const Type* const from = is_root ? type_of(send_type, &derived_from) : nullptr;
  const Type* const to = in_place ? from : type_of(recv_type, &derived_to);
  if (!is_rank(*kept, root) || to == nullptr || (is_root && (from == nullptr || send_count < 0)) ||
      (!in_place && recv_count < 0))
    return by_host(kept, Function::scatter, Why::arguments, host);
  const size_t bytes = is_root ? size_t(send_count) * from->size : size_t(recv_count) * to->size;
  if (bytes == 0) return by_host(kept, Function::scatter, Why::empty, host);
  const bool waits = !in_place && !to->contiguous;
  if (is_decided(host, waits)) return MPI_SUCCESS;
  const tutti_status status = run(*kept, host, [&](bool copied) {
    tutti_request* const request = waits || copied ? nullptr : request_for(host);
    const void* in = nullptr;
    if (is_root)
      in = gapless(send, {from, send_type, send_count * kept->nranks}, copied, &kept->packed[0]);
    if (in_place)
      return TUTTI_MPI_CALL(request, scatter, in, const_cast<void*>(TUTTI_IN_PLACE), bytes,
                            TUTTI_UINT8, root, kept->own);
    const Elements own{to, recv_type, recv_count};
    expect_own_block(own.bytes(), bytes);
    char* const out = room_for(recv, own, copied, &kept->packed[1]);
    const tutti_status ended =
        TUTTI_MPI_CALL(request, scatter, in, out, bytes, TUTTI_UINT8, root, kept->own);
    if (ended == TUTTI_OK) bring_home(out, recv, own);
    return ended;
  });
  return carried(*kept, comm, Function::scatter, is_root ? bytes * size_t(kept->nranks) : bytes,
                 status);
}

template <class Host>
int alltoall(const void* send, int64_t send_count, MPI_Datatype send_type, void* recv,
             int64_t recv_count, MPI_Datatype recv_type, MPI_Comm comm, const Host& host) {
  Comm* const kept = comm_for(comm, host);
  int result = 0;
  if (!taken(kept, comm, Function::alltoall, host, &result)) return result;
  const bool in_place = send == MPI_IN_PLACE;
  DerivedType derived_to, derived_from;
  const Type* const to = type_of(recv_type, &derived_to);
  const Type* const from = in_place ? to : type_of(send_type, &derived_from);
  if (to == nullptr || from == nullptr || recv_count < 0 || (!in_place && send_count < 0))
    return by_host(kept, Function::alltoall, Why::arguments, host);
  const size_t bytes = size_t(recv_count) * to->size;
  if (bytes == 0) return by_host(kept, Function::alltoall, Why::empty, host);
  const bool waits = !to->contiguous;
  if (is_decided(host, waits)) return MPI_SUCCESS;
  const tutti_status status = run(*kept, host, [&](bool copied) {
    tutti_request* const request = waits || copied ? nullptr : request_for(host);
    const Elements all{to, recv_type, recv_count * kept->nranks};
    const void* in = TUTTI_IN_PLACE;
    char* out = nullptr;
    if (in_place) {
      out =
          const_cast<char*>(static_cast<const char*>(gapless(recv, all, copied, &kept->packed[1])));
    } else {
      const Elements sent{from, send_type, send_count * kept->nranks};
      expect_own_block(sent.bytes(), all.bytes());
      in = gapless(send, sent, copied, &kept->packed[0]);
      out = room_for(recv, all, copied, &kept->packed[1]);
    }
    const tutti_status ended =
        TUTTI_MPI_CALL(request, alltoall, in, out, bytes, TUTTI_UINT8, kept->own);
    if (ended == TUTTI_OK) bring_home(out, recv, all);
    return ended;
  });
  return carried(*kept, comm, Function::alltoall, bytes * size_t(kept->nranks), status);
}

template <class Count, class Place, class Host>
int allgatherv(const void* send, int64_t send_count, MPI_Datatype send_type, void* recv,
               const Count* counts, const Place* places, MPI_Datatype recv_type, MPI_Comm comm,
               const Host& host) {
  Comm* const kept = comm_for(comm, host);
  int result = 0;
  if (!taken(kept, comm, Function::allgatherv, host, &result)) return result;
  counts = held(host, counts);
  places = held(host, places);
  const bool in_place = send == MPI_IN_PLACE;
  const int n = kept->nranks;
  DerivedType derived_to, derived_from;
  const Type* const to = type_of(recv_type, &derived_to);
  const Type* const from = in_place ? to : type_of(send_type, &derived_from);
  if (to == nullptr || from == nullptr || !counts_are_right(counts, n) ||
      (!in_place && send_count < 0))
    return by_host(kept, Function::allgatherv, Why::arguments, host);
  const bool waits = !to->contiguous;
  hold(host, n, counts, places);
  if (is_decided(host, waits)) return MPI_SUCCESS;
  uint64_t bytes = 0;
  const tutti_status status = run(*kept, host, [&](bool copied) {
    tutti_request* const request = waits || copied ? nullptr : request_for(host);
    Blocks blocks = blocks_of(recv, counts, places, n, *to, &kept->lengths[1], &kept->places[1]);
    const size_t own = blocks.lengths[kept->rank];
    bytes = std::accumulate(blocks.lengths, blocks.lengths + n, uint64_t{0});
    const Elements sent{from, send_type, send_count};
    if (!in_place) expect_own_block(sent.bytes(), own);
    const void* const in =
        given(in_place, send, sent, recv, int64_t(places[kept->rank]),
              {to, recv_type, int64_t(counts[kept->rank])}, copied, &kept->packed[0]);
    if (copied || !to->contiguous)
      pack_blocks(recv, counts, places, n, recv_type, *to, &blocks, &kept->packed[1], false);
    const tutti_status ended =
        TUTTI_MPI_CALL(request, allgatherv, in, own, blocks.data, blocks.lengths, blocks.places,
                       TUTTI_UINT8, kept->own);
    if (ended == TUTTI_OK) bring_blocks_home(blocks, recv, counts, places, n, recv_type, *to);
    return ended;
  });
  return carried(*kept, comm, Function::allgatherv, bytes, status);
}

template <class Count, class Place, class Host>
int gatherv(const void* send, int64_t send_count, MPI_Datatype send_type, void* recv,
            const Count* counts, const Place* places, MPI_Datatype recv_type, int root,
            MPI_Comm comm, const Host& host) {
  Comm* const kept = comm_for(comm, host);
  int result = 0;
  if (!taken(kept, comm, Function::gatherv, host, &result)) return result;
  counts = held(host, counts);
  places = held(host, places);
  const bool is_root = kept->rank == root, in_place = is_root && send == MPI_IN_PLACE;
  const int n = kept->nranks;
  DerivedType derived_to, derived_from;
  const Type* const to = is_root ? type_of(recv_type, &derived_to) : nullptr;
  const Type* const from = in_place ? to : type_of(send_type, &derived_from);
  if (!is_rank(*kept, root) || from == nullptr ||
      (is_root && (to == nullptr || !counts_are_right(counts, n))) || (!in_place && send_count < 0))
    return by_host(kept, Function::gatherv, Why::arguments, host);
  const bool waits = is_root && !to->contiguous;
  hold(host, is_root ? n : 0, counts, places);
  if (is_decided(host, waits)) return MPI_SUCCESS;
  uint64_t bytes = 0;
  const tutti_status status = run(*kept, host, [&](bool copied) {
    tutti_request* const request = waits || copied ? nullptr : request_for(host);
    const Elements sent{from, send_type, send_count};
    if (!is_root) {
      bytes = sent.bytes();
      return TUTTI_MPI_CALL(request, gatherv, gapless(send, sent, copied, &kept->packed[0]), bytes,
                            nullptr, nullptr, nullptr, TUTTI_UINT8, root, kept->own);
    }
    Blocks blocks = blocks_of(recv, counts, places, n, *to, &kept->lengths[1], &kept->places[1]);
    bytes = std::accumulate(blocks.lengths, blocks.lengths + n, uint64_t{0});
    const size_t own = in_place ? blocks.lengths[root] : sent.bytes();
    const void* const in = given(in_place, send, sent, recv, int64_t(places[root]),
                                 {to, recv_type, int64_t(counts[root])}, copied, &kept->packed[0]);
    if (copied || !to->contiguous)
      pack_blocks(recv, counts, places, n, recv_type, *to, &blocks, &kept->packed[1], false);
    const tutti_status ended =
        TUTTI_MPI_CALL(request, gatherv, in, own, blocks.data, blocks.lengths, blocks.places,
                       TUTTI_UINT8, root, kept->own);
    if (ended == TUTTI_OK) bring_blocks_home(blocks, recv, counts, places, n, recv_type, *to);
    return ended;
  });
  return carried(*kept, comm, Function::gatherv, bytes, status);
}

template <class Count, class Place, class Host>
int scatterv(const void* send, const Count* counts, const Place* places, MPI_Datatype send_type,
             void* recv, int64_t recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm,
             const Host& host) {
  Comm* const kept = comm_for(comm, host);
  int result = 0;
  if (!taken(kept, comm, Function::scatterv, host, &result)) return result;
  counts = held(host, counts);
  places = held(host, places);
  const bool is_root = kept->rank == root, in_place = is_root && recv == MPI_IN_PLACE;
  const int n = kept->nranks;
  DerivedType derived_to, derived_from;
  const Type* const from = is_root ? type_of(send_type, &derived_from) : nullptr;
  const Type* const to = in_place ? from : type_of(recv_type, &derived_to);
  if (!is_rank(*kept, root) || to == nullptr ||
      (is_root && (from == nullptr || !counts_are_right(counts, n))) ||
      (!in_place && recv_count < 0))
    return by_host(kept, Function::scatterv, Why::arguments, host);
  const bool waits = !in_place && !to->contiguous;
  hold(host, is_root ? n : 0, counts, places);
  if (is_decided(host, waits)) return MPI_SUCCESS;
  uint64_t bytes = 0;
  const tutti_status status = run(*kept, host, [&](bool copied) {
    tutti_request* const request = waits || copied ? nullptr : request_for(host);
    Blocks blocks;
    if (is_root) {
      blocks = blocks_of(send, counts, places, n, *from, &kept->lengths[0], &kept->places[0]);
      bytes = std::accumulate(blocks.lengths, blocks.lengths + n, uint64_t{0});
      if (copied || !from->contiguous)
        pack_blocks(send, counts, places, n, send_type, *from, &blocks, &kept->packed[0], true);
    }
    if (in_place)
      return TUTTI_MPI_CALL(request, scatterv, blocks.data, blocks.lengths, blocks.places,
                            const_cast<void*>(TUTTI_IN_PLACE), blocks.lengths[kept->rank],
                            TUTTI_UINT8, root, kept->own);
    const Elements own{to, recv_type, recv_count};
    if (!is_root) bytes = own.bytes();
    char* const out = room_for(recv, own, copied, &kept->packed[1]);
    const tutti_status ended =
        TUTTI_MPI_CALL(request, scatterv, blocks.data, blocks.lengths, blocks.places, out,
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
  Comm* const kept = comm_for(comm, host);
  int result = 0;
  if (!taken(kept, comm, Function::alltoallv, host, &result)) return result;
  send_counts = held(host, send_counts);
  send_places = held(host, send_places);
  recv_counts = held(host, recv_counts);
  recv_places = held(host, recv_places);
  const bool in_place = send == MPI_IN_PLACE;
  const int n = kept->nranks;
  DerivedType derived_to, derived_from;
  const Type* const to = type_of(recv_type, &derived_to);
  const Type* const from = in_place ? to : type_of(send_type, &derived_from);
  if (to == nullptr || from == nullptr || !counts_are_right(recv_counts, n) ||
      (!in_place && !counts_are_right(send_counts, n)))
    return by_host(kept, Function::alltoallv, Why::arguments, host);
  const bool waits = !to->contiguous;
  hold(host, n, recv_counts, recv_places);
  hold(host, in_place ? 0 : n, send_counts, send_places);
  if (is_decided(host, waits)) return MPI_SUCCESS;
  uint64_t bytes = 0;
  const tutti_status status = run(*kept, host, [&](bool copied) {
    tutti_request* const request = waits || copied ? nullptr : request_for(host);
    Blocks in;
    Blocks out =
        blocks_of(recv, recv_counts, recv_places, n, *to, &kept->lengths[1], &kept->places[1]);
    bytes = std::accumulate(out.lengths, out.lengths + n, uint64_t{0});
    if (copied || !to->contiguous)
      pack_blocks(recv, recv_counts, recv_places, n, recv_type, *to, &out, &kept->packed[1],
                  in_place);
    if (!in_place) {
      in = blocks_of(send, send_counts, send_places, n, *from, &kept->lengths[0], &kept->places[0]);
      if (copied || !from->contiguous)
        pack_blocks(send, send_counts, send_places, n, send_type, *from, &in, &kept->packed[0],
                    true);
    }
    const tutti_status ended =
        TUTTI_MPI_CALL(request, alltoallv, in_place ? TUTTI_IN_PLACE : in.data, in.lengths,
                       in.places, out.data, out.lengths, out.places, TUTTI_UINT8, kept->own);
    if (ended == TUTTI_OK)
      bring_blocks_home(out, recv, recv_counts, recv_places, n, recv_type, *to);
    return ended;
  });
  return carried(*kept, comm, Function::alltoallv, bytes, status);
}

// A nonblocking form: `call` is the function above with the program's arguments, but for `host`,
// and `types` are those among them.
template <class Call, class Host>
int nonblocking(MPI_Comm comm, Function function, std::initializer_list<MPI_Datatype> types,
                MPI_Request* request, const Call& call, const Host& host) {
  Comm* const kept = comm_of(comm);
  if (kept == nullptr || !carries_nonblocking())
    return by_host(kept, function, Why::nonblocking, host);
  // To make a communicator is a call that waits for others.
  Comm* const later = kept->later.get();
  if (later == nullptr)
    return by_host(kept, function, kept->own != nullptr ? Why::setup : kept->why, host);
  if (request == nullptr) return by_host(kept, function, Why::arguments, host);
  bool is_taken = false, waits = false;
  std::shared_ptr<HeldArrays> arrays;
  const int code = call(Decide<Host>{host, &is_taken, &waits, &arrays});
  if (!is_taken) return code;
  const std::string why = begin_later(
      *later, comm, types, waits,
      [=](tutti_request* own, bool may_wait) {
        return call(Begin{*later, arrays.get(), own, may_wait});
      },
      request);
  if (why.empty()) return MPI_SUCCESS;
  end_all(later->lane);
  tutti_comm_abort(later->own, why.c_str());
  return raise(*later, comm, tutti_barrier(later->own));
}

}  // namespace tutti::mpi
