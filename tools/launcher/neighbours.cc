#include "tools/launcher/neighbours.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/base/clock.h"

namespace tutti {
namespace {

constexpr uint64_t period_ns = 500'000'000;
constexpr uint64_t least_share = 500;  // looking takes at most a 500th of a core
constexpr double most_lost = 0.2;      // of its core's time, for a rank that keeps it
constexpr int looks_in_a_row = 2;

}  // namespace

Neighbours::Neighbours(Binding& binding, Ranks& ranks)
    : binding_(binding),
      ranks_(ranks),
      losses_(ranks.processes().size()),
      next_ns_(binding.can_move() ? later_ns(now_ns(), period_ns) : never_ns) {
  if (binding.can_move()) last_ = see();
}

Neighbours::Seen Neighbours::see() const {
  Seen seen;
  for (const RankProcess& process : ranks_.processes())
    seen.turns.push_back(process.running ? turns_of(process.pid) : std::map<pid_t, Turns>{});
  seen.idle = IdleTimes::now();
  return seen;
}

std::string Neighbours::look() {
  const uint64_t start_ns = now_ns();
  const Seen now = see();
  const std::vector<double> lost = lost_ns(now);
  const double most = most_lost * double(now.idle.ns() - last_.idle.ns());
  std::string done;
  for (size_t rank = 0; rank < lost.size() && binding_.can_move(); ++rank) {
    losses_[rank] = lost[rank] > most ? losses_[rank] + 1 : 0;
    if (losses_[rank] < looks_in_a_row) continue;
    losses_[rank] = 0;
    done += (done.empty() ? "" : "; ") + move(int(rank), now);
  }
  last_ = now;
  const uint64_t end_ns = now_ns();
  next_ns_ = binding_.can_move() ? end_ns + std::max(period_ns, (end_ns - start_ns) * least_share)
                                 : never_ns;
  return done;
}

std::vector<double> Neighbours::lost_ns(const Seen& now) const {
  std::vector<double> ran(binding_.cores()), waited(now.turns.size());
  for (size_t rank = 0; rank < now.turns.size(); ++rank) {
    for (const auto& [thread, turns] : now.turns[rank]) {
      const auto before = last_.turns[rank].find(thread);
      if (before == last_.turns[rank].end()) continue;
      ran[binding_.core_of(int(rank))] += double(turns.run_ns - before->second.run_ns);
      waited[rank] += double(turns.wait_ns - before->second.wait_ns);
    }
  }
  // Threads of a rank wait for each other, too, and a core may be in use while the rank does not
  // want it. Neither is a loss.
  for (size_t rank = 0; rank < waited.size(); ++rank) {
    const size_t core = binding_.core_of(int(rank));
    const double others = binding_.used_ns(core, last_.idle, now.idle) - ran[core];
    waited[rank] = std::min(waited[rank], others);
  }
  return waited;
}

std::string Neighbours::move(int rank, const Seen& now) {
  const CpuSet from = binding_.set_of(rank);
  if (binding_.take_other_core(rank, last_.idle, now.idle)) {
    rebind(rank, from);
    return fmt::format("rank {} lost its core to others and has another one: {}", rank,
                       binding_.text());
  }
  std::vector<CpuSet> before;
  for (size_t other = 0; other < now.turns.size(); ++other)
    before.push_back(binding_.set_of(int(other)));
  binding_.give_up(
      fmt::format("others have the core of rank {} for much of the time, and none is free", rank));
  for (size_t other = 0; other < now.turns.size(); ++other) rebind(int(other), before[other]);
  return binding_.text();
}

// Twice: a thread that another one starts meanwhile has the core of that one.
void Neighbours::rebind(int rank, const CpuSet& from) const {
  const RankProcess& process = ranks_.processes()[size_t(rank)];
  const CpuSet to = binding_.set_of(rank);
  for (int i = 0; i < 2 && process.running; ++i)
    for (const pid_t thread : threads_of(process.pid)) binding_.move_thread(thread, from, to);
}

}  // namespace tutti
