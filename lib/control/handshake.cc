#include "lib/control/handshake.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/control/bytes.h"

namespace tutti {

namespace {

constexpr char hello_magic[9] = "tutti-h2";
constexpr size_t binding_at = 32, nonce_at = 64;

constexpr const char* hello_role = "tutti handshake: hello";
constexpr const char* server_role = "tutti handshake: server";
constexpr const char* client_role = "tutti handshake: client";
constexpr const char* admission_role = "tutti handshake: admission";

}  // namespace

Handshake Handshake::client(const JobKey& key, const Claim& claim, const Nonce& nonce) {
  Handshake made;
  made.key_ = key;
  made.claim_ = claim;
  made.step_ = Step::client_challenge;
  made.wants_ = challenge_bytes;
  uint8_t* at = made.hello_.data();
  std::memcpy(at, hello_magic, 8);
  at[8] = uint8_t(claim.purpose);
  put_le<int32_t>(at + 12, claim.client);
  put_le<int32_t>(at + 16, claim.server);
  put_le<uint32_t>(at + 20, claim.nranks);
  put_le<uint64_t>(at + 24, claim.job);
  std::copy(claim.binding.begin(), claim.binding.end(), at + binding_at);
  std::copy(nonce.begin(), nonce.end(), at + nonce_at);
  made.send(made.hello_);
  made.send(keyed_hash(key, hello_role, {made.hello_}));
  return made;
}

Handshake Handshake::server(const JobKey& key, uint8_t purposes, uint64_t job, int32_t server,
                            const Nonce& nonce) {
  Handshake made;
  made.key_ = key;
  made.claim_.job = job;
  made.claim_.server = server;
  made.purposes_ = purposes;
  made.server_nonce_ = nonce;
  made.step_ = Step::server_hello;
  made.wants_ = hello_bytes;
  return made;
}

Mac Handshake::mac(const char* role) const {
  return keyed_hash(key_, role, {hello_, server_nonce_});
}

SessionKeys Handshake::session() const {
  const JobKey session{keyed_hash(key_, "tutti session", {hello_, server_nonce_})};
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
  if (!one_purpose || (purpose & purposes_) == 0 || at[9] != 0 || at[10] != 0 || at[11] != 0) {
    return refuse("it comes for something else");
  }
  if (get_le<uint64_t>(at + 24) != claim_.job) return refuse("it comes for another job");
  if (get_le<int32_t>(at + 16) != claim_.server) return refuse("it wants another rank");
  const auto client = get_le<int32_t>(at + 12);
  if (client < 0 || client == claim_.server) return refuse("it claims an impossible rank");
  claim_.purpose = Purpose(purpose);
  claim_.client = client;
  claim_.nranks = get_le<uint32_t>(at + 20);
  std::copy_n(at + binding_at, claim_.binding.size(), claim_.binding.begin());
  greeted_ = true;
  out_begin_ = out_end_ = 0;
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
