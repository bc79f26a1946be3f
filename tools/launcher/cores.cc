#include "tools/launcher/cores.h"

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "lib/base/clock.h"

namespace tutti {

bool CoreClaim::take(unsigned cpu, CoreClaim* out) {
  Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return true;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // A name that begins with a zero byte is in no file system.
  const std::string name = "tutti-core-" + std::to_string(cpu);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0)
    return errno != EADDRINUSE;
  out->socket_ = std::move(socket);
  return true;
}

// Lines "cpuN user nice system idle iowait irq softirq steal ...", in ticks.
IdleTimes IdleTimes::now() {
  static const auto tick_ns = uint64_t(1'000'000'000 / std::max(1L, sysconf(_SC_CLK_TCK)));
  IdleTimes times;
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("cpu")) break;
    if (line[3] == ' ') continue;  // the sum of all
    std::istringstream fields(line.substr(3));
    size_t cpu = 0;
    uint64_t ticks[8] = {};
    fields >> cpu;
    for (uint64_t& field : ticks) fields >> field;
    if (!fields) continue;
    if (times.idle_ns_.size() <= cpu) times.idle_ns_.resize(cpu + 1);
    times.idle_ns_[cpu] = (ticks[3] + ticks[4] + ticks[7]) * tick_ns;
  }
  times.ns_ = now_ns();
  return times;
}

double IdleTimes::share_since(const IdleTimes& before, unsigned cpu) const {
  if (cpu >= idle_ns_.size() || cpu >= before.idle_ns_.size() || ns_ <= before.ns_) return 1;
  // Where nothing is told the time is always zero, and the kernel may correct itself downwards.
  if (idle_ns_[cpu] == 0 || idle_ns_[cpu] < before.idle_ns_[cpu]) return 1;
  const double share = double(idle_ns_[cpu] - before.idle_ns_[cpu]) / double(ns_ - before.ns_);
  return std::min(share, 1.0);
}

bool nothing_else_runs() {
  std::ifstream file("/proc/loadavg");
  double load = 0;
  int running = 0;
  for (int i = 0; i < 3; ++i) file >> load;
  return file >> running && running <= 1;
}

}  // namespace tutti
