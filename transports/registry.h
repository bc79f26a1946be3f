// The transports there are. Adding one is a folder and a line in registry.cc.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lib/control/host.h"
#include "transports/transport.h"

namespace tutti {

struct Transport {
  const char* name;
  const char* about;  // one sentence
  // Whether it can join ranks that live there.
  bool (*joins)(const HostRecord& a, const HostRecord& b);
  // Collective over the exchange; *out stays empty on a rank without peers.
  Status (*open)(const LinkSetup& setup, std::unique_ptr<Link>* out);
};

std::span<const Transport> transports();

// The index in `allowed` of the first transport that can join them, -1 if none can.
int transport_for(const std::vector<std::string>& allowed, const HostRecord& a,
                  const HostRecord& b);

Status open_transport(const std::string& name, const LinkSetup& setup, std::unique_ptr<Link>* out);

}  // namespace tutti
