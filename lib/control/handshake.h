// How the two ends of a connection authenticate each other: each proves that it holds the job's key
// and has the role that it claims. A state machine over bytes: no I/O, time or randomness here.
//
//   client -> server  hello:      magic, claim, nonce, MAC         128 bytes
//   server -> client  challenge:  nonce, MAC over hello and nonces  64 bytes
//   client -> server  proof:      MAC over hello and nonces         32 bytes
//   server -> client  admission:  MAC over hello and nonces         32 bytes
//
// Every MAC is HMAC-SHA256 under the job's key and covers the sender's role, so no message can be
// reflected to its sender as an answer. The hello's MAC only keeps the server silent towards
// strangers: a hello can be replayed; the proof cannot, because it covers the server's fresh nonce.
// Without the admission a client could believe to be in while its server has turned it out.
//
// The keys of the connection come out of the job's key and all that was said: claim and nonces.
// Where the claim asks for it the nonces are public values of X25519, and the secret that both ends
// find goes into the keys, too: so who records the connection and later learns the job's key reads
// nothing (forward secrecy).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/control/job_key.h"
#include "lib/control/seal.h"
#include "lib/control/secret.h"

namespace tutti {

// What a connection is for. Bits, so that a server can accept several.
enum class Purpose : uint8_t { bootstrap = 1, data = 2, control = 4 };

// What the client claims, all of it covered by the MACs.
struct Claim {
  Purpose purpose = Purpose::bootstrap;
  uint64_t job = 0;  // of the rendezvous or of the communicator
  int32_t client = 0;
  int32_t server = 0;
  uint32_t nranks = 0;
  // A hash of what both ends must have learned elsewhere; the server's owner compares it.
  Mac binding{};
  // The keys of the connection are not to be found from the job's key; the server's owner compares
  // it. It costs each end two multiplications on a curve.
  bool agrees_on_secret = false;
};

class Handshake {
 public:
  enum class State { running, done, refused };

  // `random`: 32 fresh random bytes that nobody else knows.
  static Handshake client(const JobKey& key, const Claim& claim, const JobKey& random);
  // Accepts whoever holds the key and calls rank `server` of `job`, for one of `purposes`, as a
  // higher rank: lower ones do not call. Once it is done, the caller decides whether the claimed
  // rank may connect.
  static Handshake server(const JobKey& key, uint8_t purposes, uint64_t job, int32_t server,
                          const JobKey& random);

  // A server that is done may still have its admission to send.
  State state() const { return state_; }
  // Once refused: why, in words.
  const char* reason() const { return reason_; }
  // Once it is done: the keys of the connection. Where no secret can be agreed on, keys that nobody
  // else has.
  SessionKeys session() const;
  // The client's claim. A server must not trust it before it is done.
  const Claim& claim() const { return claim_; }
  // The server has received a hello with a right MAC, which may be a replay.
  bool greeted() const { return greeted_; }

  // How many more bytes to read before the next step; never more than the handshake has.
  size_t wants() const { return wants_ - got_; }
  // Takes at most wants() bytes.
  void receive(std::span<const uint8_t> bytes);
  // The bytes to send; sent() removes them.
  std::span<const uint8_t> output() const {
    return {out_.data() + out_begin_, out_end_ - out_begin_};
  }
  void sent(size_t bytes) { out_begin_ += bytes; }

 private:
  static constexpr size_t claim_bytes = 96;  // magic, claim and nonce
  static constexpr size_t hello_bytes = claim_bytes + 32;
  static constexpr size_t challenge_bytes = 64;
  static constexpr size_t proof_bytes = 32;
  static constexpr size_t admission_bytes = 32;

  enum class Step { server_hello, server_proof, client_challenge, client_admission };

  Nonce own_nonce() const;
  Mac mac(const char* role) const;
  void refuse(const char* reason);
  void send(std::span<const uint8_t> bytes);
  void read_hello();
  void read_challenge();
  void read_proof();
  void read_admission();

  JobKey key_{};
  JobKey random_{};  // this end's
  Step step_ = Step::server_hello;
  State state_ = State::running;
  const char* reason_ = "";
  Claim claim_;
  uint8_t purposes_ = 0;
  bool greeted_ = false;
  std::array<uint8_t, claim_bytes> hello_{};
  Nonce server_nonce_{};
  std::array<uint8_t, hello_bytes> in_{};
  size_t wants_ = 0, got_ = 0;
  std::array<uint8_t, hello_bytes> out_{};
  size_t out_begin_ = 0, out_end_ = 0;
};

}  // namespace tutti
