#include "bench/gpu_session.h"

#include <algorithm>

#include "bench/transports.h"

namespace tutti::bench {

GpuSession::GpuSession(const Options& options, const Rank& me)
    : options_(options),
      me_(me),
      gpus_(count_gpus()),
      gpu_(gpu_of_rank(me.rank(), me.nranks(), options.ranks_a_gpu, gpus_)),
      empty_(std::make_unique<EmptySubject>(gpu_, me.nranks(), options.graph)) {
  copy_GBs_ = measure_copy_GBs(me, gpu_);
  hand_over_us_ = measure_hand_over_us(me, gpu_);
  if (me.threads()) gpu_.driver().keep_released_memory(gpu_.device());
}

Comm GpuSession::open() const {
  return me_.open(me_.threads() ? thread_transport() : default_transport(), false, gpu_.name());
}

std::unique_ptr<GpuBuffers> GpuSession::buffers(tutti_comm comm, const Buffers& mirror) const {
  return std::make_unique<GpuBuffers>(gpu_, comm, mirror,
                                      options_.memory == Memory::cuda_symmetric);
}

std::unique_ptr<CollectiveSubject> GpuSession::subject(
    tutti_comm comm, const std::string& algorithm, CallShape shape, const std::vector<Span>& spans,
    const Buffers& mirror, const GpuBuffers& buffers) const {
  shape.symmetric = options_.memory == Memory::cuda_symmetric;
  return std::make_unique<GpuSubject>(*options_.collective, me_, comm, algorithm, shape, spans,
                                      mirror, buffers, gpu_, options_.graph);
}

// Every input is read once and every output written once, by the GPU that has it.
double GpuSession::limit_us(size_t count, size_t element) const {
  std::vector<size_t> bytes(static_cast<size_t>(gpus_));
  for (int rank = 0; rank < me_.nranks(); ++rank) {
    const Lengths lengths =
        options_.collective->lengths({rank, me_.nranks(), options_.root, count});
    const int gpu = gpu_of_rank(rank, me_.nranks(), options_.ranks_a_gpu, gpus_);
    bytes[size_t(gpu)] += (lengths.send + lengths.recv) * element;
  }
  const size_t most = *std::max_element(bytes.begin(), bytes.end());
  return copy_GBs_ > 0 ? double(most) / copy_GBs_ / 1e3 : 0;
}

void GpuSession::describe(size_t count, size_t element, double empty_us, Result* result) const {
  OnGpu& gpu = result->gpu;
  gpu.measured = true;
  gpu.threads = me_.threads();
  gpu.graph = options_.graph;
  gpu.gpus = gpu_of_rank(me_.nranks() - 1, me_.nranks(), options_.ranks_a_gpu, gpus_) + 1;
  gpu.copy_GBs = copy_GBs_;
  gpu.empty_us = empty_us;
  gpu.hand_over_us = hand_over_us_;
  if (me_.nranks() < 2) return;
  result->limit_us = limit_us(count, element);
  result->limit_way = "copy rate";
}

}  // namespace tutti::bench
