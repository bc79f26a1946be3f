#include "lib/base/user_types.h"

#include <atomic>
#include <map>
#include <mutex>
#include <string>

namespace tutti {

namespace {

// Entries by number. Beside them a word per place, read without the lock: the number that lives
// there and 32 bits about it.
template <class Entry>
class Numbered {
 public:
  static constexpr uint32_t places = 4096;

  // 0 when all places are taken or all numbers used.
  uint32_t add(Entry entry, uint32_t info) {
    const std::lock_guard lock(mutex_);
    for (uint32_t tried = 0; tried < places && next_ < last; ++tried) {
      const uint32_t number = next_++;
      if (words_[number % places].load(std::memory_order_relaxed) != 0) continue;
      entries_.emplace(number, std::move(entry));
      words_[number % places].store(uint64_t(number) << 32 | info, std::memory_order_release);
      return number;
    }
    return 0;
  }
  bool remove(uint32_t number) {
    const std::lock_guard lock(mutex_);
    if (entries_.erase(number) == 0) return false;
    words_[number % places].store(0, std::memory_order_release);
    return true;
  }
  // 0 unless it is alive.
  uint32_t info(uint32_t number) const {
    const uint64_t word = words_[number % places].load(std::memory_order_acquire);
    return uint32_t(word >> 32) == number ? uint32_t(word) : 0;
  }
  // Calls use(entry) if it is alive.
  template <class Use>
  void with(uint32_t number, const Use& use) {
    const std::lock_guard lock(mutex_);
    if (const auto found = entries_.find(number); found != entries_.end()) use(found->second);
  }

 private:
  // Far above the header's own numbers, below its *_ANY_INT.
  static constexpr uint32_t first = 1 << 24, last = 0x7fffffff;
  std::mutex mutex_;
  std::array<std::atomic<uint64_t>, places> words_{};
  std::map<uint32_t, Entry> entries_;
  uint32_t next_ = first;
};

// They outlive every thread.
Numbered<std::string>& types() {
  static auto* const all = new Numbered<std::string>;
  return *all;
}
Numbered<UserOp>& ops() {
  static auto* const all = new Numbered<UserOp>;
  return *all;
}

constexpr uint32_t alive_bit = 1, commutative_bit = 2, premultiplied_bit = 4;
constexpr int dtype_shift = 8;

Status too_many(const char* what) {
  return {TUTTI_NO_MEMORY, "there are " + std::to_string(Numbered<UserOp>::places) + " " + what +
                               " already; free some"};
}

}  // namespace

Status create_user_dtype(size_t size, std::string_view name, tutti_dtype* out) {
  if (size == 0 || size > TUTTI_DTYPE_MOST_BYTES) {
    return {TUTTI_INVALID, "an element of " + std::to_string(size) + " bytes; allowed are 1 to " +
                               std::to_string(TUTTI_DTYPE_MOST_BYTES)};
  }
  if (name.empty()) return {TUTTI_INVALID, "the type has no name"};
  const uint32_t number = types().add(std::string(name), uint32_t(size));
  if (number == 0) return too_many("types");
  *out = static_cast<tutti_dtype>(number);
  return {};
}

Status create_user_op(const UserOp& op, tutti_op* out) {
  uint32_t info = alive_bit;
  if (op.commutative) info |= commutative_bit;
  if (op.function == nullptr) info |= premultiplied_bit | uint32_t(op.dtype) << dtype_shift;
  const uint32_t number = ops().add(op, info);
  if (number == 0) return too_many("operators");
  *out = static_cast<tutti_op>(number);
  return {};
}

Status free_user_dtype(tutti_dtype dtype) {
  if (types().remove(static_cast<uint32_t>(dtype))) return {};
  return {TUTTI_INVALID,
          "type " + std::to_string(int(dtype)) + " was not made by tutti_dtype_create()"};
}

Status free_user_op(tutti_op op) {
  if (ops().remove(static_cast<uint32_t>(op))) return {};
  return {TUTTI_INVALID, "operator " + std::to_string(int(op)) + " was not made by the program"};
}

size_t user_dtype_size(tutti_dtype dtype) { return types().info(static_cast<uint32_t>(dtype)); }

const char* user_dtype_name(tutti_dtype dtype) {
  const char* name = nullptr;
  types().with(static_cast<uint32_t>(dtype),
               [&](const std::string& entry) { name = entry.c_str(); });
  return name;
}

UserOpTraits user_op_traits(tutti_op op) {
  const uint32_t info = ops().info(static_cast<uint32_t>(op));
  UserOpTraits traits;
  traits.alive = info != 0;
  traits.commutative = (info & commutative_bit) != 0;
  traits.premultiplied = (info & premultiplied_bit) != 0;
  if (traits.premultiplied) traits.dtype = static_cast<tutti_dtype>(info >> dtype_shift);
  return traits;
}

bool find_user_op(tutti_op op, UserOp* out) {
  bool found = false;
  ops().with(static_cast<uint32_t>(op), [&](const UserOp& entry) {
    *out = entry;
    found = true;
  });
  return found;
}

}  // namespace tutti
