#include "lib/control/handshake.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/control/bytes.h"
#include "lib/control/key_agreement.h"

namespace tutti {

namespace {

constexpr char hello_magic[9] = "tutti-h3";
constexpr size_t agrees_at = 9, binding_at = 32, nonce_at = 64;

constexpr const char* hello_role = "tutti handshake: hello";
constexpr const char* server_role = "tutti handshake: server";
constexpr const char* client_role = "tutti handshake: client";
constexpr const char* admission_role = "tutti handshake: admission";

}  // namespace

Handshake Handshake::client(const JobKey& key, const Claim& claim, const JobKey& random) {
  Handshake made;
  made.key_ = key;
  made.random_ = random;
  made.claim_ = claim;
  made.step_ = Step::client_challenge;
  made.wants_ = challenge_bytes;
  uint8_t* at = made.hello_.data();
  std::copy_n(hello_magic, 8, at);
  at[8] = uint8_t(claim.purpose);
  at[agrees_at] = claim.agrees_on_secret ? 1 : 0;
  put_le<int32_t>(at + 12, claim.client);
  put_le<int32_t>(at + 16, claim.server);
  put_le<uint32_t>(at + 20, claim.nranks);
  put_le<uint64_t>(at + 24, claim.job);
  std::copy(claim.binding.begin(), claim.binding.end(), at + binding_at);
  const Nonce nonce = made.own_nonce();
  std::copy(nonce.begin(), nonce.end(), at + nonce_at);
  made.send(made.hello_);
  made.send(keyed_hash(key, hello_role, {made.hello_}));
  return made;
}

Handshake Handshake::server(const JobKey& key, uint8_t purposes, uint64_t job, int32_t server,
                            const JobKey& random) {
  Handshake made;
  made.key_ = key;
  made.claim_.job = job;
  made.claim_.server = server;
  made.purposes_ = purposes;
  made.random_ = random;
  made.step_ = Step::server_hello;
  made.wants_ = hello_bytes;
  return made;
}

// A public value, like random bytes, comes but once. What does not need one saves the time.
Nonce Handshake::own_nonce() const {
  Nonce nonce = random_;
  if (claim_.agrees_on_secret && !public_value(random_, &nonce))
    static_cast<void>(random_bytes(nonce).ok());  // then session() finds no secret either
  return nonce;
}

Mac Handshake::mac(const char* role) const {
  return keyed_hash(key_, role, {hello_, server_nonce_});
}

SessionKeys Handshake::session() const {
  JobKey session{keyed_hash(key_, "tutti session", {hello_, server_nonce_})};
  if (claim_.agrees_on_secret) {
    Nonce theirs = server_nonce_;
    if (step_ == Step::server_proof)
      std::copy_n(hello_.begin() + nonce_at, theirs.size(), theirs.begin());
    JobKey secret{};
    if (!agreed_secret(random_, theirs, &secret)) static_cast<void>(random_bytes(secret).ok());
    session = JobKey{keyed_hash(secret, "tutti agreed session", {session})};
  }
  SessionKeys keys{{keyed_hash(session, "tutti client to server", {})},
                   {keyed_hash(session, "tutti server to client", {})}};
  if (step_ == Step::server_proof) std::swap(keys.sending, keys.receiving);
  return keys;
}

void Handshake::refuse(const char* reason) {
  state_ = State::refused;
  reason_ = reason;
  wants_ = got_ = out_begin_ = out_end_ = 0;
}

void Handshake::send(std::span<const uint8_t> bytes) {
  std::copy(bytes.begin(), bytes.end(), out_.begin() + ptrdiff_t(out_end_));
  out_end_ += bytes.size();
}

void Handshake::receive(std::span<const uint8_t> bytes) {
  if (state_ != State::running) return;
  const size_t taken = std::min(bytes.size(), wants());
  std::copy_n(bytes.begin(), taken, in_.begin() + ptrdiff_t(got_));
  got_ += taken;
  // Wrong first bytes are refused at once, without waiting for the rest.
  if (step_ == Step::server_hello &&
      std::memcmp(in_.data(), hello_magic, std::min<size_t>(got_, 8)) != 0) {
    return refuse("it does not speak tutti");
  }
  if (wants() > 0) return;
  got_ = wants_ = 0;
  switch (step_) {
    case Step::server_hello:
      return read_hello();
    case Step::server_proof:
      return read_proof();
    case Step::client_challenge:
      return read_challenge();
    case Step::client_admission:
      return read_admission();
  }
}

void Handshake::read_hello() {
  std::copy_n(in_.begin(), claim_bytes, hello_.begin());
  const std::span<const uint8_t, 32> theirs(in_.data() + claim_bytes, 32);
  if (!equal_secret(keyed_hash(key_, hello_role, {hello_}), theirs)) {
    return refuse("it does not hold the key of this job");
  }
  const uint8_t* at = hello_.data();
  const uint8_t purpose = at[8];
  const bool one_purpose = purpose != 0 && (purpose & (purpose - 1)) == 0;
  if (!one_purpose || (purpose & purposes_) == 0 || at[agrees_at] > 1 || at[10] != 0 ||
      at[11] != 0) {
    return refuse("it comes for something else");
  }
  if (get_le<uint64_t>(at + 24) != claim_.job) return refuse("it comes for another job");
  if (get_le<int32_t>(at + 16) != claim_.server) return refuse("it wants another rank");
  const auto client = get_le<int32_t>(at + 12);
  const auto nranks = get_le<uint32_t>(at + 20);
  if (client <= claim_.server || uint32_t(client) >= nranks)
    return refuse("it claims an impossible rank");
  claim_.purpose = Purpose(purpose);
  claim_.agrees_on_secret = at[agrees_at] != 0;
  claim_.client = client;
  claim_.nranks = nranks;
  std::copy_n(at + binding_at, claim_.binding.size(), claim_.binding.begin());
  greeted_ = true;
  out_begin_ = out_end_ = 0;
  server_nonce_ = own_nonce();
  send(server_nonce_);
  send(mac(server_role));
  step_ = Step::server_proof;
  wants_ = proof_bytes;
}

void Handshake::read_challenge() {
  std::copy_n(in_.begin(), server_nonce_.size(), server_nonce_.begin());
  const std::span<const uint8_t, 32> theirs(in_.data() + 32, 32);
  if (!equal_secret(mac(server_role), theirs)) {
    return refuse("who listens there does not hold the key of this job");
  }
  out_begin_ = out_end_ = 0;
  send(mac(client_role));
  step_ = Step::client_admission;
  wants_ = admission_bytes;
}

void Handshake::read_proof() {
  if (!equal_secret(mac(client_role), std::span<const uint8_t, 32>(in_.data(), 32))) {
    return refuse("its proof is wrong");
  }
  out_begin_ = out_end_ = 0;
  send(mac(admission_role));
  state_ = State::done;
}

void Handshake::read_admission() {
  if (!equal_secret(mac(admission_role), std::span<const uint8_t, 32>(in_.data(), 32))) {
    return refuse("its admission is wrong");
  }
  state_ = State::done;
}

}  // namespace tutti
