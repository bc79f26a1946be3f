// The facts of `tutti info` about this build and this machine, as data.
#pragma once

#include <nlohmann/json.hpp>

namespace tutti {

nlohmann::ordered_json describe_build();       // version, compiler, features
nlohmann::ordered_json describe_transports();  // name, about, usable, reason
nlohmann::ordered_json describe_interfaces();  // name, up, addresses
nlohmann::ordered_json describe_topology();    // packages, cores, processors, NUMA nodes, caches
nlohmann::ordered_json describe_gpus();        // whether calls accept their memory, and why not
nlohmann::ordered_json describe_job();         // who started this process, where its key is from

}  // namespace tutti
