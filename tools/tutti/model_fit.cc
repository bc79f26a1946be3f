#include "tools/tutti/model_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace tutti::tune {

namespace {

// What a wrong prediction, and a field far from its default, count beside a wrong choice. Without
// the latter a field that hardly any time depends on follows the noise as far as it goes.
constexpr double prediction_weight = 0.02;
constexpr double distance_weight = 0.0002;

// Times of one call by all algorithms.
using Calls = std::map<std::pair<Collective, uint64_t>, std::vector<const Measured*>>;
Calls calls_of(const std::vector<Measured>& times) {
  Calls calls;
  for (const Measured& one : times) calls[{one.collective, one.count}].push_back(&one);
  return calls;
}

struct Score {
  double regret = 0;      // mean of the logarithms
  double prediction = 0;  // mean of the squared logarithms of predicted / measured
};

// The sum of the squared logarithms of value / default.
double distance(const std::vector<Field>& fields, const Tuning& tuning) {
  const Tuning defaults;
  double sum = 0;
  for (const Field field : fields) {
    const double change = std::log(get(tuning, field) / get(defaults, field));
    sum += change * change;
  }
  return sum;
}

Score score(const Capabilities& capabilities, const Calls& calls) {
  Score sum;
  size_t predictions = 0;
  for (const auto& [call, all] : calls) {
    const Query query =
        plain_query(call.first, capabilities.nranks, call.second, all.front()->element_size);
    double best = all.front()->us, chosen_us = 0;
    for (const Measured* const one : all) best = std::min(best, one->us);
    Choice choice;
    if (!choose(call.first, capabilities, query, {}, false, &choice).ok()) continue;
    for (const Measured* const one : all) {
      if (one->algorithm == choice.algorithm) chosen_us = one->us;
      Choice forced;
      if (!choose(call.first, capabilities, query, one->algorithm->name, false, &forced).ok())
        continue;
      const double error = std::log(forced.predicted_us / one->us);
      sum.prediction += error * error;
      ++predictions;
    }
    // What was not measured is taken for as slow as the slowest that was.
    if (chosen_us == 0) {
      for (const Measured* const one : all) chosen_us = std::max(chosen_us, one->us);
    }
    sum.regret += std::log(chosen_us / best);
  }
  if (!calls.empty()) sum.regret /= double(calls.size());
  if (predictions != 0) sum.prediction /= double(predictions);
  return sum;
}

}  // namespace

double regret(const Capabilities& capabilities, const std::vector<Measured>& times) {
  return std::exp(score(capabilities, calls_of(times)).regret);
}

// Coordinate descent: each field in turn by ever smaller factors, as long as anything improves.
void fit(const std::vector<Field>& fields, const std::vector<Measured>& times,
         Capabilities* capabilities) {
  const Calls calls = calls_of(times);
  const auto total = [&] {
    const Score now = score(*capabilities, calls);
    return now.regret + prediction_weight * now.prediction +
           distance_weight * distance(fields, capabilities->tuning);
  };
  double best = total();
  for (const double factor : {2.0, 1.4, 1.15, 1.05}) {
    constexpr int most_passes = 12;
    bool better = true;
    for (int pass = 0; better && pass < most_passes; ++pass) {
      better = false;
      for (const Field field : fields) {
        for (const double by : {factor, 1 / factor}) {
          const double before = get(capabilities->tuning, field);
          // Three digits are more than can be measured.
          char text[32];
          std::snprintf(text, sizeof(text), "%.3g", before * by);
          const double value = std::strtod(text, nullptr);
          if (!why_not(field, value).empty()) continue;
          set(&capabilities->tuning, field, value);
          const double now = total();
          if (now < best * (1 - 1e-6)) {
            best = now;
            better = true;
          } else {
            set(&capabilities->tuning, field, before);
          }
        }
      }
    }
  }
}

}  // namespace tutti::tune
