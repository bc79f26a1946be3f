#include "tools/tutti/machine.h"

#include <arpa/inet.h>
#include <hwloc.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "lib/config/config.h"
#include "lib/config/launch.h"
#include "lib/device/driver.h"
#include "lib/device/kernels/images.h"
#include "lib/reduce/reduce.h"
#include "tools/build_info.h"
#include "transports/registry.h"

namespace tutti {
namespace {

using Json = nlohmann::ordered_json;

Json feature(const char* name, const char* found, bool used, const char* use) {
  return {{"name", name},
          {"found", *found != '\0'},
          {"version", found},
          {"used", used && *found != '\0'},
          {"for", use}};
}

std::string address_text(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text,
              sizeof text);
  }
  return text;
}

Json describe_caches(hwloc_topology_t topology) {
  Json caches = Json::array();
  for (const hwloc_obj_type_t type :
       {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L4CACHE}) {
    const int count = hwloc_get_nbobjs_by_type(topology, type);
    if (count <= 0) continue;
    const hwloc_obj_t first = hwloc_get_obj_by_type(topology, type, 0);
    caches.push_back({{"name", "L" + std::to_string(first->attr->cache.depth)},
                      {"count", count},
                      {"bytes", first->attr->cache.size},
                      {"processors_each", hwloc_bitmap_weight(first->cpuset)}});
  }
  return caches;
}

// The word that the kernel has chosen, of "always [madvise] never"; empty where it does not say.
std::string chosen_word(const char* path) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    if (word.size() > 2 && word.front() == '[') return word.substr(1, word.size() - 2);
  }
  return {};
}

Json describe_huge_pages() {
  const std::string folder = "/sys/kernel/mm/transparent_hugepage/";
  return {{"private", chosen_word((folder + "enabled").c_str())},
          {"shared", chosen_word((folder + "shmem_enabled").c_str())}};
}

}  // namespace

Json describe_build() {
  Json build;
  build["version"] = TUTTI_BUILD_VERSION;
  build["compiler"] = TUTTI_BUILD_COMPILER;
  build["type"] = TUTTI_BUILD_TYPE;
  build["features"] = {
      feature("hwloc", TUTTI_FOUND_HWLOC, true, "topology and binding"),
      feature("OpenSSL", TUTTI_FOUND_OPENSSL, true, "keys of jobs"),
      feature("Highway", TUTTI_FOUND_HIGHWAY, true, "reduction kernels"),
      feature("CUDA", TUTTI_FOUND_CUDA, true, "collectives on GPUs"),
      feature("UCX", TUTTI_FOUND_UCX, true, "RDMA networks"),
      feature("LibTorch", TUTTI_FOUND_LIBTORCH, TUTTI_WITH_TRAINER != 0, "the reference trainer"),
  };
  build["reductions"] = reduce_target_name();
  build["native"] = TUTTI_NATIVE_BUILD != 0;
  return build;
}

Json describe_transports() {
  Json all = Json::array();
  for (const Transport* const transport : transports()) {
    const std::string reason = transport->usable != nullptr ? transport->usable().text() : "";
    const bool says_more = transport->found_here != nullptr && reason.empty();
    all.push_back({{"name", transport->name},
                   {"about", says_more ? transport->found_here() : transport->about},
                   {"usable", reason.empty()},
                   {"reason", reason}});
  }
  return all;
}

Json describe_interfaces() {
  Json all = Json::array();
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return all;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, freeifaddrs);
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    Json* known = nullptr;
    for (Json& interface : all)
      if (interface["name"] == entry->ifa_name) known = &interface;
    if (known == nullptr) {
      all.push_back({{"name", entry->ifa_name},
                     {"up", (entry->ifa_flags & IFF_UP) != 0},
                     {"addresses", Json::array()}});
      known = &all.back();
    }
    if (entry->ifa_addr == nullptr) continue;
    const std::string text = address_text(entry->ifa_addr);
    if (!text.empty()) (*known)["addresses"].push_back(text);
  }
  return all;
}

Json describe_topology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return {};
  const std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)> owner(
      topology, hwloc_topology_destroy);
  if (hwloc_topology_load(topology) != 0) return {};
  const auto count = [&](hwloc_obj_type_t type) {
    return hwloc_get_nbobjs_by_type(topology, type);
  };
  const char* model = nullptr;
  if (const hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0))
    model = hwloc_obj_get_info_by_name(package, "CPUModel");
  Json all;
  all["model"] = model != nullptr ? model : "";
  all["packages"] = count(HWLOC_OBJ_PACKAGE);
  all["cores"] = count(HWLOC_OBJ_CORE);
  all["processors"] = count(HWLOC_OBJ_PU);
  all["numa_nodes"] = count(HWLOC_OBJ_NUMANODE);
  // hwloc's total leaves out memory that was added after boot.
  all["memory_bytes"] = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
  all["caches"] = describe_caches(topology);
  all["huge_pages"] = describe_huge_pages();
  return all;
}

Json describe_gpus() {
  Json all{{"usable", false}, {"reason", ""}, {"driver", ""}, {"gpus", Json::array()}};
  const auto because = [&all](const std::string& reason) {
    all["reason"] = reason;
    return all;
  };
  device::Driver* driver = nullptr;
  if (const Status got = device::Driver::get(&driver); !got.ok()) return because(got.text());
  const int version = driver->version();
  all["driver"] = std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10);
  bool waits = true;
  for (int number = 0; number < driver->devices(); ++number) {
    device::Info info;
    if (const Status asked = driver->info(number, &info); !asked.ok()) return because(asked.text());
    waits = waits && info.waits_in_streams;
    all["gpus"].push_back(
        {{"name", info.name},
         {"memory_bytes", info.bytes},
         {"multiprocessors", info.multiprocessors},
         {"capability", std::to_string(info.major) + '.' + std::to_string(info.minor)}});
  }
  if (device::kernel_images().empty()) return because("this build has no kernels for GPUs");
  if (!waits) return because("a GPU cannot wait for flags in streams");
  all["usable"] = true;
  return all;
}

namespace {

// Of the job that this process would be a rank of.
std::string integrity_of_job() {
  std::optional<std::string> chosen;
  if (!config_text(Variable::tutti_integrity, &chosen).ok()) return "TUTTI_INTEGRITY is unclear";
  switch (integrity_from_name(chosen.value_or("auto")).value_or(Integrity::automatic)) {
    case Integrity::automatic:
      return "AES-256-GCM between network namespaces, in clear within one";
    case Integrity::none:
      return "in clear";
    case Integrity::checksum:
      return "in clear, with CRC-32C";
    case Integrity::encrypted:
      break;
  }
  return "AES-256-GCM";
}

}  // namespace

Json describe_job() {
  Launch launch;
  if (const Status status = read_launch(&launch); !status.ok())
    return {{"started_by", "unclear"}, {"problem", status.text()}};
  switch (launch.by) {
    case Launch::By::tutti_run:
      return {{"started_by", "tutti run"},
              {"rank", launch.rank},
              {"ranks", launch.nranks},
              {"key", "inherited descriptor"},
              {"integrity", integrity_of_job()}};
    case Launch::By::rendezvous:
      return {{"started_by", "RANK and WORLD_SIZE"},
              {"rank", launch.rank},
              {"ranks", launch.nranks},
              {"key", "file " + launch.key_file},
              {"integrity", integrity_of_job()}};
    case Launch::By::nobody:
      break;
  }
  return {{"started_by", "nobody"},
          {"rank", 0},
          {"ranks", 1},
          {"key", "none needed"},
          {"integrity", integrity_of_job()}};
}

}  // namespace tutti
