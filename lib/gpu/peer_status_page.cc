#include "lib/gpu/peer_status_page.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "lib/base/mapping.h"
#include "lib/control/agree.h"

namespace tutti {

struct PeerStatusPage::Page {
  static constexpr size_t text_bytes = 1024;
  std::atomic<uint64_t> begun, ended;
  std::atomic<uint32_t> left;
  std::atomic<uint32_t> code;  // once not TUTTI_OK, what follows is valid
  int32_t rank;
  uint32_t length;
  uint64_t call;
  char text[text_bytes];
};

// Sent as raw bytes.
struct PeerStatusPage::Introduction {
  int32_t pid = 0;
  int32_t fd = -1;
};

PeerStatusPage::~PeerStatusPage() {
  for (Page* page : pages_) {
    if (page != nullptr) munmap(page, sizeof(Page));
  }
}

Status PeerStatusPage::make_own(Fd* memory) {
  TUTTI_TRY(make_memory("tutti-notices", sizeof(Page), memory));
  void* const at =
      mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, memory->get(), 0);
  if (at == MAP_FAILED) return system_error("cannot map shared memory", errno);
  pages_[size_t(rank_)] = static_cast<Page*>(at);  // a new file is zeros
  return {};
}

Status PeerStatusPage::map(int rank, const Introduction& other) {
  const std::string of = " of rank " + std::to_string(rank);
  const std::string path = "/proc/" + std::to_string(other.pid) + "/fd/" + std::to_string(other.fd);
  const Fd memory(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!memory) return system_error("cannot open the notices" + of + ", " + path, errno);
  void* const at = mmap(nullptr, sizeof(Page), PROT_READ, MAP_SHARED, memory.get(), 0);
  if (at == MAP_FAILED) return system_error("cannot map the notices" + of, errno);
  pages_[size_t(rank)] = static_cast<Page*>(at);
  if (other.pid == getpid()) return {};
  Fd& process = processes_[size_t(rank)];
  process = Fd(int(syscall(SYS_pidfd_open, other.pid, 0)));
  if (!process) return system_error("cannot watch the process" + of, errno);
  return {};
}

Status PeerStatusPage::open(Exchange& exchange, uint64_t deadline_ns,
                            std::unique_ptr<PeerStatusPage>* out) {
  std::unique_ptr<PeerStatusPage> made(new PeerStatusPage);
  made->rank_ = exchange.rank();
  made->pages_.resize(size_t(exchange.nranks()));
  made->processes_.resize(size_t(exchange.nranks()));
  Fd memory;
  Status ready = made->make_own(&memory);
  const Introduction mine{getpid(), memory.get()};
  std::vector<std::string> all;
  TUTTI_TRY(
      exchange.allgather({reinterpret_cast<const char*>(&mine), sizeof(mine)}, deadline_ns, &all));
  for (int rank = 0; rank < exchange.nranks() && ready.ok(); ++rank) {
    if (rank == exchange.rank()) continue;
    Introduction other;
    if (all[size_t(rank)].size() != sizeof(other)) {
      ready = {TUTTI_CORRUPT, rank_name(rank) + " introduced itself wrongly", rank};
      break;
    }
    std::memcpy(&other, all[size_t(rank)].data(), sizeof(other));
    if (other.fd >= 0) ready = made->map(rank, other);
  }
  TUTTI_TRY(agree(exchange, ready, deadline_ns));
  *out = std::move(made);
  return {};
}

void PeerStatusPage::publish(uint64_t begun, uint64_t ended) {
  Page& page = *pages_[size_t(rank_)];
  page.begun.store(begun, std::memory_order_relaxed);
  page.ended.store(ended, std::memory_order_relaxed);
}

void PeerStatusPage::fail(const Status& why) {
  Page& page = *pages_[size_t(rank_)];
  if (page.code.load(std::memory_order_relaxed) != TUTTI_OK) return;
  page.rank = why.rank();
  page.call = why.call();
  page.length = uint32_t(std::min(why.text().size(), Page::text_bytes));
  std::memcpy(page.text, why.text().data(), page.length);
  page.code.store(uint32_t(why.code()), std::memory_order_release);
}

void PeerStatusPage::leave() { pages_[size_t(rank_)]->left.store(1, std::memory_order_release); }

PeerStatusPage::Seen PeerStatusPage::look(int rank) const {
  const Page& page = *pages_[size_t(rank)];
  Seen seen;
  seen.left = page.left.load(std::memory_order_acquire) != 0;
  seen.begun = page.begun.load(std::memory_order_relaxed);
  seen.ended = page.ended.load(std::memory_order_relaxed);
  if (const Fd& process = processes_[size_t(rank)]) {
    pollfd ready{process.get(), POLLIN, 0};
    // It may have left since the first look.
    seen.died = poll(&ready, 1, 0) == 1 && page.left.load(std::memory_order_acquire) == 0;
  }
  return seen;
}

Status PeerStatusPage::failure_of(int rank) const {
  const Page& page = *pages_[size_t(rank)];
  const uint32_t code = page.code.load(std::memory_order_acquire);
  if (code == TUTTI_OK) return {};
  const bool known = code > TUTTI_IN_PROGRESS && code <= TUTTI_INTERNAL;
  const size_t length = std::min<size_t>(page.length, Page::text_bytes);
  return {known ? tutti_status(code) : TUTTI_INTERNAL, std::string(page.text, length), page.rank,
          page.call};
}

}  // namespace tutti
