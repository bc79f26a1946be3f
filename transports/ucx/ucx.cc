#include "transports/ucx/ucx.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/control/agree.h"
#include "lib/control/socket.h"
#include "transports/registry.h"
#include "transports/stream/mesh.h"
#include "transports/stream/stream_link.h"
#include "transports/ucx/direct_stream.h"
#include "transports/ucx/progress_thread.h"
#include "transports/ucx/staged_stream.h"
#include "transports/ucx/worker.h"

namespace tutti {

namespace ucx {

namespace {

// While ranks connect, some of UCX's transports signal no event until both sides make progress.
constexpr uint64_t most_connecting_sleep_ns = 1'000'000;

// Equal for two processes of one network that find each other's shared memory and processes, and
// may use them; empty where that is not known.
std::string memory_of_this_process() {
  std::string all = std::to_string(geteuid());
  for (const char* path :
       {"/proc/self/ns/ipc", "/proc/self/ns/pid", "/proc/self/ns/user", "/proc/self/ns/mnt"}) {
    char name[64] = {};
    if (::readlink(path, name, sizeof(name) - 1) <= 0) return {};
    all += std::string(" ") + name;
  }
  return all;
}

class Setup {
 public:
  explicit Setup(const LinkSetup& setup)
      : setup_(setup), self_(setup.exchange->rank()), nranks_(size_t(setup.exchange->nranks())) {}

  ~Setup() {
    if (worker_ != nullptr) worker_->close();
  }
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;

  Status open(std::unique_ptr<Link>* out) {
    Exchange& exchange = *setup_.exchange;
    std::vector<std::string> told;
    TUTTI_TRY(exchange.allgather(tcp::network_of_this_process() + '\n' + memory_of_this_process(),
                                 setup_.deadline_ns, &told));
    for (const std::string& text : told) {
      const size_t end = text.rfind('\n');
      networks_.push_back(text.substr(0, end));
      memories_.push_back(text.substr(end + 1));
    }
    Status prepared = check_integrity();
    if (prepared.ok() && has_peers()) prepared = make_worker();
    TUTTI_TRY(agree(exchange, prepared, setup_.deadline_ns));
    const std::string address = worker_ != nullptr ? worker_->address() : std::string();
    TUTTI_TRY(exchange.allgather(address, setup_.deadline_ns, &addresses_));
    std::vector<SecureSocket> control;
    tcp::Terms terms;
    TUTTI_TRY(tcp::connect_mesh(setup_, &control, &terms));
    TUTTI_TRY(agree(exchange, make_streams(), setup_.deadline_ns));
    TUTTI_TRY(agree(exchange, greet_all(control), setup_.deadline_ns));

    std::vector<tcp::Pair> pairs(nranks_);
    for (size_t rank = 0; rank < nranks_; ++rank) {
      pairs[rank] = {std::move(streams_[rank]), std::move(control[rank])};
    }
    auto link = std::make_unique<tcp::StreamLink>("ucx", setup_.comm_id, self_, std::move(pairs),
                                                  setup_.heartbeat_ns, std::move(worker_));
    TUTTI_TRY(agree(exchange, link->prepare(), setup_.deadline_ns));
    if (link->has_peers()) *out = std::move(link);
    return {};
  }

 private:
  bool is_peer(size_t rank) const { return int(rank) != self_ && setup_.peers[rank] != 0; }
  bool has_peers() const {
    for (size_t rank = 0; rank < nranks_; ++rank) {
      if (is_peer(rank)) return true;
    }
    return false;
  }

  bool is_across_hosts(size_t rank) const {
    return !tcp::share_network(networks_[rank], networks_[size_t(self_)]);
  }

  // The ranks of one network find the same, unless some of them have peers outside it.
  Reach reach() const {
    const auto self = size_t(self_);
    Reach found = Reach::memory;
    for (size_t rank = 0; rank < nranks_; ++rank) {
      if (is_peer(rank) && is_across_hosts(rank)) return Reach::network;
      const bool near = rank == self || !is_across_hosts(rank);
      if (near && (memories_[rank].empty() || memories_[rank] != memories_[self]))
        found = Reach::loopback;
    }
    return found;
  }

  // Before a port is open.
  Status check_integrity() const {
    if (setup_.integrity == Integrity::none) return {};
    for (size_t rank = 0; rank < nranks_; ++rank) {
      if (!is_peer(rank)) continue;
      if (setup_.integrity == Integrity::automatic && !is_across_hosts(rank)) continue;
      return {TUTTI_UNSUPPORTED,
              "ucx carries what goes to " + rank_name(int(rank)) +
                  " in clear, and its ports believe whoever connects: it serves where "
                  "TUTTI_INTEGRITY=none says so, and tcp where that is not wanted",
              int(rank)};
    }
    return {};
  }

  Status make_worker() { return Worker::create(reach(), setup_.comm_id, self_, nranks_, &worker_); }

  Status make_streams() {
    streams_.resize(nranks_);
    for (size_t rank = 0; rank < nranks_; ++rank) {
      if (!is_peer(rank)) continue;
      if (addresses_[rank].empty()) {
        return {TUTTI_CORRUPT, rank_name(int(rank)) + " gave no address of UCX", int(rank)};
      }
      streams_[rank] = make_stream(int(rank), is_across_hosts(rank));
      TUTTI_TRY(streams_[rank]->connect(addresses_[rank]));
    }
    return {};
  }

  std::unique_ptr<UcxStream> make_stream(int rank, bool across_hosts) const {
    switch (setup_.memory) {
      case LinkMemory::gpu:
        return std::make_unique<DirectStream>(*worker_, rank, across_hosts, UCS_MEMORY_TYPE_CUDA);
      case LinkMemory::unknown:
        return std::make_unique<DirectStream>(*worker_, rank, across_hosts,
                                              UCS_MEMORY_TYPE_UNKNOWN);
      case LinkMemory::host:
        break;
    }
    return std::make_unique<StagedStream>(*worker_, rank, across_hosts);
  }

  // A rank returns when it has the greetings of all peers; what they still need of it to connect
  // is done by the progress thread.
  Status greet_all(const std::vector<SecureSocket>& control) {
    for (const auto& stream : streams_) {
      if (stream != nullptr) stream->greet();
    }
    for (size_t rank = 0; rank < nranks_; ++rank) {
      if (streams_[rank] != nullptr) TUTTI_TRY(await(*streams_[rank], int(rank), control));
    }
    if (worker_ != nullptr) worker_->open();
    return {};
  }

  Status await(UcxStream& stream, int rank, const std::vector<SecureSocket>& control) {
    for (;;) {
      worker_->advance();
      TUTTI_TRY(stream.corrupt());
      TUTTI_TRY(stream.failure());
      if (stream.greeted()) return {};
      const uint64_t now = now_ns();
      if (now >= setup_.deadline_ns) {
        return {TUTTI_TIMEOUT, "ucx: no connection to " + rank_name(rank) + " came about in time",
                rank};
      }
      if (!worker_->arm()) continue;
      std::vector<pollfd> set{{worker_->fd(), POLLIN, 0}};
      for (const SecureSocket& one : control) {
        if (one) set.push_back({one.get(), POLLRDHUP, 0});
      }
      TUTTI_TRY(wait_for_events(set, std::min(setup_.deadline_ns, now + most_connecting_sleep_ns)));
      TUTTI_TRY(find_gone(control, set));
    }
  }

  Status find_gone(const std::vector<SecureSocket>& control, const std::vector<pollfd>& set) const {
    size_t place = 1;
    for (size_t rank = 0; rank < control.size(); ++rank) {
      if (!control[rank] || set[place++].revents == 0) continue;
      return {TUTTI_PEER_FAILED, rank_name(int(rank)) + " has gone while connections were made",
              int(rank)};
    }
    return {};
  }

  const LinkSetup& setup_;
  int self_;
  size_t nranks_;
  std::unique_ptr<Worker> worker_;  // outlives the streams
  std::vector<std::string> addresses_, networks_, memories_;
  std::vector<std::unique_ptr<UcxStream>> streams_;
};

// The last words of the lines "resource 1 : md 1 dev 1 flags -- tcp/eth0".
std::vector<std::string> resources_in(const std::string& text) {
  std::vector<std::string> found;
  for (size_t at = text.find(" resource "); at != text.npos; at = text.find(" resource ", at + 1)) {
    const std::string line = text.substr(at, text.find('\n', at) - at);
    const size_t space = line.find_last_of(' ');
    if (line.find("--") != line.npos) found.push_back(line.substr(space + 1));
  }
  return found;
}

}  // namespace

}  // namespace ucx

namespace {

Status open_ucx(const LinkSetup& setup, std::unique_ptr<Link>* out) {
  return ucx::Setup(setup).open(out);
}

Status usable() {
  UcxFound found;
  return find_ucx(&found);
}

// "UCX 1.13.1 over tcp/eth0, posix/memory; not for memory of GPUs"
std::string found_here() {
  UcxFound found;
  if (!find_ucx(&found).ok()) return {};
  std::string text = "UCX " + found.version + " over ";
  for (const std::string& one : found.resources) {
    text += (&one == found.resources.data() ? "" : ", ") + one;
  }
  return text + (found.moves_gpu_memory ? "; also for memory of GPUs" : "; not for memory of GPUs");
}

}  // namespace

Status find_ucx(UcxFound* out) {
  std::shared_ptr<ucx::Context> context;
  TUTTI_TRY(ucx::Context::shared(ucx::Reach::network, &context));
  out->version = context->ucx->ucp_get_version_string();
  out->moves_gpu_memory = context->handles_gpu_memory();
  char* text = nullptr;
  size_t bytes = 0;
  FILE* const memory = open_memstream(&text, &bytes);
  if (memory == nullptr) return system_error("no memory stream", errno);
  context->ucx->ucp_context_print_info(context->handle, memory);
  fclose(memory);
  out->resources = ucx::resources_in(std::string(text, bytes));
  free(text);
  return {};
}

uint32_t ucx_threads() {
  if (!ucx::progress_thread_runs()) return 0;
  uint32_t found = 1;
  DIR* const tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return found;
  while (const dirent* const entry = readdir(tasks)) {
    char name[16] = {};
    const std::string path = std::string("/proc/self/task/") + entry->d_name + "/comm";
    const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file || ::read(file.get(), name, sizeof(name) - 1) <= 0) continue;
    found += std::string_view(name) == "async\n";  // UCX's name for its thread
  }
  closedir(tasks);
  return found;
}

Status ucx_moves_gpu_memory() {
  UcxFound found;
  TUTTI_TRY(find_ucx(&found));
  if (found.moves_gpu_memory) return {};
  return {TUTTI_UNSUPPORTED, "UCX " + found.version + " does not handle memory of GPUs here"};
}

bool ucx_may_use_rdma() {
  DIR* const devices = opendir("/sys/class/infiniband");
  if (devices == nullptr) return false;
  bool some = false;
  while (const dirent* const entry = readdir(devices)) some = some || entry->d_name[0] != '.';
  closedir(devices);
  const ucx::Functions* functions = nullptr;
  return some && ucx::Functions::get(&functions).ok();
}

const Transport ucx_transport{
    .name = "ucx",
    .about = "any two processes, through UCX: over RDMA, shared memory or IP",
    .reach = Transport::Reach::network,
    .always_in_clear = true,
    .open = open_ucx,
    .usable = usable,
    .found_here = found_here,
    .worthwhile = ucx_may_use_rdma,
    .moves_gpu_memory = ucx_moves_gpu_memory,
    .threads = ucx_threads,
};

}  // namespace tutti
