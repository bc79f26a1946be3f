#include "bench/rank.h"

#include <cstring>
#include <vector>

#include "bench/error.h"

namespace tutti::bench {

Rank::Rank(tutti_comm world, bool threads) : world_(world), threads_(threads) {
  require(tutti_comm_rank(world, &rank_), world, "rank");
  require(tutti_comm_size(world, &nranks_), world, "size");
}

Rank Rank::from_environment() {
  tutti_comm world = nullptr;
  require(tutti_comm_create_from_env(nullptr, &world), nullptr, "joining the other ranks");
  return Rank(world, false);
}

Rank Rank::from_id(const tutti_unique_id& id, int rank, int nranks) {
  tutti_comm world = nullptr;
  require(tutti_comm_create_from_id(&id, rank, nranks, nullptr, &world), nullptr,
          "joining the other ranks");
  return Rank(world, true);
}

void Rank::barrier() const { require(tutti_barrier(world_.get()), world_.get(), "barrier"); }

void Rank::max_in_place(std::span<double> values) const {
  require(tutti_allreduce(TUTTI_IN_PLACE, values.data(), values.size(), TUTTI_FLOAT64, TUTTI_MAX,
                          world_.get()),
          world_.get(), "collecting times");
}

double Rank::max(double value) const {
  max_in_place({&value, 1});
  return value;
}

uint64_t Rank::sum(uint64_t value) const {
  require(tutti_allreduce(TUTTI_IN_PLACE, &value, 1, TUTTI_UINT64, TUTTI_SUM, world_.get()),
          world_.get(), "collecting counts");
  return value;
}

void Rank::broadcast(void* buffer, size_t bytes, int root) const {
  require(tutti_broadcast(buffer, bytes, TUTTI_UINT8, root, world_.get()), world_.get(),
          "broadcast");
}

void Rank::gather(const void* mine, void* all, size_t bytes) const {
  auto* out = static_cast<unsigned char*>(all);
  std::memcpy(out + size_t(rank_) * bytes, mine, bytes);
  for (int root = 0; root < nranks_; ++root) broadcast(out + size_t(root) * bytes, bytes, root);
}

Comm Rank::open(const std::string& transport, bool progress_thread,
                const std::string& device) const {
  tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
  config.transports = transport.c_str();
  config.progress_thread = progress_thread ? 1 : 0;
  config.device = device.empty() ? "none" : device.c_str();
  auto gather_bytes = [](const void* mine, void* all, size_t bytes, void* self) {
    try {
      static_cast<const Rank*>(self)->gather(mine, all, bytes);
      return 0;
    } catch (const Failure&) {
      return 1;
    }
  };
  tutti_comm comm = nullptr;
  require(tutti_comm_create_from_allgather(gather_bytes, const_cast<Rank*>(this), rank_, nranks_,
                                           &config, &comm),
          nullptr, ("opening transport " + transport).c_str());
  return Comm(comm);
}

}  // namespace tutti::bench
