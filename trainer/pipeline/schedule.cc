#include "trainer/pipeline/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace tutti::train {
namespace {

using Kind = Action::Kind;

// The work after which a micro-batch's gradients are complete.
Kind last_kind(const PipelineShape& p) {
  return p.schedule == "zb-h1" ? Kind::weight : Kind::backward;
}

// ---------------------------------------------------------------- the order of the work

// Micro-batches that a rank of the stage takes in before it waits for the gradient of its first
// one. While that one passes through all later stages and back, each rank of these takes in one;
// and where w ranks hold a later stage, they start one after the other, so w - 1 more keep all of
// them busy.
int taken_ahead(const StageWidths& widths, int stage) {
  int later = 0;
  for (int s = stage + 1; s < widths.stages(); ++s) later += 2 * widths.width(s) - 1;
  return (later + widths.width(stage) - 1) / widths.width(stage);
}

// Every schedule is this: some forwards to warm up, then pairs of forward and backward, then the
// other backwards. As many micro-batches as there are stages go through a chunk, then the same ones
// through the next chunk.
std::vector<Action> order_of(const PipelineShape& p, int rank) {
  const int stage = p.widths.stage(rank), width = p.widths.width(stage);
  const int own = p.micro_batches / width, k = p.stages, v = p.chunks, all = own * v;
  const bool interleaved = p.schedule == "interleaved";
  int warm = taken_ahead(p.widths, stage);
  if (p.schedule == "naive") warm = 0;
  if (interleaved) warm = 2 * (k - stage - 1) + (v - 1) * k;
  if (p.schedule == "gpipe" || (interleaved && own == k)) warm = all;
  warm = std::min(warm, all);
  // By kind: how many turns it comes after forward. zb-h1 alone has the last kind.
  const int behind[] = {0, warm, warm + stage};
  const int kinds = int(last_kind(p)) + 1;
  std::vector<Action> order;
  for (int turn = 0; turn < all + behind[kinds - 1]; ++turn)
    for (int kind = 0; kind < kinds; ++kind) {
      const int i = turn - behind[kind], chunk = i % (k * v) / k;
      if (i < 0 || i >= all) continue;
      order.push_back({Kind(kind), (i / (k * v) * k + i % k) * width + p.widths.replica(rank),
                       kind == 0 ? chunk : v - 1 - chunk});
    }
  return order;
}

// What is not is refused in other words before, by the command line.
bool is_allowed(const PipelineShape& p) {
  const auto& names = pipeline_schedules();
  if (std::find(names.begin(), names.end(), p.schedule) == names.end()) return false;
  if (p.stages < 1 || p.micro_batches < 1 || p.chunks < 1 || p.widths.stages() != p.stages)
    return false;
  const bool interleaved = p.schedule == "interleaved";
  if (interleaved ? p.micro_batches % p.stages != 0 : p.chunks > 1) return false;
  const int widest = p.widths.widest();
  return p.micro_batches % widest == 0 &&
         (widest == 1 || p.schedule == "gpipe" || p.schedule == "1f1b");
}

// ---------------------------------------------------------------- messages

bool travels(const Port& c, const PipelineShape& p, int micro_batch, bool gradient) {
  return c.from % p.stages != c.to % p.stages && (gradient || c.sent_with(micro_batch));
}

// The rank that the message goes to or comes from.
int peer_rank(const Action& message, const PipelineShape& p) {
  return p.widths.rank(message.peer, message.micro_batch);
}

// The messages that a piece of the stage's work sends, or those that it needs.
std::vector<Action> messages(const Action& work, int stage, Kind kind, const PipelineShape& p,
                             const std::vector<Port>& ports) {
  std::vector<Action> all;
  if (work.kind == Kind::weight) return all;
  const bool gradient = work.kind == Kind::backward;
  const int part = p.part(stage, work.chunk);
  for (size_t c = 0; c < ports.size(); ++c) {
    const Port& one = ports[c];
    // Forward sends along the port, backward against it.
    const bool leaves = (kind == Kind::send) != gradient;
    if ((leaves ? one.from : one.to) != part || !travels(one, p, work.micro_batch, gradient))
      continue;
    const int other = leaves ? one.to : one.from;
    all.push_back({kind, work.micro_batch, work.chunk, other % p.stages, int(c), gradient});
  }
  return all;
}

// Inserts the messages between the pieces of work.
Schedule with_messages(const std::vector<std::vector<Action>>& orders, const PipelineShape& p,
                       const std::vector<Port>& ports) {
  const int ranks = p.widths.ranks();
  // By pair of ranks: the messages from one to the other, in the order in which they are sent.
  std::map<std::pair<int, int>, std::deque<Parcel>> sent;
  for (int r = 0; r < ranks; ++r)
    for (const Action& work : orders[size_t(r)])
      for (const Action& m : messages(work, p.widths.stage(r), Kind::send, p, ports))
        sent[{r, peer_rank(m, p)}].push_back(parcel_of(m));
  Schedule schedule(static_cast<size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    std::vector<Action>& list = schedule[size_t(r)];
    const int stage = p.widths.stage(r);
    for (const Action& work : orders[size_t(r)]) {
      // A pair's messages are received in the order in which they are sent, so those not needed yet
      // are received too if they precede one that is needed.
      for (const Action& m : messages(work, stage, Kind::receive, p, ports)) {
        std::deque<Parcel>& queue = sent[{peer_rank(m, p), r}];
        const auto wanted = std::find(queue.begin(), queue.end(), parcel_of(m));
        if (wanted == queue.end()) continue;  // received already, before an earlier one
        for (auto it = queue.begin(); it <= wanted; ++it) {
          const Port& c = ports[size_t(it->port)];
          const int needs = (it->gradient ? c.from : c.to) / p.stages;
          list.push_back({Kind::receive, it->micro_batch, needs, m.peer, it->port, it->gradient});
        }
        queue.erase(queue.begin(), wanted + 1);
      }
      list.push_back(work);
      for (const Action& m : messages(work, stage, Kind::send, p, ports)) list.push_back(m);
    }
  }
  return schedule;
}

}  // namespace

const std::vector<std::string>& pipeline_schedules() {
  static const std::vector<std::string> names{"naive", "gpipe", "1f1b", "interleaved", "zb-h1"};
  return names;
}

std::string describe(const Action& a) {
  const std::string chunk = a.chunk > 0 ? fmt::format(", chunk {}", a.chunk) : "";
  const char* const names[] = {"forward", "backward", "weight gradients", "send", "receive"};
  const char* const name = names[int(a.kind)];
  if (a.kind <= Kind::weight)
    return fmt::format("{} of micro-batch {}{}", name, a.micro_batch, chunk);
  return fmt::format("{} the {} of micro-batch {} {} stage {}{}", name,
                     a.gradient ? "gradient" : "activation", a.micro_batch,
                     a.kind == Kind::send ? "to" : "from", a.peer, chunk);
}

Schedule make_schedule(const PipelineShape& p, const std::vector<Port>& ports) {
  if (!is_allowed(p))
    throw std::invalid_argument(
        fmt::format("the schedule {} of {} stages with {} ranks, {} chunks and {} micro-batches",
                    p.schedule, p.stages, p.widths.ranks(), p.chunks, p.micro_batches));
  std::vector<std::vector<Action>> orders;
  orders.reserve(size_t(p.widths.ranks()));
  for (int r = 0; r < p.widths.ranks(); ++r) orders.push_back(order_of(p, r));
  return with_messages(orders, p, ports);
}

Schedule make_forward(const PipelineShape& p, const std::vector<Port>& ports) {
  std::vector<Action> order;
  order.reserve(size_t(p.chunks));
  for (int c = 0; c < p.chunks; ++c) order.push_back({Kind::forward, 0, c});
  std::vector<std::vector<Action>> orders(size_t(p.widths.ranks()));
  for (int s = 0; s < p.stages; ++s) orders[size_t(p.widths.lead(s))] = order;
  return with_messages(orders, p, ports);
}

// ---------------------------------------------------------------- virtual time

namespace {

double duration_of(const PartTimes& t, Kind kind) {
  return kind == Kind::forward ? t.forward : kind == Kind::backward ? t.backward : t.weight;
}

}  // namespace

double utilisation_of(const std::vector<std::vector<Slot>>& slots) {
  double busy = 0, first = INFINITY, last = -INFINITY;
  for (const auto& rank : slots)
    for (const Slot& slot : rank) {
      busy += slot.end - slot.begin;
      first = std::min(first, slot.begin);
      last = std::max(last, slot.end);
    }
  return last > first ? busy / (last - first) / double(slots.size()) : 0;
}

PipelineRun simulate(const Schedule& schedule, const PipelineShape& p,
                     const std::vector<PartTimes>& times) {
  PipelineRun run;
  const size_t ranks = schedule.size();
  run.slots.resize(ranks);
  std::vector<size_t> next(ranks);
  std::vector<double> clock(ranks);
  std::vector<int> live(ranks);
  run.peak_live.resize(ranks);
  struct Message {
    Parcel parcel;
    double sent;
  };
  // From one rank to another: what was sent and not received yet.
  std::map<std::pair<int, int>, std::deque<Message>> wires;
  // By ranks, port and direction: when a message more, or less, is in flight.
  std::map<std::tuple<int, int, int, bool>, std::vector<std::pair<double, int>>> flights;
  const auto advance = [&](size_t r) {
    const Action& a = schedule[r][next[r]];
    double& now = clock[r];
    if (a.kind == Kind::send) {
      wires[{int(r), peer_rank(a, p)}].push_back({parcel_of(a), now});
      flights[{int(r), peer_rank(a, p), a.port, a.gradient}].emplace_back(now, 1);
    } else if (a.kind == Kind::receive) {
      auto& wire = wires[{peer_rank(a, p), int(r)}];
      if (wire.empty() || wire.front().parcel != parcel_of(a)) return false;
      now = std::max(now, wire.front().sent);
      wire.pop_front();
      flights[{peer_rank(a, p), int(r), a.port, a.gradient}].emplace_back(now, -1);
    } else {
      const double begin = now;
      now += duration_of(times[size_t(p.part(p.widths.stage(int(r)), a.chunk))], a.kind);
      run.slots[r].push_back({a, begin, now});
      if (a.kind == Kind::forward) run.peak_live[r] = std::max(run.peak_live[r], ++live[r]);
      if (a.kind == last_kind(p)) --live[r];
    }
    ++next[r];
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t r = 0; r < ranks; ++r)
      while (next[r] < schedule[r].size() && advance(r)) moved = true;
  }
  for (size_t r = 0; r < ranks; ++r)
    if (next[r] < schedule[r].size()) run.stuck = next;
  for (const double end : clock) run.makespan = std::max(run.makespan, end);
  run.utilisation = utilisation_of(run.slots);
  for (auto& [message, changes] : flights) {
    const auto [from, to, port, gradient] = message;
    auto& peaks = gradient ? run.peak_gradients : run.peak_activations;
    peaks.resize(std::max(peaks.size(), size_t(port) + 1));
    std::sort(changes.begin(), changes.end());  // at equal times, ends come before begins
    int in_flight = 0;
    for (const auto& [time, change] : changes)
      peaks[size_t(port)] = std::max(peaks[size_t(port)], in_flight += change);
  }
  return run;
}

PipelineRun simulate(const Schedule& schedule, const PipelineShape& shape) {
  const PartTimes alike = shape.schedule == "zb-h1" ? PartTimes{1, 1, 1} : PartTimes{1, 2, 0};
  std::vector<PartTimes> times;
  for (int part = 0; part < shape.parts(); ++part) {
    const double width = shape.widths.width(part % shape.stages);
    times.push_back({width * alike.forward, width * alike.backward, width * alike.weight});
  }
  return simulate(schedule, shape, times);
}

// ---------------------------------------------------------------- the checker

namespace {

// Checks, in program order, that each piece of work finds the results of its own rank and the
// messages that it needs.
std::string check_rank(const std::vector<Action>& list, int rank, const PipelineShape& p,
                       const std::vector<Port>& ports) {
  const int stage = p.widths.stage(rank), width = p.widths.width(stage);
  std::map<std::pair<int, int>, int> done;  // chunk and micro-batch: forward, backward, weight
  std::map<std::pair<int, int>, int> next;  // chunk and kind: the micro-batch whose turn it is
  std::map<Parcel, int> arrived, made;
  const auto wrong = [&](const Action& a, const char* what) {
    return fmt::format("stage {}: {}: {}", p.widths.name(rank), describe(a), what);
  };
  for (const Action& a : list) {
    if (a.chunk < 0 || a.chunk >= p.chunks || a.micro_batch < 0 || a.micro_batch >= p.micro_batches)
      return wrong(a, "there is no such chunk or micro-batch");
    if (p.widths.rank(stage, a.micro_batch) != rank)
      return wrong(a, "this micro-batch is another rank's");
    if (a.kind == Kind::receive) {
      if (arrived[parcel_of(a)]++) return wrong(a, "for the second time");
    } else if (a.kind == Kind::send) {
      if (made[parcel_of(a)]-- != 1) return wrong(a, "it is not there");
    } else {
      int& so_far = done[{a.chunk, a.micro_batch}];
      if (so_far != int(a.kind)) return wrong(a, "not in its turn");
      ++so_far;
      if (next[{a.chunk, int(a.kind)}]++ != a.micro_batch / width)
        return wrong(a, "not in ascending order");
      for (const Action& m : messages(a, stage, Kind::receive, p, ports))
        if (!arrived[parcel_of(m)]) return wrong(a, "before what it needs has come");
      for (const Action& m : messages(a, stage, Kind::send, p, ports)) made[parcel_of(m)] = 1;
    }
  }
  for (int c = 0; c < p.chunks; ++c)
    for (int i = p.widths.replica(rank); i < p.micro_batches; i += width)
      if (done[{c, i}] != int(last_kind(p)) + 1)
        return fmt::format("stage {}: micro-batch {} of chunk {} is not finished",
                           p.widths.name(rank), i, c);
  for (const auto& [parcel, left] : made)
    if (left != 0)
      return fmt::format("stage {}: what micro-batch {} made is not sent", p.widths.name(rank),
                         parcel.micro_batch);
  return "";
}

}  // namespace

std::string check_schedule(const Schedule& schedule, const PipelineShape& p,
                           const std::vector<Port>& ports) {
  const int ranks = p.widths.ranks();
  if (int(schedule.size()) != ranks)
    return fmt::format("{} lists for {} ranks", schedule.size(), ranks);
  for (int r = 0; r < ranks; ++r) {
    std::string wrong = check_rank(schedule[size_t(r)], r, p, ports);
    if (!wrong.empty()) return wrong;
  }
  std::map<std::pair<int, int>, std::vector<Parcel>> sent, received;
  for (int r = 0; r < ranks; ++r)
    for (const Action& a : schedule[size_t(r)]) {
      if (a.kind == Kind::send) sent[{r, peer_rank(a, p)}].push_back(parcel_of(a));
      if (a.kind == Kind::receive) received[{peer_rank(a, p), r}].push_back(parcel_of(a));
    }
  if (sent != received) return "what is sent is not what is received, or not in the same order";
  const PipelineRun run = simulate(schedule, p, std::vector(size_t(p.parts()), PartTimes{1, 1, 1}));
  if (!run.stuck.empty()) {
    std::string text = "ranks wait for each other:";
    for (size_t r = 0; r < schedule.size(); ++r)
      if (run.stuck[r] < schedule[r].size())
        text += fmt::format(" stage {} at '{}'", p.widths.name(int(r)),
                            describe(schedule[r][run.stuck[r]]));
    return text;
  }
  for (const auto* peaks : {&run.peak_activations, &run.peak_gradients})
    for (size_t c = 0; c < peaks->size(); ++c)
      // All ranks of a stage keep equally many.
      if ((*peaks)[c] > run.peak_live[size_t(p.widths.lead(ports[c].from % p.stages))])
        return "more messages on the way than micro-batches that are alive";
  return "";
}

}  // namespace tutti::train
