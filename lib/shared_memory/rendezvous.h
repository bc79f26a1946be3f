// Where ranks that could reduce from where their vectors lie find out whether all can. Each posts
// where its vectors lie and how the others may get there; once all have posted, all conclude the
// same.
#pragma once

#include "lib/shared_memory/flag_lines.h"
#include "lib/shared_memory/regions.h"

namespace tutti::shared {

class Rendezvous {
 public:
  // `flags` outlives this.
  explicit Rendezvous(FlagLines& flags) : flags_(flags) {}

  // What a rank posts: its vectors as places in memory that the others have mapped, and as its own
  // addresses, from which they may copy; each only if it says so.
  struct Places {
    Place input, output;
    uint64_t input_address = 0, output_address = 0;
    uint8_t is_mapped = 0, is_copied = 0;
    uint8_t one_shot = 0;  // of mapped ones: it may go in one shot (direct.h)
  };

  // Posts where this rank's vectors lie. `turn`: number of the call.
  void post(const Places& mine, uint32_t turn, uint32_t digest);
  bool posted(uint32_t rank) const { return flags_.posted(rank, line::places, turn_, digest_); }
  // The lowest other rank that has not posted, -1 if all have.
  int waits_for() const { return flags_.missing(line::places, turn_, digest_); }
  bool all_posted() const { return waits_for() < 0; }
  Places of(uint32_t rank) const;
  // Once all have posted. Vectors that are mapped everywhere are not copied.
  enum class Outcome : uint8_t { staged, mapped, copied };
  Outcome outcome() const;
  // Once all have posted: whether all allow one shot.
  bool one_shot() const;
  // Takes back what this rank has posted.
  void withdraw();

 private:
  FlagLines& flags_;
  uint32_t turn_ = 0, digest_ = 0;
};

}  // namespace tutti::shared
