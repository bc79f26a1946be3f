#include "bench/gpu_subjects.h"

#include <cstring>
#include <utility>

namespace tutti::bench {
namespace {

constexpr int empty_phases = 2;

}  // namespace

GpuBuffers::GpuBuffers(const Gpu& gpu, tutti_comm comm, const Buffers& mirror, bool symmetric)
    : gpu_(gpu), comm_(comm), mirror_(mirror), symmetric_(symmetric) {
  send_ = make(mirror.bytes() + Buffers::guard);
  recv_ = make(mirror.bytes() + Buffers::guard);
}

GpuBuffers::~GpuBuffers() {
  for (void* memory : {send_, recv_}) {
    if (symmetric_)
      tutti_mem_free(comm_, memory);
    else
      gpu_.driver().release(reinterpret_cast<device::Address>(memory));
  }
}

void* GpuBuffers::make(size_t bytes) {
  void* memory = nullptr;
  if (symmetric_) {
    require(tutti_mem_alloc_device(comm_, bytes, &memory), comm_, "allocating symmetric memory");
    return memory;
  }
  device::Address address = 0;
  require(gpu_.driver().allocate(bytes, &address));
  return reinterpret_cast<void*>(address);
}

void GpuBuffers::copy(size_t at, size_t bytes, bool up) const {
  for (const auto& [here, there] : {std::pair{mirror_.send(), send_}, {mirror_.recv(), recv_}}) {
    void* gpu = static_cast<unsigned char*>(there) + at;
    void* host = here + at;
    require(up ? gpu_.driver().copy(gpu, host, bytes) : gpu_.driver().copy(host, gpu, bytes));
  }
}

void GpuBuffers::upload(size_t bytes) const {
  if (bytes) copy(0, bytes, true);
  copy(mirror_.bytes(), Buffers::guard, true);
}

void GpuBuffers::download(size_t bytes) const {
  if (bytes) copy(0, bytes, false);
  copy(mirror_.bytes(), Buffers::guard, false);
}

Call GpuBuffers::there(Call call) const {
  if (call.send != TUTTI_IN_PLACE) {
    const auto* send = static_cast<const unsigned char*>(call.send);
    call.send = static_cast<unsigned char*>(send_) + (send - mirror_.send());
  }
  if (call.recv != TUTTI_IN_PLACE) {
    const auto* recv = static_cast<unsigned char*>(call.recv);
    call.recv = static_cast<unsigned char*>(recv_) + (recv - mirror_.recv());
  }
  return call;
}

GpuSubject::GpuSubject(const Collective& collective, const Rank& me, tutti_comm comm,
                       std::string algorithm, const CallShape& shape,
                       const std::vector<Span>& spans, const Buffers& mirror,
                       const GpuBuffers& buffers, const Gpu& gpu, bool graph)
    : CollectiveSubject(collective, me, comm, std::move(algorithm), shape, spans, mirror),
      gpu_(gpu),
      buffers_(buffers),
      call_(buffers.there(calls_.front())),
      bytes_(collective.longest(me.nranks(), call_.count) * tutti_dtype_size(shape.dtype)),
      batches_(gpu, graph, [this] { enqueue(); }) {}

// Collective: makes the call once to find out.
bool GpuSubject::explain(tutti_explanation* explanation) {
  const tutti_status status = functions_.on(call_, gpu_.stream());
  *explanation = {};
  explanation->size = sizeof *explanation;
  describe_attempt(status, explanation);
  if (status == TUTTI_UNSUPPORTED) return false;
  require(status, comm_, algorithm_.c_str());
  finish();
  return true;
}

void GpuSubject::enqueue() const {
  const tutti_status status = functions_.on(call_, gpu_.stream());
  if (status != TUTTI_OK) [[unlikely]]
    require(status, comm_, algorithm_.c_str());
}

void GpuSubject::finish() const {
  gpu_.wait();
  require(tutti_comm_device_status(comm_), comm_, algorithm_.c_str());
}

void GpuSubject::run(size_t calls) {
  batches_.run(calls);
  require(tutti_comm_device_status(comm_), comm_, algorithm_.c_str());
}

void GpuSubject::check_call(const Call&) {
  buffers_.upload(bytes_);
  run(1);
  buffers_.download(bytes_);
}

void GpuSubject::describe(Result* result) const {
  CollectiveSubject::describe(result);
  result->gpu.enqueue_us = batches_.enqueue_us();
}

EmptySubject::EmptySubject(const Gpu& gpu, int nranks, bool graph)
    : gpu_(gpu),
      board_(gpu, sizeof(device::Board)),
      common_(std::make_unique<device::Common>()),
      batches_(gpu, graph, [this] { enqueue(); }) {
  device::Driver& driver = gpu.driver();
  auto board = std::make_unique<device::Board>();
  for (int rank = 0; rank < nranks; ++rank) {
    auto& flag = board->flags[device::ready_1][rank];
    flag.value = device::flag_set;
    const auto offset =
        reinterpret_cast<unsigned char*>(&flag) - reinterpret_cast<unsigned char*>(board.get());
    flags_.push_back(board_.address() + device::Address(offset));
  }
  require(driver.copy(board_.pointer(), board.get(), sizeof *board));
  require(driver.kernel("tutti_empty", &kernel_));
  common_->own = static_cast<device::Board*>(board_.pointer());
}

void EmptySubject::enqueue() const {
  for (int phase = 0; phase < empty_phases; ++phase) {
    require(gpu_.driver().wait_flags(gpu_.stream(), flags_));
    require(gpu_.driver().launch(kernel_, 1, 32, common_.get(), sizeof *common_, gpu_.stream()));
  }
}

}  // namespace tutti::bench
