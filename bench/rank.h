// One rank of the benchmark, and the few collective helpers that it needs besides what it measures.
// All of them go over a communicator of their own.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tutti/tutti.h"

namespace tutti::bench {

// An owned communicator.
class Comm {
 public:
  Comm() = default;
  explicit Comm(tutti_comm comm) : comm_(comm) {}
  Comm(Comm&& other) noexcept : comm_(other.comm_) { other.comm_ = nullptr; }
  Comm& operator=(Comm&& other) noexcept {
    std::swap(comm_, other.comm_);
    return *this;
  }
  ~Comm() { tutti_comm_free(comm_); }
  tutti_comm get() const { return comm_; }

 private:
  tutti_comm comm_ = nullptr;
};

class Rank {
 public:
  // Joins the job that a launcher's environment describes.
  static Rank from_environment();
  // As one of the threads of this process.
  static Rank from_id(const tutti_unique_id& id, int rank, int nranks);

  int rank() const { return rank_; }
  int nranks() const { return nranks_; }
  bool first() const { return rank_ == 0; }
  bool threads() const { return threads_; }

  void barrier() const;
  // All ranks get rank 0's value.
  template <class T>
  T from_first(T value) const {
    broadcast(&value, sizeof value, 0);
    return value;
  }
  double max(double value) const;
  uint64_t sum(uint64_t value) const;
  void max_in_place(std::span<double> values) const;
  // `all` has nranks * bytes, in rank order.
  void gather(const void* mine, void* all, size_t bytes) const;
  void broadcast(void* buffer, size_t bytes, int root) const;

  // A communicator of the same ranks that uses only `transport`, and a progress thread if asked
  // for. `device`: the GPU whose memory its calls also accept; "" for none.
  Comm open(const std::string& transport, bool progress_thread = false,
            const std::string& device = "") const;

 private:
  Rank(tutti_comm world, bool threads);
  Comm world_;
  bool threads_;
  int rank_ = 0;
  int nranks_ = 1;
};

}  // namespace tutti::bench
