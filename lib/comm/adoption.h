// TUTTI_ADOPT=auto: vectors that come back in call after call, of an allreduce both, of
// reduce_scatter, allgather and alltoall the input, are shared by the ranks where they lie, as by
// tutti_mem_adopt(), if that is safe without the program's help. They are forgotten when the
// program has freed them. Nothing is put back in place of what the program still has: at that time
// another of its threads might write there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/call/call.h"
#include "lib/shared_memory/regions.h"

namespace tutti {

class Communicator;

// Of one communicator whose ranks are processes of one host. One thread at a time.
class Adoption {
 public:
  // Both outlive it.
  Adoption(Communicator& communicator, shared::Regions& regions)
      : communicator_(communicator), regions_(regions) {}

  // After a blocking call that has ended well on this rank, by all ranks for the same calls. In
  // some of them the ranks agree, in one word, whether the vectors of all have come back, which are
  // then shared, and which shared ones are gone on any rank, which all forget. Memory that cannot
  // be shared stays as it is; an error ends the communicator.
  Status after(const Call& call, uint64_t deadline_ns);
  // After a call that has failed, while its vectors still belong to it: they become private again,
  // since a rank that has not found out may still write there.
  void give_back(const Call& call);

 private:
  struct Vector {
    std::byte* address = nullptr;
    size_t bytes = 0;
    bool overlaps(const Vector& other) const {
      return address < other.address + other.bytes && other.address < address + bytes;
    }
  };
  struct Shared {
    Vector vector;
    uint64_t region = 0;  // its id
  };
  // A call's vectors that the others may reach: the same twice, where that is the input alone.
  struct Seen {
    Vector input, output;
    bool refused = false;  // one of them is of a kind that cannot be shared
  };
  // Of the calls of one length; the same on all ranks.
  struct Length {
    uint32_t calls = 0;
    uint32_t lost = 0;  // vectors that were forgotten
  };

  Seen vectors_of(const Call& call) const;
  bool is_time(Length& length) const;
  Seen* find(const Seen& vectors);
  bool come_back(const Seen& vectors);
  bool reaches(const Vector& vector) const {
    return regions_.reaches(vector.address, vector.bytes);
  }
  // This rank's word.
  uint64_t look(const Seen& vectors, bool again);
  // What the words of all ranks say.
  Status follow(uint64_t agreed, const Seen& vectors, uint64_t deadline_ns);
  Status share(const Vector& vector, const Seen& vectors, uint64_t deadline_ns, bool* shared);
  void forget(size_t index);

  Communicator& communicator_;
  shared::Regions& regions_;
  std::map<size_t, Length> lengths_;
  std::vector<Seen> seen_;  // the last ones, in a ring
  size_t next_seen_ = 0;
  std::vector<Shared> shared_;  // on all ranks in the same order
  size_t next_looked_at_ = 0;   // of them, whether they are still there
};

}  // namespace tutti
