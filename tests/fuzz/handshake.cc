// Any conversation with a server and with a client: no crash, nobody without the key is let in, and
// a server says nothing before it has seen a right hello.
#include "lib/control/handshake.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace tutti;

namespace {

const JobKey key = {{1, 2, 3}};
constexpr size_t claim_bytes = 96;

// Feeds the bytes in pieces whose lengths the input chooses.
void converse(Handshake& handshake, const uint8_t* data, size_t bytes) {
  size_t answered = 0;
  while (bytes > 1 && handshake.state() == Handshake::State::running) {
    const size_t piece = std::min<size_t>(bytes - 1, 1 + data[0]);
    handshake.receive({data + 1, std::min(piece, handshake.wants())});
    data += 1 + piece;
    bytes -= 1 + piece;
    const size_t output = handshake.output().size();
    if (output > 128) abort();
    handshake.sent(output / 2);
    answered += output / 2;
    if (answered > 1024) abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const uint8_t purposes = uint8_t(Purpose::data) | uint8_t(Purpose::control);
  Handshake server = Handshake::server(key, purposes, 7, 0, JobKey{9});
  converse(server, data, bytes);
  if (server.state() == Handshake::State::done || server.greeted()) abort();
  if (!server.output().empty()) abort();

  Handshake client = Handshake::client(key, {Purpose::data, 7, 1, 0, 2}, JobKey{8});
  client.sent(client.output().size());
  converse(client, data, bytes);
  if (client.state() == Handshake::State::done) abort();

  // The same bytes as a claim with a right MAC: only a sensible one is greeted, and the proof that
  // follows is still missing.
  if (bytes < claim_bytes) return 0;
  std::array<uint8_t, 128> hello;
  std::memcpy(hello.data(), data, claim_bytes);
  std::memcpy(hello.data(), "tutti-h3", 8);
  const Mac mac = keyed_hash(key, "tutti handshake: hello", {{hello.data(), claim_bytes}});
  std::copy(mac.begin(), mac.end(), hello.begin() + claim_bytes);
  Handshake insider = Handshake::server(key, purposes, 7, 0, JobKey{9});
  insider.receive(hello);
  if (insider.greeted()) {
    const Claim& claim = insider.claim();
    if (claim.client <= 0 || uint32_t(claim.client) >= claim.nranks) abort();
    if (claim.server != 0 || claim.job != 7) abort();
    if (claim.purpose != Purpose::data && claim.purpose != Purpose::control) abort();
  }
  converse(insider, data + claim_bytes, bytes - claim_bytes);
  if (insider.state() == Handshake::State::done) abort();
  return 0;
}
