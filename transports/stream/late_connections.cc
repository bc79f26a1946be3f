#include "transports/stream/late_connections.h"

#include <algorithm>
#include <cstring>

#include "lib/base/log.h"
#include "lib/base/process.h"
#include "lib/control/socket.h"

namespace tutti::tcp {

Status LateConnections::expect(int peer, Address* at) {
  if (!acceptor_) {
    Fd listener;
    at_ = terms_.own;
    at_.set_port(0);
    {
      const process::NoFork together;
      TUTTI_TRY(listen_on(&at_, &listener));
      process::keep_from_children(listener);
    }
    acceptor_.emplace(std::move(listener), terms_.key, uint8_t(Purpose::data), terms_.comm_id,
                      terms_.self, terms_.nranks);
  }
  expected_.push_back(peer);
  *at = at_;
  return {};
}

void LateConnections::call(int peer, const Address& at) {
  Destination to = terms_.destination(peer, at, Purpose::data);
  to.patient = true;  // the control channel tells whether the peer is there
  callers_.emplace_back(to);
}

bool LateConnections::is_calling(int peer) const {
  return std::any_of(callers_.begin(), callers_.end(),
                     [&](const Caller& caller) { return caller.claim().server == peer; });
}

void LateConnections::forget(int peer) {
  std::erase(expected_, peer);
  std::erase_if(callers_, [&](const Caller& caller) { return caller.claim().server == peer; });
  if (expected_.empty()) acceptor_.reset();
}

void LateConnections::close() {
  acceptor_.reset();
  expected_.clear();
  callers_.clear();
}

Status LateConnections::admit(Acceptor::Guest guest, std::vector<Made>* made) {
  const int peer = guest.claim().client;
  bool is_peer = false;
  TUTTI_TRY(terms_.examine(guest.claim(), &is_peer));
  if (!is_peer || std::erase(expected_, peer) == 0) return {};
  tune(guest.socket.get(), 0);
  made->push_back({peer, terms_.secure(std::move(guest.socket), peer, guest.handshake)});
  return {};
}

Status LateConnections::advance(uint64_t now_ns, std::vector<Made>* made) {
  if (acceptor_) {
    std::vector<Acceptor::Guest> guests;
    TUTTI_TRY(acceptor_->advance(now_ns, &guests));
    for (Acceptor::Guest& guest : guests) TUTTI_TRY(admit(std::move(guest), made));
    if (expected_.empty()) acceptor_.reset();
  }
  Status failed;
  std::erase_if(callers_, [&](Caller& caller) {
    const int obstacle = caller.obstacle();
    caller.advance(now_ns);
    if (caller.state() == Caller::State::failed) {
      if (failed.ok()) failed = caller.error();
    } else if (caller.state() == Caller::State::done) {
      Fd socket = caller.take();
      tune(socket.get(), 0);
      const int peer = caller.claim().server;
      made->push_back({peer, terms_.secure(std::move(socket), peer, caller.handshake())});
      return true;
    } else if (obstacle == 0 && caller.obstacle() != 0 && logging()) {
      log(TUTTI_LOG_WARNING, rank_name(terms_.self) + " cannot connect to " +
                                 rank_name(caller.claim().server) +
                                 " yet: " + std::strerror(caller.obstacle()));
    }
    return false;
  });
  return failed;
}

void LateConnections::watch(std::vector<pollfd>& set) const {
  if (acceptor_) acceptor_->watch(set);
  for (const Caller& caller : callers_) caller.watch(set);
}

uint64_t LateConnections::due_ns() const {
  uint64_t due = acceptor_ ? acceptor_->due_ns() : never_ns;
  for (const Caller& caller : callers_) due = std::min(due, caller.due_ns());
  return due;
}

}  // namespace tutti::tcp
