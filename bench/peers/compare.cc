#include "bench/peers/compare.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>

#include "bench/clock.h"
#include "bench/hop.h"
#include "bench/measure.h"

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
// In how many rounds a contender takes part however slow it is.
constexpr size_t least_turns = 3;

struct Turn {
  size_t round;
  std::vector<double> us;  // of one call, each batch
};

struct Contest {
  Team* team;
  Data data;
  PeerCell cell;
  // What a batch has taken, as calibrated and in each turn; of live data with all around its calls.
  std::vector<double> batches_us;
  std::vector<Turn> turns;
  bool slow = false;    // one call is all that there is time for
  double spent_us = 0;  // on turns, with all around the calls
};

// Of calls that are measured for so many seconds. Where one call takes longer than `slow_us`, its
// time is the result: libraries that spin where ranks outnumber the cores take whole time slices,
// up to seconds a call.
void calibrate(Contest& c, double seconds) {
  const double slow_us = seconds * 1e6 / double(least_rounds);
  size_t calls = 1;
  double us = 0, whole_us = 0;  // of a batch: of its calls, and with all around them
  // The least of a few batches: a single delayed one would make all batches too short.
  const auto measure = [&](size_t warm_calls, size_t batches_wanted) {
    std::vector<double> batches;
    const auto begin = Clock::now();
    if (!c.team->run(warm_calls, calls, batches_wanted, c.data, &batches)) return false;
    whole_us = us_since(begin) * double(calls) / double(warm_calls + calls * batches_wanted);
    us = *std::min_element(batches.begin(), batches.end());
    return true;
  };
  if (!measure(0, 1)) return;
  c.slow = us > slow_us;
  if (c.slow) {
    c.cell.calls = 1;
    c.turns.push_back({0, {us}});
    return;
  }
  // First calls take longer: they find pages that nobody has touched, and try ways. For no longer
  // than half the time that the measured calls of the length have.
  const auto begin = Clock::now();
  for (size_t made = 0; made < settling_calls && us_since(begin) < seconds * 1e6 / 2; ++made) {
    if (!measure(0, 1)) return;
  }
  if (!measure(calls, calibrations)) return;
  while (us < batch_us_least && whole_us < batch_us_most && calls < most_calls) {
    const double factor = std::clamp(batch_us_wanted / std::max(us, 0.1), 2.0, 8.0);
    calls = std::min(most_calls, size_t(double(calls) * factor));
    if (!measure(calls, calibrations)) return;
  }
  c.cell.calls = calls;
  c.batches_us = {c.data == Data::live ? whole_us : us};
}

// What calibrate() saw may have been held up: then turns would be so short that they measured how
// cold the caches are. So turns correct it.
void turn(Contest& c, size_t round) {
  Turn turn{round, {}};
  const size_t calls = c.cell.calls;
  const double expected_us = c.batches_us.empty() ? turn_us : summarise(c.batches_us).median;
  const size_t warm_calls = std::max(calls, size_t(double(calls) * warm_us / expected_us));
  const size_t batches = std::clamp<size_t>(size_t(turn_us / expected_us), 1, most_batches_a_turn);
  const auto begin = Clock::now();
  if (!c.team->run(warm_calls, calls, batches, c.data, &turn.us)) return;
  const double spent_us = us_since(begin);
  c.spent_us += spent_us;
  c.batches_us.push_back(spent_us * double(calls) / double(warm_calls + calls * batches));
  for (double& value : turn.us) value /= double(c.cell.calls);
  c.turns.push_back(std::move(turn));
}

void check(Contest& c) {
  uint64_t wrong = 0;
  if (c.team->check(&wrong)) c.cell.wrong += wrong;
}

void summarise_rounds(Contest& c, const std::vector<bool>& keep) {
  if (!c.team->alive()) return;
  std::vector<double> kept, all;
  for (const Turn& turn : c.turns) {
    all.insert(all.end(), turn.us.begin(), turn.us.end());
    if (keep[turn.round]) kept.insert(kept.end(), turn.us.begin(), turn.us.end());
  }
  if (kept.empty()) kept = all;  // who takes few turns may have none in the state of most rounds
  c.cell.dropped = all.size() - kept.size();
  c.cell.ran = true;
  c.cell.batches = kept.size();
  c.cell.us = summarise(kept);
}

}  // namespace

PeerRow compare_at(std::vector<std::unique_ptr<Team>>& teams, size_t bytes, Data data,
                   double seconds, const std::function<void(double)>& progress) {
  std::vector<Contest> contests;
  contests.reserve(teams.size());
  for (auto& team : teams) contests.push_back({.team = team.get(), .data = data});
  for (Contest& c : contests) {
    if (!c.team->prepare(bytes)) continue;
    check(c);
    calibrate(c, seconds);
  }

  std::vector<double> hops{measure_hop_ns()};
  std::vector<size_t> order(contests.size());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(uint32_t(bytes) + 20240229u);
  const auto begin = std::chrono::steady_clock::now();
  for (double done = 0; done < 1;) {
    std::shuffle(order.begin(), order.end(), random);
    // Nobody has more time than all others together: who has used up what there was so far sits
    // out.
    for (size_t i : order)
      if (Contest& c = contests[i];
          !c.slow && (c.turns.size() < least_turns || c.spent_us <= seconds * 1e6 * done))
        turn(c, hops.size() - 1);
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
