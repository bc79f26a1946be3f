#include "lib/record/recorder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/host_name.h"
#include "lib/base/process.h"
#include "lib/record/own_folder.h"
#include "lib/record/writer_lock.h"

namespace tutti::record {

namespace {

// Slots of freed communicators are kept as long as there are no more than this.
constexpr uint32_t history = 64;

template <size_t n>
void copy_text(std::string_view text, char (&to)[n]) {
  const size_t length = std::min(text.size(), n - 1);
  std::memcpy(to, text.data(), length);
  std::memset(to + length, 0, n - length);
}

// The file of this process. A forked child makes one of its own.
class File final : public process::Leaver {
 public:
  Status open(const std::string& folder) {
    const std::lock_guard lock(mutex_);
    if (file_ || !why_not_.ok()) return {};
    is_own_ = folder == own_folder();
    if (is_own_) why_not_ = make_own_folder(folder);
    if (!why_not_.ok()) return {};
    Fd made;
    TUTTI_TRY(create(folder, &made));
    why_not_ = begin(std::move(made));
    return {};
  }

  // *index is most_slots where all are in use.
  Status take(uint32_t* index, Mapping* mapping) {
    const std::lock_guard lock(mutex_);
    if (!file_) return why_not_;
    freed_.reserve(used_ + 1);  // give_back() must not fail
    const bool again = used_ >= history && !freed_.empty();
    *index = again ? freed_.front() : used_;
    if (*index >= most_slots) {
      ++header_->unrecorded;
      return {};
    }
    const size_t at = header_bytes + size_t(*index) * slot_bytes;
    if (!again) TUTTI_TRY(grow(file_, at + slot_bytes));
    TUTTI_TRY(map_memory(file_, {at, slot_bytes}, mapping));
    std::memset(mapping->base, 0, sizeof(Slot));
    ++live_;
    if (again) {
      freed_.erase(freed_.begin());
    } else {
      ++used_;
      std::atomic_ref(header_->slots).store(used_, std::memory_order_release);
    }
    return {};
  }

  void give_back(uint32_t index) noexcept {
    const std::lock_guard lock(mutex_);
    freed_.push_back(index);
    --live_;
  }

  void note_failure() noexcept { has_failed_ = true; }

  // What nobody has asked for stays where somebody may ask for it now.
  void at_exit() noexcept override {
    header_->ended = Ended::in_order;
    if (is_own_ && !has_failed_ && live_ == 0) unlink(path_.c_str());
  }

 private:
  Status begin(Fd made) {
    TUTTI_TRY(lock_as_writer(made));
    TUTTI_TRY(grow(made, header_bytes));
    Mapping mapping;
    TUTTI_TRY(map_memory(made, {0, header_bytes}, &mapping));
    auto* const header = reinterpret_cast<FileHeader*>(mapping.base);
    TUTTI_TRY(fill(made, header));
    mapping_ = std::move(mapping);
    header_ = header;
    file_ = std::move(made);
    process::keep_from_children(file_);
    process::add(this);
    return {};
  }

  // A name that no other has, also where records of several hosts lie together.
  Status create(const std::string& folder, Fd* out) {
    constexpr std::string_view ending = ".record";
    path_ = folder + "/" + host_name() + "-" + std::to_string(getpid()) + "-XXXXXX";
    path_ += ending;
    *out = Fd(mkostemps(path_.data(), int(ending.size()), O_CLOEXEC));
    if (*out) return {};
    return {TUTTI_INVALID,
            "TUTTI_RECORD_DIR is '" + folder +
                "', but no flight record can be made there: " + std::strerror(errno)};
  }

  // Allocates what a store would else have to find, and end the process if there is none.
  static Status grow(const Fd& file, size_t bytes) {
    TUTTI_TRY(check_file_size(bytes));
    const int error = posix_fallocate(file.get(), 0, off_t(bytes));
    if (error != 0) return system_error("cannot write the flight record", error);
    return {};
  }

  static Status fill(const Fd& file, FileHeader* header) {
    struct stat made {};
    if (fstat(file.get(), &made) != 0)
      return system_error("cannot look at the flight record", errno);
    header->version = version;
    header->device = made.st_dev;
    header->inode = made.st_ino;
    header->process = getpid();
    header->realtime_ns = realtime_ns() - int64_t(now_ns());
    header->library = library_version();
    copy_text(host_name(), header->host);
    copy_text(program_invocation_short_name, header->program);
    std::atomic_ref(header->magic).store(magic, std::memory_order_release);
    return {};
  }

  std::mutex mutex_;
  std::string path_;
  bool is_own_ = false;  // in own_folder()
  std::atomic<bool> has_failed_{false};
  std::atomic<uint32_t> live_{0};  // communicators
  Fd file_;
  Status why_not_;  // where the file was made, but cannot be used
  Mapping mapping_;
  FileHeader* header_ = nullptr;
  uint32_t used_ = 0;
  std::vector<uint32_t> freed_;  // the longest ago first
};

File& file() { return process::own<File>(); }

}  // namespace

Status check_folder(const std::string& folder) { return file().open(folder); }

Status open(const std::string& folder, const Made& made, std::unique_ptr<Recorder>* out) {
  TUTTI_TRY(check_folder(folder));
  uint32_t index = 0;
  Mapping mapping;
  TUTTI_TRY(file().take(&index, &mapping));
  if (mapping.base == nullptr) return {};
  out->reset(new Recorder(index, std::move(mapping)));
  CommHeader& header = (*out)->slot_->header;
  header.rank = uint32_t(made.rank);
  header.nranks = uint32_t(made.nranks);
  header.id = made.id;
  header.made_ns = now_ns();
  copy_text(made.transport, header.transport);
  std::atomic_ref(header.use).store(Use::live, std::memory_order_release);
  return {};
}

Recorder::~Recorder() {
  CommHeader& header = slot_->header;
  header.freed_ns = now_ns();
  std::atomic_ref(header.use).store(Use::freed, std::memory_order_release);
  file().give_back(index_);
}

void Recorder::waited(uint32_t sequence) {
  Entry& entry = slot_->ring[sequence % ring_entries];
  if (entry.sequence == sequence) entry.left_ns = coarse_ns();
}

void Recorder::waits(uint32_t sequence, int peer, const Way& way, uint64_t now_ns) {
  Wait& wait = slot_->header.wait;
  const uint32_t turn = wait.turn;
  put(wait.turn, turn + 1);
  std::atomic_thread_fence(std::memory_order_release);
  if (wait.sequence != sequence || wait.peer != peer) {
    wait.sequence = sequence;
    wait.peer = peer;
    wait.since_ns = now_ns;
    copy_text(way.link, wait.link);
    copy_text(way.addresses, wait.addresses);
  }
  wait.seen_ns = now_ns;
  std::atomic_thread_fence(std::memory_order_release);
  put(wait.turn, turn + 2);
}

void Recorder::fail(const Status& why) {
  Failure& failure = slot_->header.failure;
  if (failure.set != 0) return;
  file().note_failure();
  failure.code = why.code();
  failure.rank = why.rank();
  failure.call = why.call();
  failure.at_ns = now_ns();
  copy_text(why.text(), failure.text);
  std::atomic_thread_fence(std::memory_order_release);
  put(failure.set, 1);
  for (Entry& entry : slot_->ring) {
    if (entry.tail == tail_of(entry.sequence, State::entered) && entry.sequence != 0)
      put(entry.tail, tail_of(entry.sequence, State::failed));
  }
}

}  // namespace tutti::record
