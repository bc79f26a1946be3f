#include "tools/tutti/tuner.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>

#include "algorithms/registry.h"
#include "lib/base/clock.h"
#include "lib/comm/group_exchange.h"
#include "lib/select/trial.h"
#include "tools/tutti/model_fit.h"

namespace tutti::tune {

namespace {

constexpr size_t KiB = 1 << 10, MiB = 1 << 20;
// Another value than the one before must be so much faster, or it is noise.
constexpr double least_gain = 0.03;
constexpr size_t least_rounds = 5, most_rounds = 200;
constexpr uint64_t batch_ns = 400'000;  // of one subject in one round
constexpr double settling_us = 20'000;  // most, of a cell

constexpr Collective collectives[] = {Collective::allreduce, Collective::broadcast,
                                      Collective::reduce, Collective::allgather,
                                      Collective::alltoall};

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The vectors of a rank. Live data: between calls their lines are where a program would have left
// them.
class Vectors {
 public:
  explicit Vectors(size_t bytes) : input_(bytes, 1), output_(bytes, 1) {}
  const std::byte* input() const { return reinterpret_cast<const std::byte*>(input_.data()); }
  std::byte* output() { return reinterpret_cast<std::byte*>(output_.data()); }
  // The next input is written...
  void write(size_t bytes) {
    volatile uint8_t* const at = input_.data();
    for (size_t i = 0; i < bytes; i += line_bytes) at[i] = 0;
  }
  void write_output(size_t bytes) {
    volatile uint8_t* const at = output_.data();
    for (size_t i = 0; i < bytes; i += line_bytes) at[i] = 0;
  }
  // ... and the last result read.
  void read(size_t bytes) {
    const volatile uint8_t* const at = output_.data();
    for (size_t i = 0; i < bytes; i += line_bytes) seen_ = seen_ + at[i];
  }

 private:
  std::vector<uint8_t> input_, output_;
  volatile uint8_t seen_ = 0;
};

// Communicators with candidate tables, and the times of calls on them.
class Lab {
 public:
  Lab(Communicator& world, const CommSettings& settings, double seconds, const Progress& progress)
      : world_(world),
        settings_(settings),
        progress_(progress),
        vectors_(most_bytes),
        begun_ns_(now_ns()),
        budget_ns_(uint64_t(seconds * 1e9)) {}

  static constexpr size_t most_bytes = 16 << 20;

  int nranks() const { return world_.nranks(); }
  bool first() const { return world_.rank() == 0; }

  Status open(const Tuning& tuning, std::unique_ptr<Communicator>* out) {
    CommSettings settings = settings_;
    for (size_t i = 0; i < field_count; ++i) {
      settings.tuning.set(Field(i), get(tuning, Field(i)), Origin::measured);
    }
    settings.single_copy = tuning.single_copy;
    settings.non_temporal = tuning.past_caches;
    return Communicator::create(std::make_unique<GroupExchange>(world_, key_), settings, out);
  }

  struct Subject {
    Communicator* comm = nullptr;
    Cell cell;
    uint32_t calls = 1;      // in a round
    std::vector<double> us;  // of a call, by round
    double time() const { return median(us); }
  };

  // Measures all, in turns, until `share` of the budget is used. `what`: for the progress.
  Status measure(std::vector<Subject>& subjects, double share, const std::string& what) {
    used_ += share;
    const uint64_t until_ns = begun_ns_ + uint64_t(used_ * double(budget_ns_));
    std::vector<float> mine(subjects.size() + 1), all(subjects.size() + 1);
    for (size_t round = 0; round < most_rounds; ++round) {
      for (size_t i = 0; i < subjects.size(); ++i) {
        // The first round finds out how many calls fill a batch, and warms up.
        TUTTI_TRY(batch(subjects[i], round == 0 ? 2 : subjects[i].calls, &mine[i]));
      }
      // One decides for all when to end.
      mine.back() = first() && now_ns() >= until_ns ? 1 : 0;
      TUTTI_TRY(maximum(mine, &all));
      for (size_t i = 0; i < subjects.size(); ++i) {
        if (round == 0) {
          const double us = std::max(double(all[i]), 0.01);
          subjects[i].calls = uint32_t(std::clamp(double(batch_ns) / 1e3 / us, 1.0, 400.0));
          // Until the ways with the same bits have been tried (lib/select/trial.h).
          TUTTI_TRY(batch(subjects[i],
                          uint32_t(std::min(double(Trial::calls_to_settle), settling_us / us)),
                          &mine[i]));
        } else {
          subjects[i].us.push_back(double(all[i]));
        }
      }
      if (first())
        progress_(std::min(1.0, double(now_ns() - begun_ns_) / double(budget_ns_)), what);
      if (round >= least_rounds && all.back() > 0) break;
    }
    return {};
  }

 private:
  Status failed(Communicator& comm) { return comm.last_error(); }

  // The mean time of a call of this rank, in microseconds.
  Status batch(const Subject& subject, uint32_t calls, float* us) {
    const Cell& cell = subject.cell;
    const auto n = uint64_t(nranks());
    const bool blocks = Goal(cell.collective, uint32_t(n), 0).blocks() != 1;
    const bool in_place = cell.collective == Collective::broadcast;
    Call call;
    call.key.collective = cell.collective;
    call.key.dtype = TUTTI_FLOAT32;
    call.key.op = TUTTI_SUM;
    call.key.count = std::max<uint64_t>(1, cell.bytes / sizeof(float) / (blocks ? n : 1));
    call.key.algorithm = cell.algorithm;
    call.input = in_place ? vectors_.output() : vectors_.input();
    call.output = vectors_.output();
    uint64_t sum_ns = 0;
    for (uint32_t i = 0; i < calls; ++i) {
      vectors_.read(cell.bytes);
      if (!in_place) vectors_.write(cell.bytes);
      if (in_place && first()) vectors_.write_output(cell.bytes);
      TUTTI_TRY(barrier());
      const uint64_t begin = now_ns();
      if (subject.comm->run(call) != TUTTI_OK) return failed(*subject.comm);
      sum_ns += now_ns() - begin;
    }
    *us = float(double(sum_ns) / 1e3 / std::max(calls, 1u));
    return {};
  }

  Status barrier() {
    std::byte given{}, got{};
    Call call;
    call.key.collective = Collective::barrier;
    call.key.dtype = TUTTI_UINT8;
    call.key.op = TUTTI_MAX;
    call.key.count = 1;
    call.input = &given;
    call.output = &got;
    return world_.run(call) == TUTTI_OK ? Status() : failed(world_);
  }

  Status maximum(const std::vector<float>& mine, std::vector<float>* all) {
    Call call;
    call.key.dtype = TUTTI_FLOAT32;
    call.key.op = TUTTI_MAX;
    call.key.count = mine.size();
    call.input = reinterpret_cast<const std::byte*>(mine.data());
    call.output = reinterpret_cast<std::byte*>(all->data());
    return world_.run(call) == TUTTI_OK ? Status() : failed(world_);
  }

  Communicator& world_;
  const CommSettings settings_;
  const Progress& progress_;
  Vectors vectors_;
  const JobKey key_{};
  const uint64_t begun_ns_, budget_ns_;
  double used_ = 0;
};

// A step of the search: sets of values for some fields, of which the fastest is kept. Of cells that
// differ in their algorithm only, the fastest counts.
struct Step {
  const char* what;
  std::vector<Field> fields;
  std::vector<std::vector<double>> candidates;
  std::vector<Cell> cells;
};

std::vector<Cell> cells_of(Collective collective, std::initializer_list<size_t> sizes,
                           const char* algorithm) {
  std::vector<Cell> cells;
  for (const size_t bytes : sizes) cells.push_back({collective, bytes, algorithm});
  return cells;
}
template <class... More>
std::vector<Cell> join(std::vector<Cell> first, const More&... more) {
  (first.insert(first.end(), more.begin(), more.end()), ...);
  return first;
}

// In an order in which later steps depend on earlier ones more than the other way round. What calls
// try while they run (lib/select/trial.h) is not among them: a table that decides it takes a way
// from them.
std::vector<Step> steps() {
  using C = Collective;
  const auto two_shot = [](std::initializer_list<size_t> sizes) {
    return cells_of(C::allreduce, sizes, "two-shot");
  };
  const auto one_shot = [](std::initializer_list<size_t> sizes) {
    return cells_of(C::allreduce, sizes, "all-to-all");
  };
  const auto broadcast = [](std::initializer_list<size_t> sizes) {
    return cells_of(C::broadcast, sizes, "flat");
  };
  const auto allgather = [](std::initializer_list<size_t> sizes) {
    return cells_of(C::allgather, sizes, "direct");
  };
  const auto alltoall = [](std::initializer_list<size_t> sizes) {
    return cells_of(C::alltoall, sizes, "direct");
  };
  return {
      {"rotation and slices of two-shot",
       {Field::rotated_bytes, Field::two_shot_slice_bytes},
       {{64 * KiB, 16 * KiB},
        {64 * KiB, 32 * KiB},
        {128 * KiB, 32 * KiB},
        {256 * KiB, 32 * KiB},
        {256 * KiB, 64 * KiB},
        {512 * KiB, 64 * KiB},
        {1 * MiB, 32 * KiB},
        {1 * MiB, 64 * KiB}},
       two_shot({32 * KiB, 128 * KiB, 512 * KiB, 2 * MiB})},
      {"the longest vector of one-shot",
       {Field::one_shot_bytes, Field::rotated_bytes},
       {{16 * KiB, 64 * KiB}, {64 * KiB, 256 * KiB}, {64 * KiB, 1 * MiB}, {256 * KiB, 1 * MiB}},
       join(one_shot({8 * KiB, 32 * KiB, 64 * KiB, 128 * KiB, 256 * KiB}),
            two_shot({8 * KiB, 32 * KiB, 64 * KiB, 128 * KiB, 256 * KiB, 1 * MiB}))},
      {"vectors that stay where they are",
       {Field::resident_bytes},
       {{2 * KiB}, {4 * KiB}, {8 * KiB}, {16 * KiB}, {32 * KiB}},
       one_shot({1 * KiB, 4 * KiB, 8 * KiB, 16 * KiB, 32 * KiB})},
      {"slices of one-hop",
       {Field::one_hop_slice_bytes},
       {{16 * KiB}, {32 * KiB}, {64 * KiB}, {128 * KiB}},
       join(broadcast({128 * KiB, 1 * MiB}), alltoall({512 * KiB}))},
      {"the ring of one-hop",
       {Field::ring_bytes},
       {{512 * KiB}, {1 * MiB}, {2 * MiB}, {4 * MiB}},
       join(broadcast({128 * KiB, 1 * MiB}), allgather({64 * KiB, 256 * KiB, 1 * MiB}),
            alltoall({64 * KiB, 256 * KiB, 1 * MiB}))},
      {"short slices of one-hop",
       {Field::least_one_hop_slice_bytes},
       {{2 * KiB}, {4 * KiB}, {8 * KiB}, {16 * KiB}},
       join(broadcast({8 * KiB, 32 * KiB}), allgather({32 * KiB}))},
      {"parts in lines of flags",
       {Field::one_hop_lines},
       {{1}, {3}, {5}, {8}},
       join(broadcast({128, 256, 448}), alltoall({256, 512}))},
      {"prefetching for writing",
       {Field::write_prefetch_bytes},
       {{0}, {4 * KiB}, {16 * KiB}, {64 * KiB}, {256 * KiB}},
       broadcast({2 * KiB, 8 * KiB, 32 * KiB, 128 * KiB})},
      {"the same where all take",
       {Field::write_prefetch_taking_bytes},
       {{0}, {2 * KiB}, {4 * KiB}, {8 * KiB}, {16 * KiB}, {32 * KiB}},
       join(allgather({4 * KiB, 8 * KiB, 32 * KiB, 64 * KiB}),
            one_shot({4 * KiB, 8 * KiB, 16 * KiB}), cells_of(C::allreduce, {4 * KiB}, "ring"))},
      {"lines of flags fetched again",
       {Field::refetched_lines},
       {{1}, {2}, {3}, {64}},
       join(allgather({128, 256, 384, 512}), alltoall({128, 256, 384, 512}))},
      {"pages copied side by side",
       {Field::fetch_pages},
       {{1}, {2}, {4}, {8}},
       join(broadcast({64 * KiB, 256 * KiB, 1 * MiB}), allgather({128 * KiB, 512 * KiB}))},
      {"prefetching",
       {Field::fetch_ahead_bytes},
       {{0}, {512}, {1 * KiB}, {2 * KiB}, {4 * KiB}},
       join(broadcast({32 * KiB, 128 * KiB, 1 * MiB}), alltoall({256 * KiB}))},
      {"the shortest part for single copy",
       {Field::single_copy_bytes},
       {{16 * KiB}, {32 * KiB}, {64 * KiB}, {128 * KiB}, {512 * KiB}},
       join(broadcast({32 * KiB, 128 * KiB}), allgather({64 * KiB, 256 * KiB}),
            alltoall({64 * KiB, 256 * KiB}))},
      {"results of two-shot past the caches",
       {Field::result_share},
       {{0.02}, {0.5}, {1'000}},
       two_shot({4 * MiB, 16 * MiB})},
      {"slots between two ranks",
       {Field::slots, Field::slot_bytes},
       {{4, 16 * KiB}, {8, 8 * KiB}, {8, 16 * KiB}, {8, 32 * KiB}, {4, 64 * KiB}},
       join(cells_of(C::allreduce, {64 * KiB, 1 * MiB}, "ring"),
            cells_of(C::allreduce, {64 * KiB}, "butterfly"))},
  };
}

// Of the fastest of each call, in microseconds.
std::vector<double> times_of(const std::vector<Cell>& cells, const Lab::Subject* subjects) {
  std::map<std::pair<Collective, size_t>, double> fastest;
  for (size_t i = 0; i < cells.size(); ++i) {
    const auto [at, added] =
        fastest.try_emplace({cells[i].collective, cells[i].bytes}, subjects[i].time());
    if (!added) at->second = std::min(at->second, subjects[i].time());
  }
  std::vector<double> all;
  all.reserve(fastest.size());
  for (const auto& [cell, us] : fastest) all.push_back(us);
  return all;
}

// Mean logarithm of time / time before.
double change_of(const std::vector<double>& times, const std::vector<double>& before) {
  double sum = 0;
  for (size_t i = 0; i < times.size(); ++i) sum += std::log(times[i] / before[i]);
  return sum / double(times.size());
}

Status take(Lab& lab, const Step& step, double share, TuningTable* table, Result* out) {
  struct Candidate {
    std::vector<double> values;
    std::unique_ptr<Communicator> comm;
  };
  std::vector<Candidate> candidates(1);  // first the values as they are
  for (const Field field : step.fields) {
    candidates[0].values.push_back(get(table->values(), field));
  }
  for (const std::vector<double>& values : step.candidates) {
    if (values != candidates[0].values) candidates.push_back({values, nullptr});
  }
  std::vector<Lab::Subject> subjects;
  for (auto candidate = candidates.begin(); candidate != candidates.end();) {
    Tuning tuning = table->values();
    bool possible = true;
    for (size_t i = 0; i < step.fields.size(); ++i) {
      possible = possible && why_not(step.fields[i], candidate->values[i]).empty();
      set(&tuning, step.fields[i], candidate->values[i]);
    }
    std::array<Field, 2> clash{};
    if (!possible || !why_not(tuning, &clash).empty()) {
      candidate = candidates.erase(candidate);
      continue;
    }
    TUTTI_TRY(lab.open(tuning, &candidate->comm));
    for (const Cell& cell : step.cells) subjects.push_back({candidate->comm.get(), cell, 1, {}});
    ++candidate;
  }
  TUTTI_TRY(lab.measure(subjects, share, step.what));
  size_t best = 0;
  double best_gain = std::log(1 - least_gain);
  const std::vector<double> before = times_of(step.cells, subjects.data());
  for (size_t c = 1; c < candidates.size(); ++c) {
    const Lab::Subject* const own = subjects.data() + c * step.cells.size();
    const double gain = change_of(times_of(step.cells, own), before);
    if (gain >= best_gain) continue;
    best = c;
    best_gain = gain;
  }
  std::string text = std::string(step.what) + ": ";
  for (size_t i = 0; i < step.fields.size(); ++i) {
    const double value = candidates[best].values[i];
    table->set(step.fields[i], value, Origin::measured);
    text += (i == 0 ? "" : ", ") + std::string(tuning_field(step.fields[i]).name) + " " +
            value_text(step.fields[i], value);
  }
  char change[64] = "as before";
  if (best != 0) {
    std::snprintf(change, sizeof(change), "%.2f of the time before", std::exp(best_gain));
  }
  out->found.push_back(text + ": " + change);
  return {};
}

// Times of all algorithms that can run.
Status fit_model(Lab& lab, double share, TuningTable* table, Result* out) {
  std::unique_ptr<Communicator> comm;
  TUTTI_TRY(lab.open(table->values(), &comm));
  Capabilities capabilities = comm->capabilities();
  std::vector<Measured> times;
  std::vector<Lab::Subject> subjects;
  for (const Collective collective : collectives) {
    const bool blocks = Goal(collective, capabilities.nranks, 0).blocks() != 1;
    for (const size_t bytes : {8 + 0 * KiB, 256 + 0 * KiB, 2 * KiB, 8 * KiB, 32 * KiB, 64 * KiB,
                               128 * KiB, 512 * KiB, 2 * MiB}) {
      // Blocks are as long as the largest of their size class.
      const uint64_t count = std::max<uint64_t>(
          1, std::bit_floor(bytes / sizeof(float) / (blocks ? capabilities.nranks : 1)));
      for (const Algorithm& algorithm : algorithms()) {
        if (algorithm.collective != collective) continue;
        const Query query = plain_query(collective, capabilities.nranks, count, sizeof(float));
        Choice choice;
        if (!choose(collective, capabilities, query, algorithm.name, false, &choice).ok()) continue;
        times.push_back({collective, count, sizeof(float), &algorithm, 0});
        subjects.push_back({comm.get(),
                            {collective, query.count * sizeof(float), std::string(algorithm.name)},
                            1,
                            {}});
      }
    }
  }
  TUTTI_TRY(lab.measure(subjects, share, "every algorithm"));
  for (size_t i = 0; i < times.size(); ++i) times[i].us = subjects[i].time();
  const MediumFields medium = medium_fields(capabilities);
  std::vector<Field> fields{medium.short_us};
  // The rates are also those of ranks with a core each, which measure them better.
  if (!capabilities.crowded()) fields.insert(fields.end(), {medium.gb_s, medium.reduce_gb_s});
  if (capabilities.all_share_memory && !capabilities.crowded()) {
    for (const Field field : {Field::fused_gb_s, Field::one_shot_hops, Field::two_shot_hops,
                              Field::two_shot_vectors, Field::one_hop_hops})
      fields.push_back(field);
  }
  const double before = regret(capabilities, times);
  fit(fields, times, &capabilities);
  for (const Field field : fields) {
    table->set(field, get(capabilities.tuning, field), Origin::measured);
  }
  char text[128];
  std::snprintf(text, sizeof(text),
                "the model: what it chooses takes %.3f times the fastest (geometric mean), %.3f "
                "before",
                regret(capabilities, times), before);
  out->found.emplace_back(text);
  return {};
}

// What is chosen with the table beside what is chosen without, the same calls in turns.
Status compare(Lab& lab, double share, const Tuning& before, const Tuning& after, Result* out) {
  std::unique_ptr<Communicator> old_comm, new_comm;
  TUTTI_TRY(lab.open(before, &old_comm));
  TUTTI_TRY(lab.open(after, &new_comm));
  std::vector<Lab::Subject> subjects;
  for (const Collective collective : collectives) {
    for (const size_t bytes :
         {64 + 0 * KiB, 1 * KiB, 4 * KiB, 16 * KiB, 64 * KiB, 256 * KiB, 1 * MiB, 4 * MiB}) {
      for (Communicator* const comm : {old_comm.get(), new_comm.get()}) {
        subjects.push_back({comm, {collective, bytes, ""}, 1, {}});
      }
    }
  }
  TUTTI_TRY(lab.measure(subjects, share, "before and after"));
  double sum = 0;
  for (size_t i = 0; i < subjects.size(); i += 2) {
    const Comparison one{subjects[i].cell.collective, subjects[i].cell.bytes, subjects[i].time(),
                         subjects[i + 1].time()};
    sum += std::log(one.after_us / one.before_us);
    out->compared.push_back(one);
  }
  out->change = std::exp(sum / double(out->compared.size()));
  return {};
}

}  // namespace

Status tune(Communicator& world, const CommSettings& settings, double seconds,
            const Progress& progress, Result* out) {
  Lab lab(world, settings, seconds, progress);
  // The steps are about memory that ranks share.
  const std::vector<Step> all =
      world.capabilities().all_share_memory ? steps() : std::vector<Step>();
  constexpr double compare_share = 0.15;
  const double model_share = all.empty() ? 1 - compare_share : 0.25;
  TuningTable table = settings.tuning;
  for (const Step& step : all) {
    TUTTI_TRY(take(lab, step, (1 - model_share - compare_share) / double(all.size()), &table, out));
  }
  TUTTI_TRY(fit_model(lab, model_share, &table, out));
  TUTTI_TRY(compare(lab, compare_share, settings.tuning.values(), table.values(), out));
  out->table = table;
  return {};
}

}  // namespace tutti::tune
