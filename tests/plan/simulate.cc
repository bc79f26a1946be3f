#include "tests/plan/simulate.h"

#include "lib/plan/lower.h"
#include "lib/plan/run.h"
#include "tests/support/slot_parts.h"

namespace tutti::plan {

namespace {

// One move of a rank takes this long; when nobody can move, time jumps ahead.
constexpr uint64_t move_ns = 100;
constexpr uint64_t jump_ns = 10'000'000;

}  // namespace

// Deaths as the links see them.
class Simulation::DeadRanks final : public slots::DeathWatch {
 public:
  explicit DeadRanks(std::shared_ptr<std::vector<bool>> dead) : dead_(std::move(dead)) {}
  bool dead(uint32_t local) override { return (*dead_)[local]; }

 private:
  std::shared_ptr<std::vector<bool>> dead_;
};

Status Simulation::make(const SimulationSettings& settings, std::unique_ptr<Simulation>* out) {
  std::unique_ptr<Simulation> made(new Simulation(settings));
  made->random_ = settings.seed * 0x9e3779b97f4a7c15u + 1;
  made->dead_ = std::make_shared<std::vector<bool>>(settings.nranks, false);
  made->moves_.assign(settings.nranks, 0);

  slots::Geometry geometry;
  geometry.nranks = settings.nranks;
  geometry.slots = settings.slots;
  geometry.slice_bytes = settings.slice_bytes;
  Fd memory;
  Mapping mapping;
  TUTTI_TRY(make_memory(geometry.total_bytes(), &memory));
  TUTTI_TRY(map_memory(memory, {0, geometry.total_bytes()}, &mapping));
  for (uint32_t rank = 0; rank < settings.nranks; ++rank) {
    made->links_.push_back(std::make_unique<slots::SlotLink>(testing::slot_parts(
        mapping, geometry, settings.nranks, rank, std::make_unique<DeadRanks>(made->dead_))));
  }
  *out = std::move(made);
  return {};
}

uint64_t Simulation::draw() {  // splitmix64
  uint64_t z = random_ += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::vector<SimulatedEnd> Simulation::run(const Algorithm& algorithm, uint32_t root,
                                          const std::vector<std::byte*>& inputs,
                                          const std::vector<std::byte*>& outputs, uint64_t count,
                                          uint32_t element_size, const Kernels& kernels,
                                          int skips) {
  const uint32_t n = settings_.nranks;
  struct Rank {
    Plan plan;
    std::unique_ptr<Binding> binding;
    std::vector<std::byte> scratch;
    Run run;
  };
  std::vector<Rank> ranks(n);
  std::vector<SimulatedEnd> ends(n);
  std::vector<uint32_t> live;
  CallMark mark;
  mark.epoch = ++epoch_;
  mark.signature.count = count;
  mark.signature.collective = algorithm.collective;
  mark.signature.root = int32_t(root);
  mark.digest = call_digest(mark.epoch, mark.signature);
  const uint64_t deadline_ns = now_ns_ + settings_.timeout_ns;

  for (uint32_t r = 0; r < n; ++r) {
    if (int(r) == skips || (*dead_)[r]) {
      ends[r].died = (*dead_)[r];
      continue;
    }
    Rank& rank = ranks[r];
    rank.plan = lower(algorithm, {.rank = r, .nranks = n, .root = root});
    rank.binding = std::make_unique<Binding>(rank.plan);
    rank.binding->bind(count, element_size);
    // Poisoned: nothing may depend on what is there.
    rank.scratch.assign(rank.binding->scratch_bytes(), std::byte{0xa5});
    links_[r]->begin(mark);
    rank.run.start(*rank.binding, {inputs[r], outputs[r], rank.scratch.data()}, kernels);
    live.push_back(r);
  }

  uint32_t idle = 0;  // moves since anybody got anywhere
  while (!live.empty()) {
    const size_t pick = draw() % live.size();
    const uint32_t r = live[pick];
    trace_ = (trace_ ^ r ^ (idle << 8)) * 0x100000001b3u;
    now_ns_ += move_ns;
    Run& run = ranks[r].run;
    const auto retire = [&](Status status) {
      ends[r].status = std::move(status);
      ends[r].ended_ns = now_ns_;
      live.erase(live.begin() + ptrdiff_t(pick));
      idle = 0;
    };
    if (int(r) == settings_.dies && moves_[r] >= settings_.dies_after_moves) {
      (*dead_)[r] = true;
      ends[r].died = true;
      retire({});
      continue;
    }
    ++moves_[r];
    if (run.advance(*links_[r])) idle = 0;
    if (run.done()) {
      retire({});
      continue;
    }
    if (++idle < 4 * live.size()) continue;
    // Nobody moved for a while: as much time passes as a sleeping rank would let pass.
    now_ns_ += jump_ns;
    Status found = links_[r]->inspect(now_ns_);
    if (found.ok() && now_ns_ >= deadline_ns) found = {TUTTI_TIMEOUT, "deadline"};
    if (!found.ok()) {
      links_[r]->abort(found);
      retire(std::move(found));
    }
  }
  return ends;
}

}  // namespace tutti::plan
