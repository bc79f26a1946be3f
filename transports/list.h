// The list of transports, in the order in which a communicator prefers them. Adding one is a folder
// of that name, which defines `const Transport NAME_transport`, and a line here: the registry, the
// build, TUTTI_TRANSPORTS, `tutti info` and the benchmark follow.
#pragma once

// clang-format off
#define TUTTI_TRANSPORTS(entry) \
  entry(inproc) \
  entry(shm) \
  entry(ucx) \
  entry(tcp)
// clang-format on
