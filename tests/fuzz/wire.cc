// Any bytes as frames: what is accepted must be what encode() would have made, and nothing may
// crash.
#include "lib/control/wire.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "lib/control/crc32c.h"

using namespace tutti;

namespace {

void check(std::span<const uint8_t, wire::header_bytes> bytes) {
  wire::Header header;
  if (!wire::parse(bytes, &header).ok()) return;
  const wire::HeaderBytes again = wire::encode(header);
  if (std::memcmp(again.data(), bytes.data(), bytes.size()) != 0) abort();
  if (header.length > wire::most_exchange_bytes) abort();
}

// The rest of a frame as a note.
void check_note(const wire::Header& header, std::span<const uint8_t> payload) {
  Note note, again;
  if (!wire::parse_note(header, payload, &note).ok()) return;
  wire::Header copy;
  const std::string encoded = wire::encode_note(note, &copy);
  const auto* at = reinterpret_cast<const uint8_t*>(encoded.data());
  if (!std::equal(payload.begin(), payload.end(), at, at + encoded.size())) abort();
  if (!wire::parse_note(copy, {at, encoded.size()}, &again).ok() || !(again == note)) abort();
  if (note.labels().size() != note.count) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  Status status;
  if (wire::parse_status({data, bytes}, &status).ok()) {
    Status again;
    const std::string payload = wire::encode_status(status);
    if (payload.size() != bytes) abort();
    if (!wire::parse_status({reinterpret_cast<const uint8_t*>(payload.data()), bytes}, &again)
             .ok() ||
        again.text() != status.text()) {
      abort();
    }
  }
  if (bytes < wire::header_bytes) return 0;
  check(std::span<const uint8_t, wire::header_bytes>(data, wire::header_bytes));
  // Once more with a checksum that fits, to get past it.
  wire::HeaderBytes fitting;
  std::memcpy(fitting.data(), data, fitting.size());
  const uint32_t checksum = crc32c(fitting.data(), 60);
  for (size_t i = 0; i < 4; ++i) fitting[60 + i] = uint8_t(checksum >> (8 * i));
  check(fitting);
  wire::Header header;
  if (wire::parse(fitting, &header).ok()) {
    check_note(header, {data + wire::header_bytes, bytes - wire::header_bytes});
  }
  return 0;
}
