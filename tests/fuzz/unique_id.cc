// Any bytes as a unique id: what is read is what encode() makes of it, a refusal is one sentence
// and changes nothing.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "lib/control/bytes.h"
#include "lib/control/crc32c.h"
#include "lib/control/rendezvous_id.h"

using namespace tutti;

namespace {

void check(const tutti_unique_id& id) {
  RendezvousId before;
  before.address = Address::loopback();
  before.address.set_port(1);
  before.key[0] = 7;
  RendezvousId read = before;
  const Status parsed = RendezvousId::parse(id, &read);
  const tutti_unique_id again = read.encode();
  if (parsed.ok()) {
    if (std::memcmp(again.bytes, id.bytes, sizeof(id)) != 0 || read.address.port() == 0) abort();
    if (read.address.host() == "?") abort();
    return;
  }
  if (parsed.code() != TUTTI_INVALID || parsed.text().find("unique id") == std::string::npos ||
      std::memcmp(again.bytes, before.encode().bytes, sizeof(id)) != 0) {
    abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  tutti_unique_id id{};
  if (bytes > 0) std::memcpy(id.bytes, data, std::min(bytes, sizeof(id)));
  check(id);
  // Once more with a checksum that fits, to get past it.
  put_le<uint32_t>(id.bytes + 124, crc32c(id.bytes, 124));
  check(id);
  return 0;
}
