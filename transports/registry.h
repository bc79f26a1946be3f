// What the library needs to know of each transport: one row each, defined in the transport's own
// folder and listed in list.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/control/host.h"
#include "transports/list.h"
#include "transports/transport.h"

namespace tutti {

struct Transport {
  enum class Reach : uint8_t {
    process,  // threads of one process
    host,     // processes of one host, of one user and in the same namespaces
    network   // any two processes
  };

  const char* name;
  const char* about;  // one sentence
  Reach reach;
  bool raw_sockets = false;  // its best possible performance is that of bare sockets
  // Between hosts, too: it cannot protect what it carries.
  bool always_in_clear = false;
  // Collective over the exchange; *out stays empty on a rank without peers.
  Status (*open)(const LinkSetup& setup, std::unique_ptr<Link>* out);
  // UNSUPPORTED, with why, where this process cannot use it; null: it always can.
  Status (*usable)() = nullptr;
  // What it would use on this host, where it is usable, in one sentence; null: `about` says all.
  std::string (*found_here)() = nullptr;
  // Whether this host offers it where neither program nor user has named transports; cheap; null:
  // always.
  bool (*worthwhile)() = nullptr;
  // OK: its links move memory of this process's GPUs (LinkSetup::memory); UNSUPPORTED, with why;
  // null: they never do.
  Status (*moves_gpu_memory)() = nullptr;
  // How many threads run in this process because of it; null: none ever.
  uint32_t (*threads)() = nullptr;

  bool joins(const HostRecord& a, const HostRecord& b) const;
};

#define TUTTI_DECLARE(name) extern const Transport name##_transport;
TUTTI_TRANSPORTS(TUTTI_DECLARE)
#undef TUTTI_DECLARE

// In order of preference.
std::span<const Transport* const> transports();
std::vector<std::string> transport_names();
const Transport* find_transport(std::string_view name);  // null: there is none
// Those whose links may move memory of GPUs.
std::vector<std::string> gpu_transports();

// The transports that a process offers to others: bit i for transports()[i]. `named`: whether the
// program or the user has chosen the allowed ones; `in_clear`: whether he has chosen to have
// nothing protected.
uint32_t offered_transports(const std::vector<std::string>& allowed, bool named, bool in_clear);

// The index in `allowed` of the first transport that can join them, -1 if none can.
int transport_for(const std::vector<std::string>& allowed, const HostRecord& a,
                  const HostRecord& b);

Status open_transport(const std::string& name, const LinkSetup& setup, std::unique_ptr<Link>* out);

// How many threads run in this process because of transports.
uint32_t transport_threads();

}  // namespace tutti
