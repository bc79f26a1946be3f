// One call on one rank: its vectors, what they hold, the function of the library, and the check.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/tutti-soak/contents.h"
#include "tools/tutti-soak/draw.h"
#include "tools/tutti-soak/memory.h"
#include "tools/tutti-soak/random.h"
#include "tutti/tutti.h"

namespace tutti::soak {

// Who this rank is in a communicator.
struct Seat {
  tutti_comm comm = nullptr;
  int rank = 0, nranks = 1;
};

// Where vectors may lie.
struct Arenas {
  Arena* heap;
  Arena* symmetric;
};

class Operation {
 public:
  // `random`: for choices that each rank makes by itself.
  Operation(const Call& call, const Seat& seat, Contents& contents, Arenas arenas, Random& random);
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // Makes the request of a persistent call.
  tutti_status prepare();
  void fill(int round);
  // Makes a blocking call; begins any other.
  tutti_status go();
  // After the call has ended: what is wrong, or an empty string.
  std::string check(int round) const;

  const Call& call() const { return call_; }
  tutti_comm comm() const { return seat_.comm; }
  tutti_request* request() { return &request_; }
  bool refused = false;
  size_t bytes() const { return send_.bytes() + recv_.bytes(); }

 private:
  // Where the content of a piece of a vector comes from.
  enum class Source { moved, given, reduced };
  struct Piece {
    size_t at, bytes;
    Source source;
    int first, second;  // moved: from and to; reduced: how many ranks
    size_t behind = 0;  // bytes from the begin of a reduction's vectors
  };
  // Blocks of all ranks, in elements.
  struct Blocks {
    std::vector<size_t> counts, displs;
    size_t end = 0;
    bool plain = true;  // one after the other, in rank order
  };

  void plan();
  void plan_reduction();
  void plan_broadcast();
  void plan_gather();
  void plan_scatter();
  void plan_alltoall();
  void plan_reduce_scatter();
  void plan_messages();
  Blocks lay_out(const std::vector<size_t>& counts, bool gaps);
  std::vector<size_t> lengths_from(int rank) const;
  std::vector<size_t> lengths_to(int rank) const;
  void place();
  Vector place_one(size_t bytes);

  std::vector<Part> parts(const std::vector<Piece>& pieces, int round) const;
  const void* send() const { return in_place_ ? TUTTI_IN_PLACE : send_data(); }
  const void* send_data() const { return has_send_ ? send_.data() : nullptr; }
  void* recv() const { return has_recv_ ? recv_.data() : nullptr; }

  // As a scatter's: without a vector of its own the root calls in place.
  void* scattered() const { return has_recv_ ? recv_.data() : const_cast<void*>(TUTTI_IN_PLACE); }
  std::byte* block(const Vector& vector, const Blocks& blocks, int peer) const;

  static const size_t* counts(const Blocks& blocks) { return blocks.counts.data(); }
  // Plain offsets are passed as null.
  static const size_t* places(const Blocks& blocks) {
    return blocks.plain ? nullptr : blocks.displs.data();
  }

  static constexpr int tag = 7;
  tutti_status make();
  tutti_status make_coded();
  tutti_status make_group();
  tutti_status make_message();
  tutti_status make_ring();
  template <auto with, auto begin, auto init, class... Arguments>
  tutti_status make_form(Arguments... arguments);

  Call call_;
  Seat seat_;
  Contents& contents_;
  Arenas arenas_;
  Random& random_;
  tutti_dtype dtype_;
  tutti_op op_;
  size_t element_;
  int root_;
  tutti_call_config config_ = TUTTI_CALL_CONFIG_INIT;
  const tutti_call_config* config_used_ = nullptr;

  bool in_place_ = false, has_send_ = false, has_recv_ = false;
  size_t send_bytes_ = 0, recv_bytes_ = 0;
  Blocks sent_, received_;
  std::vector<Piece> in_, out_, any_;  // `in_`: of the vector that the input is in
  Vector send_, recv_;
  tutti_request request_ = nullptr;
};

}  // namespace tutti::soak
