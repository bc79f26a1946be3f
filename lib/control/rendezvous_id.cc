#include "lib/control/rendezvous_id.h"

#include <algorithm>
#include <cstring>

#include "lib/control/bytes.h"
#include "lib/control/crc32c.h"

namespace tutti {

namespace {

constexpr char id_magic[9] = "tutti-id";
constexpr uint8_t id_version = 1;
constexpr uint8_t fixed_flag = 1;
constexpr size_t address_at = 16, key_at = 40, rest_at = 72, checksum_at = 124;
static_assert(address_at + Address::packed_bytes == key_at);
static_assert(checksum_at + 4 == sizeof(tutti_unique_id));

}  // namespace

tutti_unique_id RendezvousId::encode() const {
  tutti_unique_id id{};
  uint8_t* at = id.bytes;
  std::memcpy(at, id_magic, 8);
  at[8] = id_version;
  at[9] = fixed ? fixed_flag : 0;
  address.pack(at + address_at);
  std::copy(key.begin(), key.end(), at + key_at);
  put_le<uint32_t>(at + checksum_at, crc32c(at, checksum_at));
  return id;
}

Status RendezvousId::parse(const tutti_unique_id& id, RendezvousId* out) {
  const uint8_t* at = id.bytes;
  if (std::memcmp(at, id_magic, 8) != 0) {
    return {TUTTI_INVALID, "the bytes passed as a unique id were not made by tutti"};
  }
  if (get_le<uint32_t>(at + checksum_at) != crc32c(at, checksum_at)) {
    return {TUTTI_INVALID, "the unique id was damaged on its way: its checksum is wrong"};
  }
  if (at[8] != id_version) {
    return {TUTTI_INVALID, "the unique id was made by another version of tutti"};
  }
  RendezvousId read;
  read.fixed = at[9] == fixed_flag;
  const bool known = Address::unpack(at + address_at, &read.address);
  const tutti_unique_id again = read.encode();  // without the key, of which no copy is to be left
  if (!known || read.address.port() == 0 || !std::equal(at, at + key_at, again.bytes) ||
      !std::equal(at + rest_at, at + checksum_at, again.bytes + rest_at)) {
    return {TUTTI_INVALID, "the unique id makes no sense"};
  }
  std::copy_n(at + key_at, read.key.size(), read.key.begin());
  *out = read;
  return {};
}

}  // namespace tutti
