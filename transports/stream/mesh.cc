#include "transports/stream/mesh.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/clock.h"
#include "lib/control/acceptor.h"
#include "lib/control/agree.h"
#include "lib/control/secret.h"
#include "lib/control/socket.h"
#include "lib/control/wire.h"

namespace tutti::tcp {

namespace {

// A control connection is lost when the peer's host has acknowledged nothing for so long, also
// where nobody waits for that peer (StreamLink sees to those who do): the more connections are
// probed, the longer, and never before a heartbeat would say so. Data connections have no such
// limit: the kernel would also apply it to a receiver that is only busy.
constexpr int control_limit_s = 4;
constexpr int ranks_a_limit = 64;
// How often it looks whether a rank has gone: so much, and so much more for every rank.
constexpr uint64_t look_ns = 50'000'000, look_ns_a_rank = 1'000'000;
constexpr uint64_t listen_step_ns = 10'000'000;
// The calls of a rank that are under way at once. More would not be faster, and would come to the
// others in bursts.
constexpr size_t most_calls = 16;

class Mesh {
 public:
  explicit Mesh(const LinkSetup& setup)
      : setup_(setup), self_(setup.exchange->rank()), nranks_(setup.exchange->nranks()) {}

  Status connect(std::vector<SecureSocket>* out, Terms* terms) {
    Exchange& exchange = *setup_.exchange;
    TUTTI_TRY(exchange.allgather(network_of_this_process(), setup_.deadline_ns, &networks_));
    const bool one_network = std::all_of(
        networks_.begin(), networks_.end(),
        [&](const std::string& network) { return share_network(network, networks_[0]); });

    std::string packed(Address::packed_bytes, '\0');
    const Status prepared = prepare(one_network);
    if (prepared.ok()) own_.pack(reinterpret_cast<uint8_t*>(packed.data()));
    TUTTI_TRY(agree_on(exchange, prepared, packed, setup_.deadline_ns, &addresses_));
    for (int rank = 0; rank < nranks_; ++rank) {
      if (addresses_[size_t(rank)].size() != Address::packed_bytes) return senseless(rank);
    }
    reserved_.clear();

    find_terms();
    sockets_.resize(size_t(nranks_));
    Status met = meet();
    if (!met.ok()) met = give_up(std::move(met));
    TUTTI_TRY(agree(exchange, met, setup_.deadline_ns));
    *out = std::move(sockets_);
    *terms = std::move(terms_);
    return {};
  }

 private:
  bool is_peer(int rank) const {
    return rank != self_ && rank < nranks_ && setup_.peers[size_t(rank)] != 0;
  }

  static Status senseless(int rank) {
    return {TUTTI_CORRUPT, rank_name(rank) + " gave an address that makes no sense", rank};
  }

  Status choose_address(bool one_network) {
    std::string wanted = setup_.interface;
    if (wanted.empty()) wanted = setup_.exchange->local_address();
    if (!wanted.empty()) return resolve_interface(wanted, &own_);
    if (!one_network) return first_outward(&own_);
    own_ = Address::loopback();
    return {};
  }

  // Gets every resource that may run out, before another rank waits for this one.
  Status prepare(bool one_network) {
    if (nranks_ > wire::most_ranks) {
      return {TUTTI_UNSUPPORTED,
              "tcp serves at most " + std::to_string(wire::most_ranks) + " ranks"};
    }
    TUTTI_TRY(choose_address(one_network));
    size_t peers = 0;
    for (int rank = 0; rank < nranks_; ++rank) peers += is_peer(rank);
    if (peers == 0) return {};
    TUTTI_TRY(listen_on(&own_, &listener_));
    // 2: the link's own.
    const size_t needed = peers + 2 + Acceptor::spare_descriptors;
    return reserve_descriptors(listener_.get(), needed, std::to_string(peers) + " peers",
                               &reserved_);
  }

  // The nearest rank comes last: it is called first. So no rank is called by all others at once.
  Status find_destinations(std::vector<Destination>* destinations) const {
    for (int rank = 0; rank < self_; ++rank) {
      if (!is_peer(rank)) continue;
      Address address;
      const std::string& packed = addresses_[size_t(rank)];
      if (!Address::unpack(reinterpret_cast<const uint8_t*>(packed.data()), &address)) {
        return senseless(rank);
      }
      destinations->push_back(terms_.destination(rank, address, Purpose::control));
    }
    return {};
  }

  void find_terms() {
    terms_.key = KeptKey(setup_.exchange->key());
    terms_.comm_id = setup_.comm_id;
    terms_.self = self_;
    terms_.nranks = uint32_t(nranks_);
    terms_.own = own_;
    terms_.bindings.resize(size_t(nranks_));
    terms_.integrity.resize(size_t(nranks_), Integrity::none);
    for (int rank = 0; rank < nranks_; ++rank) {
      if (!is_peer(rank)) continue;
      terms_.bindings[size_t(rank)] = binding(std::max(self_, rank), std::min(self_, rank));
      terms_.integrity[size_t(rank)] = integrity_with(rank);
    }
  }

  // Both ends must have heard the same of the addresses at which they listen: so a connection is
  // between those whom the exchange has brought together, also through a translator of addresses.
  Mac binding(int client, int server) const {
    const auto packed_of = [this](int rank) {
      const auto* at = reinterpret_cast<const uint8_t*>(addresses_[size_t(rank)].data());
      return std::span<const uint8_t>(at, Address::packed_bytes);
    };
    const uint8_t integrity = uint8_t(integrity_with(client == self_ ? server : client));
    return keyed_hash(setup_.exchange->key(), "tutti binding",
                      {packed_of(client), packed_of(server), {&integrity, 1}});
  }

  // Bytes between processes of one network namespace never leave their kernel.
  Integrity integrity_with(int rank) const {
    if (setup_.integrity != Integrity::automatic) return setup_.integrity;
    const bool within = share_network(networks_[size_t(self_)], networks_[size_t(rank)]);
    return within ? Integrity::none : Integrity::encrypted;
  }

  Status meet() {
    std::vector<Destination> to_call;
    TUTTI_TRY(find_destinations(&to_call));
    std::vector<Caller> callers;
    callers.reserve(most_calls);
    size_t expected = 0;
    for (int rank = self_ + 1; rank < nranks_; ++rank) expected += is_peer(rank);
    Acceptor acceptor(std::move(listener_), setup_.exchange->key(), uint8_t(Purpose::control),
                      setup_.comm_id, self_, expected);
    std::vector<Acceptor::Guest> guests;
    std::vector<pollfd> set;
    for (uint64_t look_due_ns = 0;;) {
      const uint64_t now = now_ns();
      if (now >= look_due_ns) {
        TUTTI_TRY(find_gone());
        TUTTI_TRY(setup_.exchange->look());
        // As often as it takes to count the time that a host is silent.
        look_due_ns = now + std::min(look_period_ns(), setup_.heartbeat_ns / 6);
      }
      guests.clear();
      TUTTI_TRY(acceptor.advance(now, &guests));
      for (Acceptor::Guest& guest : guests) TUTTI_TRY(admit(std::move(guest)));
      uint64_t due = std::min({setup_.deadline_ns, acceptor.due_ns(), look_due_ns});
      while (callers.size() < most_calls && !to_call.empty()) {
        callers.emplace_back(to_call.back());
        to_call.pop_back();
      }
      bool some_done = false;
      for (Caller& caller : callers) {
        caller.advance(now);
        if (caller.state() == Caller::State::failed) return caller.error();
        if (caller.state() == Caller::State::done) {
          keep(caller.claim().server, caller.take(), caller.handshake());
          some_done = true;
        }
        due = std::min(due, caller.due_ns());
      }
      std::erase_if(callers,
                    [](const Caller& caller) { return caller.state() == Caller::State::done; });
      const int missing = first_missing();
      if (missing < 0) return {};
      if (now >= setup_.deadline_ns) {
        return {TUTTI_TIMEOUT, "no connection to " + rank_name(missing) + " came about in time",
                missing};
      }
      if (some_done && !to_call.empty()) continue;
      set.clear();
      acceptor.watch(set);
      for (const Caller& caller : callers) caller.watch(set);
      TUTTI_TRY(wait_for_events(set, due));
    }
  }

  uint64_t look_period_ns() const { return look_ns + look_ns_a_rank * uint64_t(nranks_); }

  // The others may wait for this rank to call, or to be called: an alarm reaches all, closed
  // connections those that had one. A rank that another one has left alone listens for the reason,
  // and takes that for the reason only if there is none. Returns the reason.
  Status give_up(Status why) {
    Exchange& exchange = *setup_.exchange;
    const bool left_alone = why.code() == TUTTI_PEER_FAILED;
    const uint64_t until_ns = left_alone ? now_ns() + 2 * look_period_ns() : 0;
    Status news = exchange.look();
    while (news.ok() && may_hear(left_alone, until_ns)) {
      std::vector<pollfd> nothing;
      if (!wait_for_events(nothing, now_ns() + listen_step_ns).ok()) break;
      news = exchange.look();
    }
    if (left_alone && !news.ok()) why = std::move(news);
    exchange.alarm(
        {why.code(), rank_name(self_) + ": " + why.text(), why.rank() >= 0 ? why.rank() : self_});
    sockets_.clear();
    return why;
  }

  // Rank 0, which would tell the reason, may be lost itself, and another rank have found so first.
  bool may_hear(bool left_alone, uint64_t until_ns) const {
    const uint64_t now = now_ns();
    return now < until_ns ||
           (left_alone && setup_.exchange->suspects() && now < setup_.deadline_ns);
  }

  void keep(int rank, Fd socket, const Handshake& handshake) {
    tune(socket.get(), limit_s());
    sockets_[size_t(rank)] = terms_.secure(std::move(socket), rank, handshake);
  }
  int limit_s() const {
    return later_than_beats_s(setup_.heartbeat_ns, control_limit_s * (1 + nranks_ / ranks_a_limit));
  }

  // A guest holds the key; a member that should not connect to this rank is refused. One that comes
  // again has lost its first connection.
  Status admit(Acceptor::Guest guest) {
    bool is_peer = false;
    TUTTI_TRY(terms_.examine(guest.claim(), &is_peer));
    if (is_peer) keep(guest.claim().client, std::move(guest.socket), guest.handshake);
    return {};
  }

  int first_missing() const {
    for (int rank = 0; rank < nranks_; ++rank) {
      if (is_peer(rank) && !sockets_[size_t(rank)]) return rank;
    }
    return -1;
  }

  // Only POLLRDHUP is asked for, so an event means that the peer has gone.
  Status find_gone() const {
    std::vector<pollfd> set;
    std::vector<int> ranks;
    for (int rank = 0; rank < nranks_; ++rank) {
      if (!sockets_[size_t(rank)]) continue;
      set.push_back({sockets_[size_t(rank)].get(), POLLRDHUP, 0});
      ranks.push_back(rank);
    }
    TUTTI_TRY(wait_for_events(set, 0));  // a look
    for (size_t i = 0; i < set.size(); ++i) {
      if (set[i].revents == 0) continue;
      return {TUTTI_PEER_FAILED, rank_name(ranks[i]) + " has gone while connections were made",
              ranks[i]};
    }
    return {};
  }

  const LinkSetup& setup_;
  int self_, nranks_;
  Address own_;
  Fd listener_;
  std::vector<Fd> reserved_;
  std::vector<std::string> networks_, addresses_;  // by rank; the latter packed
  Terms terms_;
  std::vector<SecureSocket> sockets_;  // by rank
};

}  // namespace

std::string network_of_this_process() {
  char boot[64] = {}, network[64] = {};
  const Fd file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  if (!file || ::read(file.get(), boot, sizeof(boot) - 1) <= 0) return {};
  if (::readlink("/proc/self/ns/net", network, sizeof(network) - 1) <= 0) return {};
  return std::string(boot) + network;
}

Destination Terms::destination(int server, const Address& at, Purpose purpose) const {
  Destination to;
  to.address = at;
  if (own.is_loopback() == at.is_loopback()) to.from = own;
  to.key = key;
  to.claim = {purpose,
              comm_id,
              self,
              server,
              nranks,
              *bindings[size_t(server)],
              integrity[size_t(server)] == Integrity::encrypted};
  return to;
}

Status Terms::examine(const Claim& claim, bool* is_peer) const {
  *is_peer = claim.nranks == nranks && bindings[size_t(claim.client)];
  if (!*is_peer) return {};
  const bool encrypted = integrity[size_t(claim.client)] == Integrity::encrypted;
  if (claim.binding == *bindings[size_t(claim.client)] && claim.agrees_on_secret == encrypted) {
    return {};
  }
  return {TUTTI_AUTH, rank_name(claim.client) + " and rank " + std::to_string(self) +
                          " have not heard the same of the addresses at which they listen"};
}

SecureSocket Terms::secure(Fd socket, int peer, const Handshake& handshake) const {
  const Integrity how = integrity[size_t(peer)];
  return how == Integrity::none ? SecureSocket(std::move(socket))
                                : SecureSocket(std::move(socket), how, handshake.session());
}

Status connect_mesh(const LinkSetup& setup, std::vector<SecureSocket>* control, Terms* terms) {
  return Mesh(setup).connect(control, terms);
}

}  // namespace tutti::tcp
