#include "bench/gpu.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>

#include "bench/clock.h"
#include "bench/stats.h"

namespace tutti::bench {
namespace {

constexpr auto patience = std::chrono::seconds(60);

device::Driver& open_driver() {
  device::Driver* driver = nullptr;
  const Status status = device::Driver::get(&driver);
  if (!status.ok()) throw BadInput("--memory cuda: " + status.text());
  return *driver;
}

}  // namespace

int count_gpus() { return open_driver().devices(); }

int gpu_of_rank(int rank, int nranks, int ranks_a_gpu, int gpus) {
  if (ranks_a_gpu == 0) return nranks <= gpus ? rank : int(int64_t(rank) * gpus / nranks);
  if ((nranks - 1) / ranks_a_gpu >= gpus)
    throw BadInput(fmt::format("--ranks-per-gpu {}: {} ranks need {} GPUs, there {} {}",
                               ranks_a_gpu, nranks, (nranks - 1) / ranks_a_gpu + 1,
                               gpus == 1 ? "is" : "are", gpus));
  return rank / ranks_a_gpu;
}

Gpu::Gpu(int device) : driver_(open_driver()), device_(device), current_(driver_, device) {
  require(current_.status());
  require(driver_.make_stream(&stream_));
  require(driver_.make_event(&event_));
}

Gpu::~Gpu() {
  driver_.release_event(event_);
  driver_.release_stream(stream_);
}

void Gpu::wait() const {
  require(driver_.record(event_, stream_));
  const auto deadline = Clock::now() + patience;
  for (bool ended = false; !ended;) {
    require(driver_.ended(event_, &ended));
    if (ended) return;
    if (Clock::now() > deadline)
      throw Failure(fmt::format("GPU {} has not done within {} s what it was given", device_,
                                patience.count()));
    sched_yield();
  }
}

Batches::~Batches() {
  for (const auto& [calls, graph] : graphs_) gpu_.driver().release_graph(graph);
}

device::Graph Batches::graph_of(size_t calls) {
  const auto found = graphs_.find(calls);
  if (found != graphs_.end()) return found->second;
  device::Graph graph = nullptr;
  require(gpu_.driver().begin_capture(gpu_.stream()));
  for (size_t i = 0; i < calls; ++i) enqueue_();
  require(gpu_.driver().end_capture(gpu_.stream(), &graph));
  graphs_.emplace(calls, graph);
  return graph;
}

void Batches::run(size_t calls) {
  double us = 0;
  for (size_t done = 0; done < calls;) {
    const size_t now = std::min(calls - done, most_calls);
    device::Graph graph = graph_ ? graph_of(now) : nullptr;
    const auto begin = Clock::now();
    if (graph)
      require(gpu_.driver().launch_graph(graph, gpu_.stream()));
    else
      for (size_t i = 0; i < now; ++i) enqueue_();
    us += us_since(begin);
    gpu_.wait();
    done += now;
  }
  if (calls) enqueue_us_.push_back(us / double(calls));
}

double Batches::enqueue_us() const {
  return enqueue_us_.empty() ? 0 : summarise(enqueue_us_).median;
}

}  // namespace tutti::bench
