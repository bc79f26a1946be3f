// Any conversation with a server and with a client: no crash, nobody without the key is let in, and
// a server says nothing before it has seen a right hello. And one between the two that somebody
// changes on its way: both are in, with the same keys, if and only if nobody has changed a byte.
#include "lib/control/handshake.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace tutti;

namespace {

const JobKey key = {{1, 2, 3}};
constexpr uint8_t purposes = uint8_t(Purpose::data) | uint8_t(Purpose::control);
constexpr uint64_t job = 7;
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

// The same bytes as a claim with a right MAC: only a sensible one is greeted, and the proof that
// follows is still missing.
void claim_anything(const uint8_t* data, size_t bytes) {
  std::array<uint8_t, 128> hello;
  std::memcpy(hello.data(), data, claim_bytes);
  std::memcpy(hello.data(), "tutti-h3", 8);
  const Mac mac = keyed_hash(key, "tutti handshake: hello", {{hello.data(), claim_bytes}});
  std::copy(mac.begin(), mac.end(), hello.begin() + claim_bytes);
  Handshake insider = Handshake::server(key, purposes, job, 0, JobKey{9});
  insider.receive(hello);
  if (insider.greeted()) {
    const Claim& claim = insider.claim();
    if (claim.client <= 0 || uint32_t(claim.client) >= claim.nranks) abort();
    if (claim.server != 0 || claim.job != job) abort();
    if (claim.purpose != Purpose::data && claim.purpose != Purpose::control) abort();
  }
  converse(insider, data + claim_bytes, bytes - claim_bytes);
  if (insider.state() == Handshake::State::done) abort();
}

// Takes one message on, in pieces, and changes a byte of it if that is the input's wish.
bool carry(Handshake& from, Handshake& to, uint8_t where, uint8_t change) {
  const size_t bytes = from.output().size();
  for (size_t done = 0; done < bytes; ++done) {
    uint8_t byte = from.output()[0];
    if (done == where % bytes) byte ^= change;
    to.receive({&byte, 1});
    from.sent(1);
  }
  return bytes == 0 || change == 0;
}

// A claim in the first bytes; then of each of the four messages the place of a change, and how.
void stand_between(const uint8_t* data) {
  const Claim claim{Purpose(data[0]), data[1],      int8_t(data[2]),   int8_t(data[3]),
                    data[4],          Mac{data[5]}, (data[6] & 1) != 0};
  Handshake client = Handshake::client(key, claim, JobKey{8});
  Handshake server = Handshake::server(key, purposes, job, 0, JobKey{9});
  const bool sensible =
      (data[0] == uint8_t(Purpose::data) || data[0] == uint8_t(Purpose::control)) &&
      claim.job == job && claim.server == 0 && claim.client > 0 &&
      uint32_t(claim.client) < claim.nranks;
  bool same = true;
  for (int message = 0; message < 4; ++message) {
    const bool there = same && sensible;
    const uint8_t* const wish = data + 8 + 2 * message;
    same &= message % 2 == 0 ? carry(client, server, wish[0], wish[1])
                             : carry(server, client, wish[0], wish[1]);
    if ((message == 2) && (server.state() == Handshake::State::done) != (there && same)) abort();
  }
  if ((client.state() == Handshake::State::done) != (sensible && same)) abort();
  if (server.greeted() && !sensible) abort();
  if (client.state() != Handshake::State::done) return;
  if (server.claim().client != claim.client || server.claim().nranks != claim.nranks ||
      server.claim().binding != claim.binding || server.claim().purpose != claim.purpose) {
    abort();
  }
  const SessionKeys ours = client.session(), theirs = server.session();
  if (ours.sending != theirs.receiving || ours.receiving != theirs.sending) abort();
  if (ours.sending == ours.receiving) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  Handshake server = Handshake::server(key, purposes, job, 0, JobKey{9});
  converse(server, data, bytes);
  if (server.state() == Handshake::State::done || server.greeted()) abort();
  if (!server.output().empty()) abort();

  Handshake client = Handshake::client(key, {Purpose::data, job, 1, 0, 2}, JobKey{8});
  client.sent(client.output().size());
  converse(client, data, bytes);
  if (client.state() == Handshake::State::done) abort();

  if (bytes >= 16) stand_between(data);
  if (bytes >= claim_bytes) claim_anything(data, bytes);
  return 0;
}
