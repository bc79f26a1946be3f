// Who started this process and as which rank: what `tutti run`, or a launcher in the manner of
// torchrun, left in the environment.
#pragma once

#include <string.h>

#include <cstdint>
#include <string>

#include "lib/base/status.h"
#include "tutti/tutti.h"

namespace tutti {

struct Launch {
  enum class By {
    nobody,      // a communicator of one rank
    tutti_run,   // `id` is the job's; rank 0 has `listen_fd`
    rendezvous,  // at host:port, with the key of key_file
  };
  By by = By::nobody;
  int rank = 0;
  int nranks = 1;
  int local_rank = 0;
  int local_nranks = 1;  // 0: unknown
  tutti_unique_id id{};
  int listen_fd = -1;  // not owned: other communicators listen on it later; close-on-exec once read
  std::string host;
  uint16_t port = 0;
  std::string key_file;

  ~Launch() { explicit_bzero(id.bytes, sizeof(id.bytes)); }  // it holds the key
};

// Reads the environment and, under `tutti run`, the inherited descriptors. INVALID where the
// variables contradict each other or one is missing; AUTH where a rendezvous has no key file.
Status read_launch(Launch* out);

// For launchers: makes an inheritable, sealed memory file with the id. The caller owns *fd.
Status share_id(const tutti_unique_id& id, int* fd);

}  // namespace tutti
