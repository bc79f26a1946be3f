// How ranks that share nothing but a tutti_unique_id get an Exchange: a star around rank 0, over
// authenticated TCP.
#pragma once

#include <string.h>

#include <memory>
#include <string>

#include "lib/base/fd.h"
#include "lib/control/exchange.h"
#include "tutti/tutti.h"

namespace tutti {

// An id and the listening socket behind its address.
struct Rendezvous {
  tutti_unique_id id{};
  Fd listener;

  ~Rendezvous() { explicit_bzero(id.bytes, sizeof(id.bytes)); }  // it holds the key
};

// Listens on `interface` (a network interface's name or an address of this host; empty: loopback)
// at a port of the system's choice, and makes an id with a fresh random key.
Status open_rendezvous(const std::string& interface, Rendezvous* out);

// Where rank 0 is found, other than by an id.
struct FixedPlace {
  std::string host;  // a name or a number (MASTER_ADDR)
  uint16_t port = 0;
  // Of this host, for where the name is this host's own and means loopback here (as Debian has it),
  // which the other hosts' ranks cannot mean; empty: its first that is not loopback.
  std::string interface;
};

// The id of a rendezvous at a fixed place with the key of a file; rank 0 also gets the listener.
Status open_rendezvous_at(const FixedPlace& place, const JobKey& key, bool listen,
                          uint64_t deadline_ns, Rendezvous* out);

// Reads 32 bytes of key from a file that only its owner can read (else AUTH, with a sentence).
Status read_key_file(const std::string& path, JobKey* out);

// Collective over the nranks holders of the id. Rank 0 passes the listener, the others an empty Fd.
// `heartbeat_ns`: after which a host that does not answer is lost, here and in the exchange.
// If ranks disagree on nranks, or one comes twice, all that are there get an error.
Status join_rendezvous(const tutti_unique_id& id, Fd listener, int rank, int nranks,
                       uint64_t deadline_ns, uint64_t heartbeat_ns, std::unique_ptr<Exchange>* out);

// The same at a fixed place, with the key of a file.
Status join_rendezvous_at(const FixedPlace& place, const std::string& key_file, int rank,
                          int nranks, uint64_t deadline_ns, uint64_t heartbeat_ns,
                          std::unique_ptr<Exchange>* out);

}  // namespace tutti
