#include "bench/peers/compare.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>

#include "bench/clock.h"
#include "bench/hop.h"

namespace tutti::bench {
namespace {

constexpr double batch_us_wanted = 30;  // at least 20, with a margin for a faster machine
constexpr double batch_us_least = 20;
// Of live data the calls alone are in a batch's time, and where ranks share cores all around them
// may take a thousand times as long.
constexpr double batch_us_most = 2000;
constexpr size_t calibrations = 4;
constexpr size_t most_calls = 4096;
// Warm-up of a turn: the effects of the others' cache contents and of the scheduler's placement of
// woken ranks should have faded before the measured batches begin.
constexpr double warm_us = 500;
constexpr double turn_us = 2000;  // of measured batches
constexpr size_t most_batches_a_turn = 64;
constexpr size_t least_rounds = 7;
constexpr size_t most_rounds = 300;

struct Contest {
  Team* team;
  Data data;
  PeerCell cell;
  size_t warm_calls = 1;
  size_t batches_a_turn = 1;
  std::vector<std::vector<double>> rounds;  // us of one call, each batch of each round
};

void calibrate(Contest& c) {
  size_t calls = 1;
  double us = 0, whole_us = 0;  // of a batch: of its calls, and with all around them
  // The least of a few batches: a single delayed one would make all batches too short.
  const auto measure = [&] {
    std::vector<double> batches;
    const auto begin = Clock::now();
    if (!c.team->run(calls, calls, calibrations, c.data, &batches)) return false;
    whole_us = us_since(begin) / double(calibrations + 1);
    us = *std::min_element(batches.begin(), batches.end());
    return true;
  };
  if (!measure()) return;
  while (us < batch_us_least && whole_us < batch_us_most && calls < most_calls) {
    const double factor = std::clamp(batch_us_wanted / std::max(us, 0.1), 2.0, 8.0);
    calls = std::min(most_calls, size_t(double(calls) * factor));
    if (!measure()) return;
  }
  c.cell.calls = calls;
  const double batch_us = c.data == Data::live ? whole_us : us;
  c.warm_calls = std::max(calls, size_t(double(calls) * warm_us / batch_us));
  c.batches_a_turn = std::clamp<size_t>(size_t(turn_us / batch_us), 1, most_batches_a_turn);
}

void turn(Contest& c) {
  std::vector<double> us;
  if (!c.team->run(c.warm_calls, c.cell.calls, c.batches_a_turn, c.data, &us)) return;
  for (double& value : us) value /= double(c.cell.calls);
  c.rounds.push_back(std::move(us));
}

void check(Contest& c) {
  uint64_t wrong = 0;
  if (c.team->check(&wrong)) c.cell.wrong += wrong;
}

void summarise_rounds(Contest& c, const std::vector<bool>& keep) {
  if (!c.team->alive()) return;
  std::vector<double> kept;
  for (size_t round = 0; round < c.rounds.size(); ++round) {
    if (keep[round])
      kept.insert(kept.end(), c.rounds[round].begin(), c.rounds[round].end());
    else
      c.cell.dropped += c.rounds[round].size();
  }
  c.cell.ran = true;
  c.cell.batches = kept.size();
  c.cell.us = summarise(kept);
}

}  // namespace

PeerRow compare_at(std::vector<std::unique_ptr<Team>>& teams, size_t bytes, Data data,
                   double seconds, const std::function<void(double)>& progress) {
  std::vector<Contest> contests;
  contests.reserve(teams.size());
  for (auto& team : teams) contests.push_back({team.get(), data, {}, 1, 1, {}});
  for (Contest& c : contests) {
    if (!c.team->prepare(bytes)) continue;
    check(c);
    calibrate(c);
  }

  std::vector<double> hops{measure_hop_ns()};
  std::vector<size_t> order(contests.size());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(uint32_t(bytes) + 20240229u);
  const auto begin = std::chrono::steady_clock::now();
  for (double done = 0; done < 1;) {
    std::shuffle(order.begin(), order.end(), random);
    for (size_t i : order) turn(contests[i]);
    hops.push_back(measure_hop_ns());
    const double passed =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const auto rounds = double(hops.size() - 1);
    done = std::max(rounds / double(most_rounds),
                    std::min(passed / seconds, rounds / double(least_rounds)));
    progress(std::min(done, 1.0));
  }

  for (Contest& c : contests) check(c);
  const StateFilter filter = majority_state(hops);
  PeerRow row{bytes, filter.hop_ns, hops.front(), hops.back(), {}};
  for (Contest& c : contests) {
    summarise_rounds(c, filter.keep);
    row.cells.push_back(c.cell);
  }
  return row;
}

}  // namespace tutti::bench
