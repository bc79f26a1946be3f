#include "lib/shared_memory/single_copy.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace tutti::shared {

namespace {

// What a rank posts: its process, what it allows, and a number with its address there.
struct Identity {
  int32_t pid = 0;
  Copying copying = Copying::never;
  uint64_t address = 0;
  uint64_t nonce = 0;
};
static_assert(sizeof(Identity) <= sizeof(slots::FlagLine::payload));

uint64_t random_number() {
  std::random_device device;
  return uint64_t(device()) << 32 | device();
}

}  // namespace

SingleCopy::SingleCopy(FlagLines& flags, Copying own)
    : flags_(flags), nonce_(random_number()), own_(own), processes_(flags.nranks()) {
  const Identity mine{getpid(), own, reinterpret_cast<uintptr_t>(&nonce_), nonce_};
  std::byte* const to = flags_.at(flags_.self(), line::identity).payload;
  slots::will_write(to, sizeof(mine));
  std::memcpy(to, &mine, sizeof(mine));
  flags_.post(line::identity, 1, 0);
}

bool SingleCopy::all_posted(uint32_t line) const {
  for (uint32_t rank = 0; rank < flags_.nranks(); ++rank) {
    if (flag_sequence(flags_.flag(rank, line)) == 0) return false;
  }
  return true;
}

SingleCopy::Answer SingleCopy::answer() {
  if (answer_ != Answer::unknown) return answer_;
  if (!told_) {
    if (!all_posted(line::identity)) return answer_;
    flags_.post(line::can_read, can_read_everyone() ? 2 : 1, 0);
    told_ = true;
  }
  if (!all_posted(line::can_read)) return answer_;
  answer_ = Answer::yes;
  for (uint32_t rank = 0; rank < flags_.nranks(); ++rank) {
    if (flag_sequence(flags_.flag(rank, line::can_read)) != 2) answer_ = Answer::no;
  }
  return answer_;
}

bool SingleCopy::can_read_everyone() {
  for (uint32_t rank = 0; rank < flags_.nranks(); ++rank) {
    Identity theirs;
    const std::byte* const from = flags_.at(rank, line::identity).payload;
    slots::will_read(from, sizeof(theirs));
    std::memcpy(&theirs, from, sizeof(theirs));
    processes_[rank] = {theirs.pid, theirs.address, theirs.nonce};
    uint64_t found = 0;
    const auto* at = reinterpret_cast<const std::byte*>(theirs.address);
    if (theirs.copying == Copying::never ||
        read(rank, at, reinterpret_cast<std::byte*>(&found), sizeof(found)) != 0) {
      return false;
    }
  }
  return true;
}

int SingleCopy::waits_for() const {
  for (uint32_t rank = 0; rank < flags_.nranks(); ++rank) {
    if (flag_sequence(flags_.flag(rank, line::can_read)) == 0) return int(rank);
  }
  return -1;
}

int SingleCopy::read(uint32_t rank, const std::byte* from, std::byte* to, size_t bytes) const {
  slots::will_read_racing(from, bytes);
  return read_process(processes_[rank], from, to, bytes);
}

}  // namespace tutti::shared
