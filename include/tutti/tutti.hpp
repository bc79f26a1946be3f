// tutti for C++20: move-only owners, spans and exceptions over tutti.h; one C call a call.
#pragma once

#include <complex>
#include <concepts>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tutti/tutti.h"

namespace tutti {

// What a failed call throws: what() is the library's sentence.
class error : public std::runtime_error {
 public:
  error(tutti_status status, int rank, uint64_t call, const std::string& text)
      : std::runtime_error(text), status_(status), rank_(rank), call_(call) {}
  tutti_status status() const noexcept { return status_; }
  int rank() const noexcept { return rank_; }       // that the error is about, -1 if none
  uint64_t call() const noexcept { return call_; }  // on the communicator, 0 if none

 private:
  tutti_status status_;
  int rank_;
  uint64_t call_;
};

template <class T>
inline constexpr tutti_dtype dtype_of = TUTTI_DTYPE_COUNT;
template <>
inline constexpr tutti_dtype dtype_of<int8_t> = TUTTI_INT8;
template <>
inline constexpr tutti_dtype dtype_of<int16_t> = TUTTI_INT16;
template <>
inline constexpr tutti_dtype dtype_of<int32_t> = TUTTI_INT32;
template <>
inline constexpr tutti_dtype dtype_of<int64_t> = TUTTI_INT64;
template <>
inline constexpr tutti_dtype dtype_of<uint8_t> = TUTTI_UINT8;
template <>
inline constexpr tutti_dtype dtype_of<uint16_t> = TUTTI_UINT16;
template <>
inline constexpr tutti_dtype dtype_of<uint32_t> = TUTTI_UINT32;
template <>
inline constexpr tutti_dtype dtype_of<uint64_t> = TUTTI_UINT64;
template <>
inline constexpr tutti_dtype dtype_of<float> = TUTTI_FLOAT32;
template <>
inline constexpr tutti_dtype dtype_of<double> = TUTTI_FLOAT64;
template <>
inline constexpr tutti_dtype dtype_of<std::complex<float>> = TUTTI_COMPLEX64;
template <>
inline constexpr tutti_dtype dtype_of<std::complex<double>> = TUTTI_COMPLEX128;
template <>
inline constexpr tutti_dtype dtype_of<bool> = TUTTI_BOOL;
template <>
inline constexpr tutti_dtype dtype_of<tutti_float32_int32> = TUTTI_FLOAT32_INT32;
template <>
inline constexpr tutti_dtype dtype_of<tutti_float64_int64> = TUTTI_FLOAT64_INT64;
template <>
inline constexpr tutti_dtype dtype_of<tutti_int32_int32> = TUTTI_INT32_INT32;
template <>
inline constexpr tutti_dtype dtype_of<tutti_int64_int64> = TUTTI_INT64_INT64;
template <>
inline constexpr tutti_dtype dtype_of<tutti_binned_float32> = TUTTI_BINNED_FLOAT32;
template <>
inline constexpr tutti_dtype dtype_of<tutti_binned_float64> = TUTTI_BINNED_FLOAT64;

template <class T>
concept element = dtype_of<T>
!= TUTTI_DTYPE_COUNT;

namespace detail {

// Throws for a failed call that had no communicator.
inline void check(tutti_status status) {
  if (status != TUTTI_OK) throw error(status, -1, 0, tutti_last_error());
}

inline void require(bool truth, const char* otherwise) {
  if (!truth) throw error(TUTTI_INVALID, -1, 0, otherwise);
}

}  // namespace detail

// Owns an operator made by tutti_op_create() or communicator::premul_sum(); it must outlive the
// calls with it.
class user_op {
 public:
  user_op(tutti_op_fn function, void* context, bool commutative) {
    detail::check(tutti_op_create(function, context, commutative, &op_));
  }
  explicit user_op(tutti_op owned) noexcept : op_(owned) {}
  user_op(user_op&& other) noexcept : op_(std::exchange(other.op_, TUTTI_OP_COUNT)) {}
  user_op& operator=(user_op&& other) noexcept {
    std::swap(op_, other.op_);
    return *this;
  }
  ~user_op() {
    if (op_ != TUTTI_OP_COUNT) tutti_op_free(op_);
  }
  tutti_op get() const noexcept { return op_; }

 private:
  tutti_op op_ = TUTTI_OP_COUNT;
};

// Owns a tutti_request: a nonblocking or prepared call. Its buffers must stay valid until it has
// completed: until wait() returns or test() is true. The destructor waits, too, and ignores a
// failure.
class request {
 public:
  request() = default;
  explicit request(tutti_request owned) noexcept : request_(owned) {}
  request(request&& other) noexcept : request_(std::exchange(other.request_, nullptr)) {}
  request& operator=(request&& other) noexcept {
    std::swap(request_, other.request_);
    return *this;
  }
  ~request() {
    tutti_wait(&request_);
    tutti_request_free(&request_);
  }

  // Begins a prepared call (allreduce_init); again, once the one before has completed.
  void start() { detail::check(tutti_start(request_)); }
  void wait() { detail::check(tutti_wait(&request_)); }
  // True once it has completed. Never blocks.
  bool test() {
    int ended = 0;
    detail::check(tutti_test(&request_, &ended));
    return ended != 0;
  }

 private:
  tutti_request request_ = nullptr;
};

// Owns a tutti_topk, which keeps what was not sent yet of vectors of `length` elements. One call
// with it at a time.
template <class T>
requires std::same_as<T, float> || std::same_as<T, double>
class topk {
 public:
  topk(size_t length, size_t k) : length_(length) {
    detail::check(tutti_topk_create(length, k, dtype_of<T>, &topk_));
  }
  topk(topk&& other) noexcept
      : topk_(std::exchange(other.topk_, nullptr)), length_(std::exchange(other.length_, 0)) {}
  topk& operator=(topk&& other) noexcept {
    std::swap(topk_, other.topk_);
    std::swap(length_, other.length_);
    return *this;
  }
  ~topk() { tutti_topk_free(topk_); }
  tutti_topk get() const noexcept { return topk_; }
  size_t length() const noexcept { return length_; }
  // What was not sent yet, `length` elements. The caller may change it; valid until the next call.
  std::span<T> residual() const {
    void* memory = nullptr;
    detail::check(tutti_topk_residual(topk_, &memory));
    return {static_cast<T*>(memory), length_};
  }

 private:
  tutti_topk topk_ = nullptr;
  size_t length_ = 0;
};

// The library's codec of that name; valid as long as the program runs.
inline const tutti_codec& find_codec(const std::string& name) {
  const tutti_codec* codec = nullptr;
  detail::check(tutti_codec_from_name(name.c_str(), &codec));
  return *codec;
}

// Owns a communicator. One thread at a time, except abort(). A failed call throws tutti::error.
class communicator {
 public:
  communicator() = default;
  explicit communicator(tutti_comm owned) noexcept : comm_(owned) {}
  communicator(communicator&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)) {}
  communicator& operator=(communicator&& other) noexcept {
    if (this != &other) {
      tutti_comm_free(comm_);
      comm_ = std::exchange(other.comm_, nullptr);
    }
    return *this;
  }
  ~communicator() { tutti_comm_free(comm_); }

  static communicator from_env(const tutti_comm_config* config = nullptr) {
    tutti_comm made = nullptr;
    check(tutti_comm_create_from_env(config, &made));
    return communicator(made);
  }
  static communicator from_id(const tutti_unique_id& id, int rank, int nranks,
                              const tutti_comm_config* config = nullptr) {
    tutti_comm made = nullptr;
    check(tutti_comm_create_from_id(&id, rank, nranks, config, &made));
    return communicator(made);
  }

  // Collective. One communicator for each color, its ranks in the order of `key`; an empty one
  // where color < 0.
  communicator split(int color, int key) const {
    tutti_comm made = nullptr;
    check(tutti_comm_split(comm_, color, key, &made), comm_);
    return communicator(made);
  }
  // Collective. A communicator of the ranks on this host, in the order of `key`.
  communicator split_host(int key = 0) const {
    tutti_comm made = nullptr;
    check(tutti_comm_split_host(comm_, key, &made), comm_);
    return communicator(made);
  }
  // A communicator of `ranks`, in that order. Only they call it.
  communicator create_group(std::span<const int> ranks) const {
    tutti_comm made = nullptr;
    check(tutti_comm_create_group(comm_, ranks.data(), ranks.size(), &made), comm_);
    return communicator(made);
  }
  communicator dup() const {
    tutti_comm made = nullptr;
    check(tutti_comm_dup(comm_, &made), comm_);
    return communicator(made);
  }

  // The ranks that this one knows to have failed.
  std::vector<int> failed_ranks() const {
    size_t n = 0;
    std::vector<int> ranks(static_cast<size_t>(size()));
    check(tutti_comm_failed_ranks(comm_, ranks.data(), ranks.size(), &n), comm_);
    ranks.resize(n);
    return ranks;
  }
  // Collective. The AND of the values of the ranks that came; *all, if given: whether all did.
  uint64_t agree(uint64_t value, bool* all = nullptr, int64_t timeout_ms = 0) const {
    uint64_t agreed = value;
    const tutti_status status = tutti_comm_agree(comm_, &agreed, timeout_ms);
    if (all == nullptr || status != TUTTI_PEER_FAILED) check(status, comm_);
    if (all != nullptr) *all = status == TUTTI_OK;
    return agreed;
  }
  // Collective over the ranks that are left: their new communicator.
  communicator shrink(int64_t timeout_ms = 0) const {
    tutti_comm made = nullptr;
    check(tutti_comm_shrink(comm_, timeout_ms, &made), comm_);
    return communicator(made);
  }
  // Collective. With `joining` more processes, which call from_id(); `id` counts on rank 0.
  communicator grow(const tutti_unique_id& id, int joining) const {
    tutti_comm made = nullptr;
    check(tutti_comm_grow(comm_, &id, joining, &made), comm_);
    return communicator(made);
  }

  explicit operator bool() const noexcept { return comm_ != nullptr; }
  tutti_comm get() const noexcept { return comm_; }
  int rank() const {
    int value = 0;
    check(tutti_comm_rank(comm_, &value), comm_);
    return value;
  }
  int size() const {
    int value = 0;
    check(tutti_comm_size(comm_, &value), comm_);
    return value;
  }
  std::string transport() const {
    const char* name = nullptr;
    check(tutti_comm_transport(comm_, &name), comm_);
    return name;
  }

  // What this rank's calls have done since the communicator was made.
  tutti_comm_counters counters() const {
    tutti_comm_counters value{};
    value.size = sizeof(value);
    check(tutti_comm_get_counters(comm_, &value), comm_);
    return value;
  }

  // `in` and `out` have the same length and do not overlap.
  template <element T>
  void allreduce(std::span<const T> in, std::span<T> out, tutti_op op = TUTTI_SUM,
                 const tutti_call_config* config = nullptr) const {
    detail::require(in.size() == out.size(), "the input and output spans have different lengths");
    check(tutti_allreduce_with(in.data(), out.data(), in.size(), dtype_of<T>, op, comm_, config),
          comm_);
  }
  template <element T>
  void allreduce(std::span<T> in_place, tutti_op op = TUTTI_SUM,
                 const tutti_call_config* config = nullptr) const {
    check(tutti_allreduce_with(TUTTI_IN_PLACE, in_place.data(), in_place.size(), dtype_of<T>, op,
                               comm_, config),
          comm_);
  }
  // Only rank `root` gets the result: there `out` is as long as `in`; elsewhere it is not used.
  template <element T>
  void reduce(std::span<const T> in, std::span<T> out, int root, tutti_op op = TUTTI_SUM,
              const tutti_call_config* config = nullptr) const {
    detail::require(rank() != root || in.size() == out.size(),
                    "the input and output spans have different lengths");
    check(tutti_reduce_with(in.data(), out.data(), in.size(), dtype_of<T>, op, root, comm_, config),
          comm_);
  }
  template <element T>
  void broadcast(std::span<T> buffer, int root, const tutti_call_config* config = nullptr) const {
    check(tutti_broadcast_with(buffer.data(), buffer.size(), dtype_of<T>, root, comm_, config),
          comm_);
  }
  // `in` is this rank's block; `out` has a block for each rank, in the order of ranks.
  template <element T>
  void allgather(std::span<const T> in, std::span<T> out,
                 const tutti_call_config* config = nullptr) const {
    detail::require(out.size() == in.size() * size_t(size()),
                    "a block from each rank does not fill `out`");
    check(tutti_allgather_with(in.data(), out.data(), in.size(), dtype_of<T>, comm_, config),
          comm_);
  }
  // Only rank `root` gets the blocks: `out` is not used elsewhere.
  template <element T>
  void gather(std::span<const T> in, std::span<T> out, int root,
              const tutti_call_config* config = nullptr) const {
    detail::require(rank() != root || out.size() == in.size() * size_t(size()),
                    "a block from each rank does not fill `out`");
    check(tutti_gather_with(in.data(), out.data(), in.size(), dtype_of<T>, root, comm_, config),
          comm_);
  }
  // On rank `root`, `in` has a block for each rank; elsewhere it is not used. `out` takes this
  // rank's block.
  template <element T>
  void scatter(std::span<const T> in, std::span<T> out, int root,
               const tutti_call_config* config = nullptr) const {
    detail::require(rank() != root || in.size() == out.size() * size_t(size()),
                    "`in` is not a block for each rank");
    check(tutti_scatter_with(in.data(), out.data(), out.size(), dtype_of<T>, root, comm_, config),
          comm_);
  }
  // `in` has a block for each rank; `out` takes this rank's block of the reduction.
  template <element T>
  void reduce_scatter(std::span<const T> in, std::span<T> out, tutti_op op = TUTTI_SUM,
                      const tutti_call_config* config = nullptr) const {
    detail::require(in.size() == out.size() * size_t(size()), "`in` is not a block for each rank");
    check(tutti_reduce_scatter_block_with(in.data(), out.data(), out.size(), dtype_of<T>, op, comm_,
                                          config),
          comm_);
  }
  // `in` has a block for each rank, `out` one from each.
  template <element T>
  void alltoall(std::span<const T> in, std::span<T> out,
                const tutti_call_config* config = nullptr) const {
    const size_t count = in.size() / size_t(size());
    detail::require(in.size() == out.size() && in.size() == count * size_t(size()),
                    "`in` and `out` are not a block for each rank");
    check(tutti_alltoall_with(in.data(), out.data(), count, dtype_of<T>, comm_, config), comm_);
  }
  // Blocks of different lengths: counts[r] elements come from rank r. They lie one after the other.
  template <element T>
  void allgatherv(std::span<const T> in, std::span<T> out, std::span<const size_t> counts,
                  const tutti_call_config* config = nullptr) const {
    detail::require(counts.size() == size_t(size()) && out.size() >= sum(counts),
                    "`counts` has not one entry a rank, or is more than `out`");
    check(tutti_allgatherv_with(in.data(), in.size(), out.data(), counts.data(), nullptr,
                                dtype_of<T>, comm_, config),
          comm_);
  }
  // in_counts[r] elements go to rank r, out_counts[r] come from it. Blocks lie one after the other.
  template <element T>
  void alltoallv(std::span<const T> in, std::span<const size_t> in_counts, std::span<T> out,
                 std::span<const size_t> out_counts,
                 const tutti_call_config* config = nullptr) const {
    detail::require(in_counts.size() == size_t(size()) && in.size() >= sum(in_counts) &&
                        out_counts.size() == size_t(size()) && out.size() >= sum(out_counts),
                    "the counts have not one entry a rank, or are more than the spans");
    check(tutti_alltoallv_with(in.data(), in_counts.data(), nullptr, out.data(), out_counts.data(),
                               nullptr, dtype_of<T>, comm_, config),
          comm_);
  }
  // Rank r gets the reduction of ranks 0 to r (inclusive prefix).
  template <element T>
  void scan(std::span<const T> in, std::span<T> out, tutti_op op = TUTTI_SUM,
            const tutti_call_config* config = nullptr) const {
    detail::require(in.size() == out.size(), "the input and output spans have different lengths");
    check(tutti_scan_with(in.data(), out.data(), in.size(), dtype_of<T>, op, comm_, config), comm_);
  }
  // Rank r gets the reduction of ranks 0 to r-1 (exclusive prefix); `out` of rank 0 is not written.
  template <element T>
  void exscan(std::span<const T> in, std::span<T> out, tutti_op op = TUTTI_SUM,
              const tutti_call_config* config = nullptr) const {
    detail::require(in.size() == out.size(), "the input and output spans have different lengths");
    check(tutti_exscan_with(in.data(), out.data(), in.size(), dtype_of<T>, op, comm_, config),
          comm_);
  }
  // Reduces vectors of `length` elements that are zero but for `values` at ascending `indices`. The
  // result's entries go to the output spans, which have the same length. Returns their number.
  template <element T>
  size_t allreduce_sparse(std::span<const uint32_t> indices, std::span<const T> values,
                          std::span<uint32_t> out_indices, std::span<T> out_values, size_t length,
                          tutti_op op = TUTTI_SUM,
                          const tutti_call_config* config = nullptr) const {
    detail::require(indices.size() == values.size() && out_indices.size() == out_values.size(),
                    "there are not as many values as indices");
    const tutti_sparse_in in{indices.data(), values.data(), indices.size()};
    tutti_sparse_out out{out_indices.data(), out_values.data(), out_indices.size(), 0};
    check(tutti_allreduce_sparse_with(&in, &out, length, dtype_of<T>, op, comm_, config), comm_);
    return out.entries;
  }
  // The sum or average of each rank's k largest entries (top-k with error feedback); `in` and `out`
  // have largest.length() elements.
  template <element T>
  void allreduce(const topk<T>& largest, std::span<const T> in, std::span<T> out,
                 tutti_op op = TUTTI_SUM, const tutti_call_config* config = nullptr) const {
    detail::require(in.size() == largest.length() && out.size() == largest.length(),
                    "the spans are not as long as the top-k's vectors");
    check(tutti_topk_allreduce_with(in.data(), out.data(), op, largest.get(), comm_, config),
          comm_);
  }
  // Sends what `codec` makes of the vectors. *error, if not null and with its size set, takes what
  // encoding changed on this rank.
  void allreduce(const tutti_codec& codec, std::span<const float> in, std::span<float> out,
                 tutti_op op = TUTTI_SUM, const tutti_call_config* config = nullptr,
                 tutti_codec_error* error = nullptr) const {
    detail::require(in.size() == out.size(), "the input and output spans have different lengths");
    check(tutti_allreduce_coded_with(in.data(), out.data(), in.size(), op, &codec, comm_, config,
                                     error),
          comm_);
  }
  void barrier(const tutti_call_config* config = nullptr) const {
    check(tutti_barrier_with(comm_, config), comm_);
  }
  template <element T>
  void send(std::span<const T> buffer, int peer, int tag = 0,
            const tutti_call_config* config = nullptr) const {
    check(tutti_send_with(buffer.data(), buffer.size(), dtype_of<T>, peer, tag, comm_, config),
          comm_);
  }
  template <element T>
  void recv(std::span<T> buffer, int peer, int tag = 0,
            const tutti_call_config* config = nullptr) const {
    check(tutti_recv_with(buffer.data(), buffer.size(), dtype_of<T>, peer, tag, comm_, config),
          comm_);
  }

  // Calls in the order of a CUDA stream, on memory of the communicator's GPU; the spans as in the
  // functions without _on. They return when the call is enqueued; what fails later is told by
  // device_status().
  template <element T>
  void allreduce_on(void* stream, std::span<const T> in, std::span<T> out, tutti_op op = TUTTI_SUM,
                    const tutti_call_config* config = nullptr) const {
    detail::require(in.size() == out.size(), "the input and output spans have different lengths");
    check(tutti_allreduce_on(in.data(), out.data(), in.size(), dtype_of<T>, op, comm_, config,
                             stream),
          comm_);
  }
  template <element T>
  void allreduce_on(void* stream, std::span<T> in_place, tutti_op op = TUTTI_SUM,
                    const tutti_call_config* config = nullptr) const {
    check(tutti_allreduce_on(TUTTI_IN_PLACE, in_place.data(), in_place.size(), dtype_of<T>, op,
                             comm_, config, stream),
          comm_);
  }
  template <element T>
  void reduce_on(void* stream, std::span<const T> in, std::span<T> out, int root,
                 tutti_op op = TUTTI_SUM, const tutti_call_config* config = nullptr) const {
    detail::require(rank() != root || in.size() == out.size(),
                    "the input and output spans have different lengths");
    check(tutti_reduce_on(in.data(), out.data(), in.size(), dtype_of<T>, op, root, comm_, config,
                          stream),
          comm_);
  }
  template <element T>
  void broadcast_on(void* stream, std::span<T> buffer, int root,
                    const tutti_call_config* config = nullptr) const {
    check(
        tutti_broadcast_on(buffer.data(), buffer.size(), dtype_of<T>, root, comm_, config, stream),
        comm_);
  }
  template <element T>
  void allgather_on(void* stream, std::span<const T> in, std::span<T> out,
                    const tutti_call_config* config = nullptr) const {
    detail::require(out.size() == in.size() * size_t(size()),
                    "a block from each rank does not fill `out`");
    check(tutti_allgather_on(in.data(), out.data(), in.size(), dtype_of<T>, comm_, config, stream),
          comm_);
  }
  template <element T>
  void reduce_scatter_on(void* stream, std::span<const T> in, std::span<T> out,
                         tutti_op op = TUTTI_SUM, const tutti_call_config* config = nullptr) const {
    detail::require(in.size() == out.size() * size_t(size()),
                    "`in` is not a block for each rank, as long as `out`");
    check(tutti_reduce_scatter_block_on(in.data(), out.data(), out.size(), dtype_of<T>, op, comm_,
                                        config, stream),
          comm_);
  }
  template <element T>
  void alltoall_on(void* stream, std::span<const T> in, std::span<T> out,
                   const tutti_call_config* config = nullptr) const {
    detail::require(in.size() == out.size() && in.size() % size_t(size()) == 0,
                    "the spans are not a block for each rank");
    check(tutti_alltoall_on(in.data(), out.data(), in.size() / size_t(size()), dtype_of<T>, comm_,
                            config, stream),
          comm_);
  }
  void barrier_on(void* stream, const tutti_call_config* config = nullptr) const {
    check(tutti_barrier_on(comm_, config, stream), comm_);
  }
  // Throws the first failure of an enqueued call.
  void device_status() const { check(tutti_comm_device_status(comm_), comm_); }

  // Nonblocking calls; the spans as in the functions without i.
  template <element T>
  [[nodiscard]] request iallreduce(std::span<const T> in, std::span<T> out, tutti_op op = TUTTI_SUM,
                                   const tutti_call_config* config = nullptr) const {
    detail::require(in.size() == out.size(), "the input and output spans have different lengths");
    return begun([&](tutti_request* made) {
      return tutti_iallreduce(in.data(), out.data(), in.size(), dtype_of<T>, op, comm_, config,
                              made);
    });
  }
  template <element T>
  [[nodiscard]] request iallreduce(std::span<T> in_place, tutti_op op = TUTTI_SUM,
                                   const tutti_call_config* config = nullptr) const {
    return begun([&](tutti_request* made) {
      return tutti_iallreduce(TUTTI_IN_PLACE, in_place.data(), in_place.size(), dtype_of<T>, op,
                              comm_, config, made);
    });
  }
  template <element T>
  [[nodiscard]] request ibroadcast(std::span<T> buffer, int root,
                                   const tutti_call_config* config = nullptr) const {
    return begun([&](tutti_request* made) {
      return tutti_ibroadcast(buffer.data(), buffer.size(), dtype_of<T>, root, comm_, config, made);
    });
  }
  template <element T>
  [[nodiscard]] request iallgather(std::span<const T> in, std::span<T> out,
                                   const tutti_call_config* config = nullptr) const {
    detail::require(out.size() == in.size() * size_t(size()),
                    "a block from each rank does not fill `out`");
    return begun([&](tutti_request* made) {
      return tutti_iallgather(in.data(), out.data(), in.size(), dtype_of<T>, comm_, config, made);
    });
  }
  template <element T>
  [[nodiscard]] request ireduce_scatter(std::span<const T> in, std::span<T> out,
                                        tutti_op op = TUTTI_SUM,
                                        const tutti_call_config* config = nullptr) const {
    detail::require(in.size() == out.size() * size_t(size()), "`in` is not a block for each rank");
    return begun([&](tutti_request* made) {
      return tutti_ireduce_scatter_block(in.data(), out.data(), out.size(), dtype_of<T>, op, comm_,
                                         config, made);
    });
  }
  template <element T>
  [[nodiscard]] request ialltoall(std::span<const T> in, std::span<T> out,
                                  const tutti_call_config* config = nullptr) const {
    const size_t count = in.size() / size_t(size());
    detail::require(in.size() == out.size() && in.size() == count * size_t(size()),
                    "`in` and `out` are not a block for each rank");
    return begun([&](tutti_request* made) {
      return tutti_ialltoall(in.data(), out.data(), count, dtype_of<T>, comm_, config, made);
    });
  }
  [[nodiscard]] request ibarrier(const tutti_call_config* config = nullptr) const {
    return begun([&](tutti_request* made) { return tutti_ibarrier(comm_, config, made); });
  }
  template <element T>
  [[nodiscard]] request isend(std::span<const T> buffer, int peer, int tag = 0,
                              const tutti_call_config* config = nullptr) const {
    return begun([&](tutti_request* made) {
      return tutti_isend(buffer.data(), buffer.size(), dtype_of<T>, peer, tag, comm_, config, made);
    });
  }
  template <element T>
  [[nodiscard]] request irecv(std::span<T> buffer, int peer, int tag = 0,
                              const tutti_call_config* config = nullptr) const {
    return begun([&](tutti_request* made) {
      return tutti_irecv(buffer.data(), buffer.size(), dtype_of<T>, peer, tag, comm_, config, made);
    });
  }
  // From any other rank, which becomes `source`; that must stay until the request has ended.
  template <element T>
  [[nodiscard]] request irecv_any(std::span<T> buffer, int& source, int tag = 0,
                                  const tutti_call_config* config = nullptr) const {
    return begun([&](tutti_request* made) {
      return tutti_irecv_any(buffer.data(), buffer.size(), dtype_of<T>, tag, &source, comm_, config,
                             made);
    });
  }
  // A prepared (persistent) call: each start() of the request runs it once.
  template <element T>
  [[nodiscard]] request allreduce_init(std::span<const T> in, std::span<T> out,
                                       tutti_op op = TUTTI_SUM,
                                       const tutti_call_config* config = nullptr) const {
    detail::require(in.size() == out.size(), "the input and output spans have different lengths");
    return begun([&](tutti_request* made) {
      return tutti_allreduce_init(in.data(), out.data(), in.size(), dtype_of<T>, op, comm_, config,
                                  made);
    });
  }

  // Sends and receives at the same time.
  template <element T>
  void sendrecv(std::span<const T> out, int to, std::span<T> in, int from, int tag = 0,
                const tutti_call_config* config = nullptr) const {
    check(tutti_sendrecv_with(out.data(), out.size(), to, tag, in.data(), in.size(), from, tag,
                              dtype_of<T>, comm_, config),
          comm_);
  }
  // Runs the sends and receives that `body` makes on this communicator at the same time, when it
  // returns; none of them if it throws.
  template <class Body>
  void group(Body&& body, const tutti_call_config* config = nullptr) const {
    check(tutti_group_begin(comm_), comm_);
    try {
      std::forward<Body>(body)();
    } catch (...) {
      tutti_group_cancel(comm_);
      throw;
    }
    check(tutti_group_end_with(comm_, config), comm_);
  }

  // An operator for calls on this communicator: the sum over ranks of scalar * input.
  template <element T>
  user_op premul_sum(const T& scalar) const {
    tutti_op made = TUTTI_OP_COUNT;
    check(tutti_op_create_premul_sum(comm_, &scalar, dtype_of<T>, &made), comm_);
    return user_op(made);
  }

  // Collective. `count` elements of symmetric memory, zero; valid until free() or the end of the
  // communicator.
  template <element T>
  std::span<T> alloc(size_t count) const {
    void* memory = nullptr;
    check(tutti_mem_alloc(comm_, count * sizeof(T), &memory), comm_);
    return {static_cast<T*>(memory), count};
  }
  // Collective. The same on the communicator's GPU; its content is unspecified.
  template <element T>
  std::span<T> alloc_device(size_t count) const {
    void* memory = nullptr;
    check(tutti_mem_alloc_device(comm_, count * sizeof(T), &memory), comm_);
    return {static_cast<T*>(memory), count};
  }
  template <element T>
  void free(std::span<T> memory) const {
    check(tutti_mem_free(comm_, memory.data()), comm_);
  }

  // Collective. The program's own memory becomes symmetric memory where it lies, until release() or
  // the end of the communicator (tutti_mem_adopt()).
  template <element T>
  void adopt(std::span<T> memory) const {
    check(tutti_mem_adopt(comm_, memory.data(), memory.size_bytes()), comm_);
  }
  template <element T>
  void release(std::span<T> memory) const {
    check(tutti_mem_release(comm_, memory.data()), comm_);
  }

  // Ends the communicator for all ranks, with `reason` in their errors. Any thread; never blocks.
  void abort(const char* reason = nullptr) const noexcept { tutti_comm_abort(comm_, reason); }

 private:
  template <class Begin>
  request begun(Begin&& begin) const {
    tutti_request made = nullptr;
    check(begin(&made), comm_);
    return request(made);
  }
  static size_t sum(std::span<const size_t> counts) {
    size_t total = 0;
    for (const size_t count : counts) total += count;
    return total;
  }
  static void check(tutti_status status, tutti_comm comm = nullptr) {
    if (status == TUTTI_OK) return;
    tutti_error last{};
    if (comm != nullptr && tutti_comm_last_error(comm, &last) == TUTTI_OK) {
      throw error(status, last.rank, last.call, last.text);
    }
    throw error(status, -1, 0, tutti_last_error());
  }

  tutti_comm comm_ = nullptr;
};

template <class T>
concept binned = std::same_as<T, tutti_binned_float32> || std::same_as<T, tutti_binned_float64>;

// Reduces `operands` as the ranks of a communicator would; each has as many elements as `out`.
template <element T>
void reduce_local(std::span<const T* const> operands, std::span<T> out, tutti_op op = TUTTI_SUM,
                  tutti_level level = TUTTI_LEVEL_DEFAULT) {
  const std::vector<const void*> pointers(operands.begin(), operands.end());
  detail::check(tutti_reduce_local(pointers.data(), pointers.size(), out.data(), out.size(),
                                   dtype_of<T>, op, level));
}

// accumulators[i] += values[i], in any order (tutti_binned_deposit).
template <binned B, element T>
void deposit(std::span<B> accumulators, std::span<const T> values) {
  detail::require(accumulators.size() == values.size(), "the spans have different lengths");
  detail::check(tutti_binned_deposit(accumulators.data(), dtype_of<B>, values.data(), values.size(),
                                     dtype_of<T>));
}
// accumulator += each value, in any order.
template <binned B, element T>
void deposit_all(B& accumulator, std::span<const T> values) {
  detail::check(tutti_binned_deposit_all(&accumulator, dtype_of<B>, values.data(), values.size(),
                                         dtype_of<T>));
}
// out[i] = accumulators[i], rounded.
template <binned B, element T>
void finish(std::span<const B> accumulators, std::span<T> out) {
  detail::require(accumulators.size() == out.size(), "the spans have different lengths");
  detail::check(
      tutti_binned_finish(accumulators.data(), dtype_of<B>, out.data(), out.size(), dtype_of<T>));
}

// An id for from_id(), to be passed to the other ranks; this process becomes rank 0.
inline tutti_unique_id make_unique_id(const char* interface = nullptr) {
  tutti_unique_id id;
  detail::check(tutti_unique_id_create(interface, &id));
  return id;
}

}  // namespace tutti
