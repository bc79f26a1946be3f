#include "trainer/report/history.h"

#include <algorithm>

namespace tutti::train {

Totals totals_of(const std::vector<StepRecord>& steps, double batch, double shard) {
  Totals t;
  t.steps = int64_t(steps.size());
  if (steps.empty()) return t;
  std::vector<double> times;
  double exposed = 0, communication = 0, shard_norm = 0, step_norm = 0;
  const size_t warm = steps.size() > 10 ? 2 : 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const StepFigures& f = steps[i].figures;
    t.seconds += steps[i].seconds;
    if (i < warm) continue;
    times.push_back(steps[i].seconds);
    exposed += f.exposed;
    communication += f.communication;
    t.bytes_per_step += f.volume.bytes;
    t.messages_per_step += f.volume.messages;
    shard_norm += f.shard_norm;
    step_norm += f.step_norm;
  }
  const auto n = double(times.size());
  double measured = 0;
  for (const double time : times) measured += time;
  std::nth_element(times.begin(), times.begin() + std::ptrdiff_t(times.size() / 2), times.end());
  t.median_ms = 1e3 * times[times.size() / 2];
  t.samples_per_s = batch / times[times.size() / 2];
  t.exposed = measured > 0 ? exposed / measured : 0;
  t.hidden = communication > exposed ? 1 - exposed / communication : 0;
  t.bytes_per_step /= n;
  t.messages_per_step /= n;
  // McCandlish et al. 2018: both squared lengths are |G|^2 + noise / batch, for two batches.
  if (batch > shard && shard_norm > 0) {
    const double signal = (batch * step_norm - shard * shard_norm) / (batch - shard) / n;
    const double noise = (shard_norm - step_norm) / (1 / shard - 1 / batch) / n;
    if (signal > 0 && noise > 0) {
      t.noise_samples = noise / signal;
      t.efficiency = (t.noise_samples + shard) / (t.noise_samples + batch);
    }
  }
  return t;
}

}  // namespace tutti::train
