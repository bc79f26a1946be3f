#include "lib/comm/measure.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "lib/base/log.h"
#include "lib/base/process.h"
#include "lib/comm/comm.h"
#include "lib/control/agree.h"

namespace tutti {

namespace {

// From when the calls begin: when to stop, and when it is too late for what is missing.
constexpr uint64_t budget_ns = 10'000'000, most_ns = 20'000'000;
constexpr size_t least_rounds = 3;
constexpr double batch_us = 50;  // about, of calls alike in a round
constexpr uint64_t long_bytes = 64 << 10;
constexpr uint32_t element_size = sizeof(float);

// How a field is found, once those before it are known.
struct Probe {
  Field field;
  // hop: what a short call takes; rate: what a long one takes more; addition: without a call.
  enum class Kind : uint8_t { hop, rate, addition } kind;
  Collective collective = Collective::allreduce;
  const char* algorithm = "";
  bool unfused = true;

  // Elements of the vector, or of a block, of a short and of a long call.
  uint64_t count(bool is_long, uint32_t nranks) const {
    const uint64_t blocks = Goal(collective, nranks, 0).blocks() == 1 ? 1 : nranks;
    return is_long ? std::bit_floor(std::max(long_bytes / element_size / blocks, uint64_t{2})) : 1;
  }
};

std::vector<Probe> probes_of(const Capabilities& capabilities) {
  using Kind = Probe::Kind;
  const MediumFields medium = medium_fields(capabilities);
  std::vector<Probe> all = {{medium.short_us, Kind::hop, Collective::allreduce, "butterfly"},
                            {medium.gb_s, Kind::rate, Collective::allgather, "direct"},
                            {medium.reduce_gb_s, Kind::addition}};
  // Where ranks outnumber cores who moves bytes is not the only one who takes the time.
  if (capabilities.all_share_memory && !capabilities.crowded())
    all.push_back({Field::fused_gb_s, Kind::rate, Collective::allreduce, "two-shot", false});
  return all;
}

Status predict(const Probe& probe, bool is_long, const Capabilities& capabilities, double* us) {
  const uint32_t n = capabilities.nranks;
  Choice choice;
  TUTTI_TRY(choose(probe.collective, capabilities,
                   plain_query(probe.collective, n, probe.count(is_long, n), element_size),
                   probe.algorithm, probe.unfused, &choice));
  *us += is_long || probe.kind == Probe::Kind::hop ? choice.predicted_us : -choice.predicted_us;
  return {};
}

// Sets the field so that the model predicts what was measured, to three digits. TIMEOUT where that
// makes no sense: it was disturbed.
Status solve(const Probe& probe, double us, Capabilities* capabilities) {
  // Over the default. A network may be as slow as it likes.
  constexpr double most_gain = 20;
  const double least_gain = capabilities->in_memory() ? 0.02 : 0;
  const FieldInfo& info = tuning_field(probe.field);
  const double initial = get(default_tuning, probe.field);
  double value = double(long_bytes) / (1000 * us);
  if (probe.kind != Probe::Kind::addition) {
    const bool is_rate = probe.kind == Probe::Kind::rate;
    double whole = 0, rest = 0;  // with the default, and as if it took no time
    for (double* const predicted : {&rest, &whole}) {
      set(&capabilities->tuning, probe.field,
          predicted == &whole ? initial
          : is_rate           ? info.most
                              : info.least);
      TUTTI_TRY(predict(probe, false, *capabilities, predicted));
      if (is_rate) TUTTI_TRY(predict(probe, true, *capabilities, predicted));
    }
    const double slower = std::max((us - rest) / (whole - rest), 1e-9);
    value = is_rate ? initial / slower : initial * slower;
  }
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", value);
  value = std::strtod(text, nullptr);
  const double gain = probe.kind == Probe::Kind::hop ? initial / value : value / initial;
  if (!(gain >= least_gain && gain <= most_gain) || !why_not(probe.field, value).empty())
    return {TUTTI_TIMEOUT, std::string(info.name) + " would be " + text + ", is the machine busy?"};
  set(&capabilities->tuning, probe.field, value);
  return {};
}

// The calls of one rank.
class Lab {
 public:
  explicit Lab(Communicator& comm) : comm_(comm) {}

  // What each probe takes, in microseconds, undisturbed as far as possible: the lower quartile of
  // the slowest rank's times. The same on all ranks.
  Status run(const std::vector<Probe>& probes, std::vector<double>* us) {
    const uint64_t begun_ns = now_ns();
    std::vector<uint32_t> calls(2 * probes.size(), 1);  // short ones and long ones
    std::vector<std::vector<double>> times(calls.size());
    // Last, on rank 0: for how long.
    std::vector<float> mine(calls.size() + 1), all(calls.size() + 1);
    for (size_t round = 0;; ++round) {  // the first warms up
      for (size_t i = 0; i < calls.size(); ++i)
        TUTTI_TRY(time(probes[i / 2], i % 2 != 0, calls[i], &mine[i]));
      mine.back() = comm_.rank() == 0 ? float(now_ns() - begun_ns) : 0;
      TUTTI_TRY(maximum(mine, &all));
      for (size_t i = 0; i < calls.size(); ++i) {
        if (round != 0) times[i].push_back(double(all[i]));
        calls[i] = uint32_t(std::clamp(batch_us / std::max(double(all[i]), 0.1), 1.0, 64.0));
      }
      if (round >= least_rounds && double(all.back()) >= double(budget_ns)) break;
      if (double(all.back()) >= double(most_ns))
        return {TUTTI_TIMEOUT, "there was not time enough, is the machine busy?"};
    }
    for (std::vector<double>& each : times) {
      const auto quartile = each.begin() + ptrdiff_t(each.size() / 4);
      std::nth_element(each.begin(), quartile, each.end());
    }
    for (size_t i = 0; i < probes.size(); ++i) {
      const size_t at = times[0].size() / 4;
      const double short_us = times[2 * i][at], long_us = times[2 * i + 1][at];
      us->push_back(probes[i].kind == Probe::Kind::hop ? short_us : long_us - short_us);
    }
    return {};
  }

 private:
  // 0 of what the probe does not need.
  Status time(const Probe& probe, bool is_long, uint32_t calls, float* us) {
    const bool adds = probe.kind == Probe::Kind::addition;
    if (probe.kind != Probe::Kind::rate && is_long != adds) return {};
    Call call;
    call.key.collective = probe.collective;
    call.key.count = probe.count(is_long, uint32_t(comm_.nranks()));
    call.key.algorithm = probe.algorithm;
    call.key.unfused = probe.unfused;
    const uint64_t begin = now_ns();
    for (uint32_t i = 0; i < calls; ++i) {
      if (adds) {
        add_.reduce2(bytes(output_), bytes(input_), bytes(output_), long_bytes / element_size);
      } else {
        TUTTI_TRY(run(call, input_, output_));
      }
    }
    *us = float(double(now_ns() - begin) / 1e3 / calls);
    return {};
  }

  Status maximum(std::vector<float>& mine, std::vector<float>* all) {
    Call call;
    call.key.op = TUTTI_MAX;
    call.key.count = mine.size();
    return run(call, mine, *all);
  }

  Status run(Call& call, std::vector<float>& input, std::vector<float>& output) {
    call.key.dtype = TUTTI_FLOAT32;
    call.input = bytes(input);
    call.output = bytes(output);
    return comm_.run(call) == TUTTI_OK ? Status() : comm_.last_error();
  }

  static std::byte* bytes(std::vector<float>& vector) {
    return reinterpret_cast<std::byte*>(vector.data());
  }

  Communicator& comm_;
  const Kernels add_ = find_kernels(TUTTI_FLOAT32, TUTTI_SUM);
  // As blocks of two elements may be more.
  const size_t elements_ = std::max<size_t>(long_bytes / element_size, 2 * size_t(comm_.nranks()));
  std::vector<float> input_ = std::vector<float>(elements_), output_ = input_;
};

// What communicators of this process have measured, by kind, as ranks tell it each other.
class Known {
 public:
  static Known& get() { return process::own<Known>(); }
  std::string find(const std::string& kind) {
    const std::lock_guard lock(mutex_);
    return values_[kind];
  }
  void keep(const std::string& kind, const std::string& values) {
    const std::lock_guard lock(mutex_);
    values_[kind] = values;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> values_;
};

// On a communicator of its own: its calls are not among those that the program counts, records or
// has fail. `*values`: as ranks tell them each other. `*why`: why there are none.
Status values_of(Exchange& exchange, const Connection& connection, uint64_t deadline_ns,
                 const std::vector<Probe>& probes, std::string* values, std::string* why) {
  const uint64_t now = now_ns(), left_ns = deadline_ns > now ? deadline_ns - now : 0;
  CommSettings settings = connection.settings;
  settings.setup_ms = settings.timeout_ms = int64_t(left_ns / 1'000'000u) + 1;
  settings.progress_thread = settings.adopts = settings.check_results = false;
  settings.tuning.measures = false;
  settings.measures_calls = true;
  for (const Field tries : {Field::tried_bytes, Field::tried_one_hop_bytes,
                            Field::tried_socket_bytes, Field::tried_crowded_bytes})
    settings.tuning.set(tries, tuning_field(tries).most, Origin::initial);
  // Only the fused protocols use it, and where these are not measured mapping it would take long.
  if (connection.capabilities.crowded()) {
    for (const Field memory : {Field::ring_bytes, Field::few_arena_bytes, Field::some_arena_bytes,
                               Field::many_arena_bytes, Field::rotated_bytes})
      settings.tuning.set(memory, tuning_field(memory).least, Origin::initial);
    settings.tuning.set(Field::two_shot_slice_bytes, 4 << 10, Origin::initial);
  }
  settings.level = TUTTI_LEVEL_FAST;
  settings.record_folder.clear();
  settings.fault = {};
  settings.beside = {};
  settings.device = CommSettings::no_device;
  std::unique_ptr<Communicator> comm;
  TUTTI_TRY(Communicator::create_plain(exchange, settings, &comm));
  std::vector<double> us;
  Status ended = Lab(*comm).run(probes, &us);
  Capabilities solved = connection.capabilities;
  for (size_t i = 0; ended.ok() && i < probes.size(); ++i) {
    ended = solve(probes[i], us[i], &solved);
    const double value = get(solved.tuning, probes[i].field);
    values->append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  if (!ended.ok()) *why = ended.text();
  return {};
}

}  // namespace

Status measure(Exchange& exchange, const Connection& connection, uint64_t deadline_ns,
               TuningTable* table) {
  const uint64_t begun_ns = now_ns();
  const Capabilities& capabilities = connection.capabilities;
  const std::vector<Probe> probes = probes_of(capabilities);
  const std::string kind = connection.medium + (capabilities.crowded() ? ", crowded" : "");
  const std::string place =
      kind + ", " + name_of(connection.settings.integrity) + ", " + connection.settings.tuning.id();
  std::string values = Known::get().find(place), why;
  std::vector<std::string> all;
  TUTTI_TRY(agree_on(exchange, {}, values, deadline_ns, &all));
  const size_t bytes = probes.size() * sizeof(double);
  // Those of the lowest rank that has some.
  const auto first = std::find_if(all.begin(), all.end(),
                                  [&](const std::string& other) { return other.size() == bytes; });
  const bool known = first != all.end();
  if (known) {
    values = *first;
  } else {
    values.clear();
    TUTTI_TRY(values_of(exchange, connection, deadline_ns, probes, &values, &why));
    TUTTI_TRY(agree_on(exchange, {}, why.empty() ? values : "", deadline_ns, &all));
    values = all[0];
    for (const std::string& other : all) {
      if (other.size() != bytes) values.clear();
    }
  }
  const std::string self = rank_name(connection.rank);
  if (values.empty()) {
    log(TUTTI_LOG_WARNING, self + ": nothing is measured of " + kind + ", the defaults stay: " +
                               (why.empty() ? "another rank could not" : why));
    return {};
  }
  std::string text = self + (known ? ": takes what was measured of " : ": measured of ") + kind;
  for (size_t i = 0; i < probes.size(); ++i) {
    double value = 0;
    std::memcpy(&value, values.data() + i * sizeof(value), sizeof(value));
    const Field field = probes[i].field;
    if (!why_not(field, value).empty())
      return {TUTTI_CORRUPT, "a rank measured something that makes no sense"};
    table->set(field, value, Origin::measured);
    text += (i == 0 ? ": " : ", ") + std::string(tuning_field(field).name) + " " +
            value_text(field, value);
  }
  Known::get().keep(place, values);
  if (!known) text += ", in " + std::to_string((now_ns() - begun_ns) / 1000) + " us";
  log(TUTTI_LOG_INFO, text);
  return {};
}

}  // namespace tutti
