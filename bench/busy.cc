#include "bench/busy.h"

#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <thread>

namespace tutti::bench {
namespace {

constexpr double quiet = 0.1;

struct Times {
  double idle = 0, all = 0;
};

// The first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal ...
Times read_times() {
  std::ifstream file("/proc/stat");
  std::string cpu;
  file >> cpu;
  Times times;
  double value;
  for (int field = 0; field < 8 && file >> value; ++field) {
    times.all += value;
    if (field == 3 || field == 4) times.idle += value;
  }
  return times;
}

}  // namespace

double busy_share(int milliseconds) {
  const Times before = read_times();
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  const Times after = read_times();
  const double all = after.all - before.all;
  return all > 0 ? 1 - (after.idle - before.idle) / all : 0;
}

std::string about_busy(double share) {
  if (share < quiet) return "";
  return fmt::format(
      "CAUTION: other programs used {:.0f} % of the CPUs just before or after; times are longer "
      "than "
      "they should be, and for everybody differently.",
      100 * share);
}

}  // namespace tutti::bench
