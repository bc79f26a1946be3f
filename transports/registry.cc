#include "transports/registry.h"

#include <algorithm>

namespace tutti {

namespace {

#define TUTTI_ROW(name) &name##_transport,
constexpr const Transport* table[] = {TUTTI_TRANSPORTS(TUTTI_ROW)};
#undef TUTTI_ROW

// The transport's index in the table; the table's size: there is none.
size_t place_of(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(table), std::end(table),
                   [&](const Transport* transport) { return name == transport->name; });
  return size_t(found - std::begin(table));
}

}  // namespace

bool Transport::joins(const HostRecord& a, const HostRecord& b) const {
  switch (reach) {
    case Reach::process:
      return a.same_process(b);
    case Reach::host:
      return a.same_host(b);
    case Reach::network:
      break;
  }
  return true;
}

std::span<const Transport* const> transports() { return table; }

std::vector<std::string> transport_names() {
  std::vector<std::string> names;
  for (const Transport* const transport : table) names.emplace_back(transport->name);
  return names;
}

const Transport* find_transport(std::string_view name) {
  const size_t place = place_of(name);
  return place < std::size(table) ? table[place] : nullptr;
}

std::vector<std::string> gpu_transports() {
  std::vector<std::string> names;
  for (const Transport* const transport : table) {
    if (transport->moves_gpu_memory != nullptr) names.emplace_back(transport->name);
  }
  return names;
}

uint32_t offered_transports(const std::vector<std::string>& allowed, bool named, bool in_clear) {
  uint32_t offered = 0;
  for (size_t i = 0; i < std::size(table); ++i) {
    const auto worthwhile = [&] {
      return std::find(allowed.begin(), allowed.end(), table[i]->name) != allowed.end() &&
             table[i]->worthwhile();
    };
    if (!named && !in_clear && table[i]->always_in_clear) continue;
    if (named || table[i]->worthwhile == nullptr || worthwhile()) offered |= uint32_t{1} << i;
  }
  return offered;
}

int transport_for(const std::vector<std::string>& allowed, const HostRecord& a,
                  const HostRecord& b) {
  const uint32_t offered = a.transports & b.transports;
  for (size_t i = 0; i < allowed.size(); ++i) {
    const size_t place = place_of(allowed[i]);
    if (place == std::size(table)) continue;
    if ((offered >> place & 1) != 0 && table[place]->joins(a, b)) return int(i);
  }
  return -1;
}

Status open_transport(const std::string& name, const LinkSetup& setup, std::unique_ptr<Link>* out) {
  const Transport* const transport = find_transport(name);
  if (transport == nullptr) return {TUTTI_INVALID, "there is no transport " + name};
  return transport->open(setup, out);
}

uint32_t transport_threads() {
  uint32_t threads = 0;
  for (const Transport* const transport : table) {
    if (transport->threads != nullptr) threads += transport->threads();
  }
  return threads;
}

}  // namespace tutti
