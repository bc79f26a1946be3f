#include "lib/shared_memory/adopted.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/ioctl.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <vector>

#include "lib/base/mapping.h"
#include "lib/base/maps.h"
#include "lib/shared_memory/adoptable.h"

namespace tutti::shared {

namespace {

void* pointer_to(uintptr_t at) {
  return reinterpret_cast<void*>(at);  // NOLINT(performance-no-int-to-ptr)
}

size_t page_bytes() { return size_t(sysconf(_SC_PAGESIZE)); }

// From linux/fs.h of Linux 6.11: the mapping around an address, of an open /proc/self/maps.
struct ProcmapQuery {
  uint64_t size;
  uint64_t query_flags;
  uint64_t query_address;
  uint64_t begin, end, flags, page_bytes, offset, inode;
  uint32_t major, minor;
  uint32_t name_bytes, build_id_bytes;
  uint64_t name, build_id;
};
static_assert(sizeof(ProcmapQuery) == 104);
constexpr unsigned long procmap_query = _IOWR('f', 17, ProcmapQuery);
constexpr uint64_t procmap_shared = 8;

// Of memory that another thread may unmap meanwhile: false then.
bool read_own(uintptr_t from, void* to, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const iovec remote{pointer_to(from + done), bytes - done},
        local{static_cast<std::byte*>(to) + done, bytes - done};
    const ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    if (got <= 0) return false;
    done += size_t(got);
  }
  return true;
}

// Whether two addresses are of the same place in the same file. To the kernel both are then the
// same futex, and it refuses to move waiters from a futex to itself. It moves none otherwise.
bool same_page(const void* a, const void* b) {
  return syscall(SYS_futex, a, FUTEX_CMP_REQUEUE_PI, 1, nullptr, b, 0) == -1 && errno == EINVAL;
}

}  // namespace

struct Adopted::Pages {
  uintptr_t begin = 0, end = 0;
  Fd memory;
  void* other = nullptr;  // the same memory, mapped a second time
  dev_t device = 0;
  ino_t inode = 0;
  HugePages huge = HugePages::as_usual;
  std::atomic<bool> gone{false};  // found unmapped, all or part of it
  bool inherited = false;         // this process is a child and has got copies

  Pages() = default;
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { unmap_other(); }

  bool is_left() const { return other == nullptr; }
  // The program's mapping alone keeps the memory.
  void leave() {
    unmap_other();
    memory = Fd();
  }
  void unmap_other() {
    if (other != nullptr && !inherited) munmap(other, end - begin);
    other = nullptr;
  }

  // What is still mapped.
  Status find(std::vector<MapsEntry>* out) const {
    TUTTI_TRY(read_maps(begin, end, false, out));
    std::erase_if(*out, [this](const MapsEntry& entry) {
      return !entry.is_shared() || entry.inode != inode || entry.device != device ||
             entry.offset + (begin - entry.begin) != 0;
    });
    for (MapsEntry& entry : *out) {  // a program may have mapped more of the same file beside it
      entry.begin = std::max(entry.begin, begin);
      entry.end = std::min(entry.end, end);
    }
    return {};
  }
};

// All adopted memory of the process.
class Adopted::Registry {
 public:
  static Registry& get() {
    static auto* const registry = new Registry;  // lives on: fork() may come at any time
    return *registry;
  }

  Status add(const std::shared_ptr<Pages>& pages);
  void remove(const std::shared_ptr<Pages>& pages, End end);
  // As procmap_query has it; false: this kernel has none, or no list of mappings is to be had.
  bool query(uintptr_t at, ProcmapQuery* out, bool* found);

 private:
  // A copy of adopted pages for a child; made is null where there was no memory for one.
  struct Copy {
    void* made;
    uintptr_t place;
    size_t bytes;
    const char* put() const;  // null, or why the child does not have it
  };

  static Status replace(Pages& pages);
  std::shared_ptr<Pages> find_left(uintptr_t begin, uintptr_t end);
  static bool give_back(const Pages& pages);
  static bool copy_out(const Pages& pages, const MapsEntry& entry, Copy* out);
  void before_fork();
  void after_fork_in_parent();
  void after_fork_in_child();

  std::mutex lock_;
  std::vector<std::shared_ptr<Pages>> all_;
  std::vector<Copy> copies_;  // during fork()
  bool watches_forks_ = false;
  std::atomic<int> maps_{-1};
  std::atomic<bool> can_query_{true};
};

// ---------------------------------------------------------------- one piece of memory

Status Adopted::adopt(std::byte* address, size_t bytes, End end, std::shared_ptr<Adopted>* out) {
  const size_t page = page_bytes();
  const auto from = reinterpret_cast<uintptr_t>(address);
  auto pages = std::make_shared<Pages>();
  pages->begin = (from + page - 1) / page * page;
  pages->end = (from + bytes) / page * page;
  if (from + bytes < from || pages->begin >= pages->end) {
    return {TUTTI_INVALID, "the memory cannot be adopted: there is no whole page of " +
                               std::to_string(page) + " bytes in it"};
  }
  std::shared_ptr<Adopted> adopted(new Adopted(pages, end));
  TUTTI_TRY(Registry::get().add(pages));
  if (!adopted->holds(adopted->begin(), adopted->bytes())) {
    adopted->end_with(End::given_back);
    return {TUTTI_UNSUPPORTED,
            "the memory cannot be adopted: this system does not say whose mapping it is"};
  }
  *out = std::move(adopted);
  return {};
}

std::byte* Adopted::begin() const { return static_cast<std::byte*>(pointer_to(pages_->begin)); }
size_t Adopted::bytes() const { return pages_->end - pages_->begin; }
const Fd& Adopted::memory() const { return pages_->memory; }

Adopted::~Adopted() { Registry::get().remove(pages_, end_); }

bool Adopted::holds(const std::byte* from, size_t bytes) const {
  Pages& pages = *pages_;
  if (pages.gone.load(std::memory_order_relaxed)) return false;
  uintptr_t at = std::max(reinterpret_cast<uintptr_t>(from), pages.begin);
  const uintptr_t end = std::min(reinterpret_cast<uintptr_t>(from) + bytes, pages.end);
  bool same = true;
  for (const uintptr_t begin = at; same && at < end;) {
    ProcmapQuery found{};
    if (Registry::get().query(at, &found, &same)) {
      same = same && (found.flags & procmap_shared) != 0 && found.inode == pages.inode &&
             makedev(found.major, found.minor) == pages.device &&
             found.offset + (at - found.begin) == at - pages.begin;
      at = found.end;
      continue;
    }
    const size_t page = page_bytes();
    const auto* const other = static_cast<const std::byte*>(pages.other);
    const uintptr_t first = begin / page * page, last = (end - 1) / page * page;
    same = same_page(pointer_to(first), other + (first - pages.begin)) &&
           same_page(pointer_to(last), other + (last - pages.begin));
    break;
  }
  if (!same) pages.gone.store(true, std::memory_order_relaxed);
  return same;
}

// ---------------------------------------------------------------- all of the process

Status Adopted::Registry::add(const std::shared_ptr<Pages>& pages) {
  const std::lock_guard guard(lock_);
  if (!watches_forks_) {
    const int failed =
        pthread_atfork([] { get().before_fork(); }, [] { get().after_fork_in_parent(); },
                       [] { get().after_fork_in_child(); });
    if (failed != 0) return system_error("cannot watch for fork()", failed);
    watches_forks_ = true;
  }
  all_.reserve(all_.size() + 1);  // what follows the replacement must not fail
  const std::shared_ptr<Pages> left = find_left(pages->begin, pages->end);
  if (left != nullptr) {
    pages->huge = left->huge;
  } else {
    TUTTI_TRY(check_adoptable(pages->begin, pages->end, &pages->huge));
  }
  TUTTI_TRY(replace(*pages));
  std::erase(all_, left);
  all_.push_back(pages);
  return {};
}

// What was left there and is still all there; null: nothing. Forgets what the program has unmapped
// since it was left.
std::shared_ptr<Adopted::Pages> Adopted::Registry::find_left(uintptr_t begin, uintptr_t end) {
  std::shared_ptr<Pages> found;
  std::erase_if(all_, [&](const std::shared_ptr<Pages>& pages) {
    std::vector<MapsEntry> ours;
    if (!pages->is_left() || !pages->find(&ours).ok()) return false;
    if (pages->begin == begin && pages->end == end && ours.size() == 1 &&
        ours.front().begin == begin && ours.front().end == end && ours.front().can_read_and_write())
      found = pages;
    return ours.empty();
  });
  return found;
}

Status Adopted::Registry::replace(Pages& pages) {
  const size_t bytes = pages.end - pages.begin;
  TUTTI_TRY(make_memory("tutti-adopted", bytes, &pages.memory));
  struct stat found {};
  if (fstat(pages.memory.get(), &found) != 0) {
    return system_error("cannot look at shared memory", errno);
  }
  pages.device = found.st_dev;
  pages.inode = found.st_ino;
  const auto map = [&](void* at, int flags) {
    return mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags, pages.memory.get(), 0);
  };
  void* const made = map(nullptr, 0);
  if (made == MAP_FAILED) return system_error("cannot map adopted memory", errno);
  void* const other = map(nullptr, 0);
  if (other != MAP_FAILED) pages.other = other;
  Status ready = touch(static_cast<std::byte*>(made), bytes);
  if (ready.ok() && (other == MAP_FAILED || madvise(made, bytes, MADV_DONTFORK) != 0 ||
                     madvise(other, bytes, MADV_DONTFORK) != 0)) {
    ready = system_error("cannot map adopted memory", errno);
  }
  if (ready.ok()) {
    std::memcpy(made, pointer_to(pages.begin), bytes);
    if (mremap(made, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pointer_to(pages.begin)) !=
        MAP_FAILED) {
      return {};
    }
    ready = system_error("cannot put shared memory in the place of adopted memory", errno);
  }
  munmap(made, bytes);
  return ready;
}

void Adopted::Registry::remove(const std::shared_ptr<Pages>& pages, End end) {
  const std::lock_guard guard(lock_);
  if (end == End::left) return pages->leave();
  const auto found = std::find(all_.begin(), all_.end(), pages);
  // Where there is no memory to give it back, it stays as it is, and known to fork().
  if (found != all_.end() && give_back(*pages)) all_.erase(found);
}

// What the program has unmapped is left alone.
bool Adopted::Registry::give_back(const Pages& pages) {
  try {
    std::vector<MapsEntry> ours;
    if (!pages.find(&ours).ok()) return false;
    for (const MapsEntry& entry : ours) {
      Copy copy{};
      if (!copy_out(pages, entry, &copy)) return false;
      if (pages.huge != HugePages::as_usual) {
        madvise(copy.made, copy.bytes,
                pages.huge == HugePages::wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
      }
      if (mremap(copy.made, copy.bytes, copy.bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                 pointer_to(copy.place)) == MAP_FAILED) {
        munmap(copy.made, copy.bytes);
        return false;
      }
    }
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

bool Adopted::Registry::copy_out(const Pages& pages, const MapsEntry& entry, Copy* out) {
  const size_t bytes = entry.end - entry.begin;
  void* const made =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) return false;
  if (!touch(static_cast<std::byte*>(made), bytes).ok()) {
    munmap(made, bytes);
    return false;
  }
  if (!pages.is_left()) {
    std::memcpy(made, static_cast<std::byte*>(pages.other) + (entry.begin - pages.begin), bytes);
  } else if (!read_own(entry.begin, made, bytes)) {
    munmap(made, bytes);
    return false;
  }
  if (!entry.can_read_and_write()) {  // the program has changed it since
    const int protection = (entry.mode[0] == 'r' ? PROT_READ : 0) |
                           (entry.mode[1] == 'w' ? PROT_WRITE : 0) |
                           (entry.mode[2] == 'x' ? PROT_EXEC : 0);
    mprotect(made, bytes, protection);
  }
  *out = {made, entry.begin, bytes};
  return true;
}

bool Adopted::Registry::query(uintptr_t at, ProcmapQuery* out, bool* found) {
  if (!can_query_.load(std::memory_order_relaxed)) return false;
  int maps = maps_.load(std::memory_order_acquire);
  if (maps < 0) {
    const int opened = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (opened < 0) return false;
    if (maps_.compare_exchange_strong(maps, opened)) {
      maps = opened;
    } else {
      close(opened);
    }
  }
  out->size = sizeof(*out);
  out->query_address = at;
  *found = ioctl(maps, procmap_query, out) == 0;
  if (!*found && errno == ENOTTY) {
    can_query_.store(false, std::memory_order_relaxed);
    return false;
  }
  return true;
}

// ---------------------------------------------------------------- fork

// Where there is no memory for a copy, the child finds nothing mapped there, and says so.
void Adopted::Registry::before_fork() {
  lock_.lock();
  for (const std::shared_ptr<Pages>& pages : all_) {
    try {
      std::vector<MapsEntry> ours;
      if (!pages->find(&ours).ok()) continue;
      for (const MapsEntry& entry : ours) {
        copies_.reserve(copies_.size() + 1);
        Copy copy{nullptr, entry.begin, entry.end - entry.begin};
        copy_out(*pages, entry, &copy);
        copies_.push_back(copy);
      }
    } catch (const std::bad_alloc&) {
      continue;
    }
  }
}

void Adopted::Registry::after_fork_in_parent() {
  for (const Copy& copy : copies_) {
    if (copy.made != nullptr) munmap(copy.made, copy.bytes);
  }
  copies_.clear();
  lock_.unlock();
}

const char* Adopted::Registry::Copy::put() const {
  if (made == nullptr) return "there was no memory for one";
  // What runs in a child before this may have mapped something there.
  void* const at = mmap(pointer_to(place), bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (at != pointer_to(place)) return "something else is mapped there";
  return mremap(made, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) != MAP_FAILED
             ? nullptr
             : "it could not be moved there";
}

void Adopted::Registry::after_fork_in_child() {
  for (const Copy& copy : copies_) {
    if (const char* const why = copy.put()) {
      dprintf(STDERR_FILENO,
              "tutti: the child %d of fork() has no copy of the %zu bytes of adopted memory at %p: "
              "%s\n",
              int(getpid()), copy.bytes, pointer_to(copy.place), why);
    }
  }
  copies_.clear();
  for (const std::shared_ptr<Pages>& pages : all_) pages->inherited = true;
  all_.clear();
  // It tells of the parent's memory.
  if (maps_.load() >= 0) close(maps_.exchange(-1));
  lock_.unlock();
}

}  // namespace tutti::shared
