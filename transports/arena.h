// The memory on GPUs that the ranks of a communicator share. Each rank has an arena on its GPU,
// which all others map: its board, slots for messages from every rank, a staging buffer for its
// input and one for the result of its share. Memory that the program registers is shared too.
//
// Opening and registering are collective over an exchange; nothing is mapped or allocated
// afterwards.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lib/control/exchange.h"
#include "lib/device/driver.h"

namespace tutti {

class Arena {
 public:
  struct Sizes {
    uint64_t slot_bytes = 1 << 20;      // of each of the two slots a rank; a multiple of 512
    uint64_t staging_bytes = 32 << 20;  // a multiple of 512
  };

  // All ranks get one, or an error. *out stays empty, with OK, where the GPUs of two ranks cannot
  // reach each other, two ranks are on different hosts, or there are more than most_ranks:
  // *why says so. `device` is this rank's GPU.
  static Status open(device::Driver& driver, Exchange& exchange, int device, const Sizes& sizes,
                     uint64_t deadline_ns, std::unique_ptr<Arena>* out, std::string* why);
  ~Arena();  // nothing on the GPU may use it any more

  device::Driver& driver() const;
  int device() const;
  uint32_t rank() const;
  uint32_t nranks() const;
  // Whether all ranks are threads of this process: then others can use every address as it is.
  bool one_process() const;
  // Whether another rank is a thread of this process on the same GPU.
  bool shares_context() const;

  // Where the parts of the arena of `rank` are mapped in this process.
  device::Address board(uint32_t rank) const;
  device::Address slot(uint32_t rank, uint32_t from,
                       uint32_t which) const;  // for messages of rank `from`
  device::Address staging(uint32_t rank) const;
  device::Address results(uint32_t rank) const;
  const Sizes& sizes() const;
  uint64_t result_bytes() const;  // at least a share of staging_bytes, and 512 more
  // The flag on this rank's board that `from` sets.
  device::Address flag(device::Flag flag, uint32_t from) const;
  // The place `offset` bytes into this rank's staging buffer.
  device::Place staging_place(uint64_t offset) const;

  // This rank's report, and its address on the GPU.
  device::Report& report() const;
  device::Address report_address() const;

  // Collective, sizes may differ. `make`: allocates the memory; else it is [address, +bytes). *out:
  // where it begins.
  Status add(Exchange& exchange, bool make, device::Address address, size_t bytes,
             uint64_t deadline_ns, device::Address* out);
  // Local. False when no region of this rank begins there.
  bool remove(device::Address address);
  // Whether the other ranks can reach all of [address, address + bytes); then its place.
  bool find(device::Address address, size_t bytes, device::Place* out) const;

  // Releases everything that waits on this rank's GPU; from now on kernels do nothing. Any thread,
  // any number of times; does not wait for the GPU's streams.
  Status let_go();

 private:
  struct State;
  explicit Arena(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tutti
