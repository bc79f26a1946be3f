// What a communicator is once it has been made; its parts share it and do not change it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/fault.h"
#include "lib/control/kept_key.h"
#include "lib/progress/wait.h"
#include "lib/record/recorder.h"
#include "lib/select/select.h"
#include "lib/slots/slot_link.h"
#include "lib/tuning/tuning.h"
#include "transports/registry.h"

namespace tutti {

struct CommSettings {
  std::vector<std::string> transports = transport_names();  // allowed, best first
  bool transports_named = false;  // by the program or its user: also used if not worthwhile here
  std::string interface;
  int64_t timeout_ms = 30'000;
  int64_t setup_ms = 60'000;
  int64_t heartbeat_ms = default_heartbeat_ms;
  Integrity integrity = Integrity::automatic;  // TUTTI_INTEGRITY; the same on all ranks
  bool progress_thread = false;
  Use single_copy = Use::automatic;      // of other ranks' private memory
  Use non_temporal = Use::automatic;     // for slices in shared memory
  TuningTable tuning;                    // the same on all ranks
  bool adopts = false;                   // vectors that come back; the same on all ranks
  bool measures_calls = false;           // no page of this rank's cells may come in one
  bool check_results = false;            // whether those of a call are equal on all ranks
  tutti_level level = TUTTI_LEVEL_FAST;  // of calls that do not name one
  std::string record_folder;             // TUTTI_RECORD_DIR; empty: no flight record
  Fault fault;                           // TUTTI_FAULT
  Beside beside;                         // what waits move on, too
  int device = no_device;                // a GPU's number
  bool devices_through_host = false;     // TUTTI_DEVICE_PATH
  Use ucx_device = Use::automatic;       // TUTTI_UCX_DEVICE
  // Other than host: only the link may access the buffers of calls. So only calls that move data
  // can be made, and the caller copies the block that a rank gets from itself.
  LinkMemory memory = LinkMemory::host;
  static constexpr int no_device = -1;
  static constexpr int current_device = -2;  // the thread's
};

struct Connection {
  uint64_t serial = 0;  // unique in the process
  int rank = 0;
  int nranks = 1;
  CommSettings settings;
  TuningTable tuning;  // settings.tuning, and what was measured
  KeptKey key;
  std::vector<pid_t> processes;  // of the ranks; 0: on another host, or unknown
  std::string medium;  // the transports among the ranks, alike on all: "shm,tcp across hosts"
  Capabilities capabilities;
  Patience patience;
  Patience lone_patience;                    // of who waits for one single rank
  std::unique_ptr<Link> link;                // null for one rank
  std::unique_ptr<record::Recorder> record;  // null: none
  slots::SlotLink* slots = nullptr;          // `link` if it is one, for the executor's fast form

  // For the flight record; `peer` -1: nobody knows for whom a call waits.
  record::Recorder::Way way_to(int peer) const {
    if (peer < 0) return {"", ""};
    return {link->name_to(peer), link->addresses_to(peer)};
  }

  // For a call with this limit; 0: the communicator's.
  uint64_t timeout_ns(int64_t timeout_ms) const {
    return ns_of_ms(timeout_ms > 0 ? timeout_ms : settings.timeout_ms);
  }
};

}  // namespace tutti
