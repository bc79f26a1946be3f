#include "lib/control/bootstrap.h"

#include <fcntl.h>
#include <strings.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/clock.h"
#include "lib/base/host_name.h"
#include "lib/control/acceptor.h"
#include "lib/control/address.h"
#include "lib/control/bytes.h"
#include "lib/control/host_watch.h"
#include "lib/control/rendezvous_id.h"
#include "lib/control/rooted_exchange.h"
#include "lib/control/secret.h"

namespace tutti {

namespace {

constexpr int bootstrap_limit_s = 10;  // after which the kernel gives a host up

// Names a rendezvous without revealing its key.
uint64_t job_of(const JobKey& key) {
  return get_le<uint64_t>(keyed_hash(key, "tutti job", {}).data());
}

// The key of a communicator: rank 0's random bytes make it unique, the id's key makes it secret.
JobKey world_key(const JobKey& id_key, std::string_view nonce, int nranks) {
  uint8_t size[4];
  put_le<uint32_t>(size, uint32_t(nranks));
  return {keyed_hash(id_key, "tutti world key",
                     {{reinterpret_cast<const uint8_t*>(nonce.data()), nonce.size()}, size})};
}

// Whether it is what this host calls itself, with or without a domain.
bool is_own_name(const std::string& name) {
  const auto label = [](const std::string& text) { return text.substr(0, text.find('.')); };
  const std::string own = label(host_name());
  return own != "localhost" && strcasecmp(own.c_str(), label(name).c_str()) == 0;
}

// All ranks of this host do the same. Where nothing but loopback is found they stay with that.
void look_outward(const FixedPlace& place, Address* address) {
  Address outward;
  const Status found = place.interface.empty() ? first_outward(&outward)
                                               : resolve_interface(place.interface, &outward);
  if (!found.ok() || outward.is_link_local()) return;
  outward.set_port(address->port());
  *address = outward;
}

// Of a rendezvous whose address the user chose, for a sentence.
std::string place_of(const Address& address) {
  std::string text = "; it listens at " + address.text();
  if (address.is_loopback()) text += ", where only ranks of its own host reach it";
  return text;
}

// Rank 0's side, until all are there.
class Assembly {
 public:
  Assembly(const RendezvousId& id, Fd listener, int nranks, uint64_t heartbeat_ns)
      : nranks_(nranks),
        job_(job_of(id.key)),
        place_(id.fixed ? place_of(id.address) : ""),
        acceptor_(std::move(listener), id.key, uint8_t(Purpose::bootstrap), job_, 0,
                  size_t(nranks - 1)),
        channels_(size_t(nranks)),
        limit_s_(later_than_beats_s(heartbeat_ns, bootstrap_limit_s)),
        watch_(0, job_, heartbeat_ns) {}

  // OK: channels() has everyone. Otherwise all that came have been sent the error.
  Status assemble(uint64_t deadline_ns) {
    Status ended = wait_for_all(ends_early_ns(deadline_ns));
    acceptor_.close();
    if (ended.ok()) return ended;
    const bool own = ended.rank() < 0;
    const Status told = own ? Status{ended.code(), "rank 0: " + ended.text(), 0} : ended;
    for (FrameChannel& channel : channels_) {
      if (channel.fd() >= 0) tell(channel, job_, told);
    }
    watch_.part(channels_);
    return ended;
  }
  std::vector<FrameChannel>& channels() { return channels_; }

 private:
  Status wait_for_all(uint64_t deadline_ns) {
    std::vector<Acceptor::Guest> guests;
    std::vector<pollfd> set;
    std::vector<size_t> watched;  // the ranks of the last entries of `set`
    for (int present = 1; present < nranks_;) {
      const uint64_t now = now_ns();
      guests.clear();
      TUTTI_TRY(acceptor_.advance(now, &guests));
      for (Acceptor::Guest& guest : guests) TUTTI_TRY(admit(std::move(guest)));
      present += int(guests.size());
      if (present == nranks_) break;
      if (now >= deadline_ns) return missing();
      TUTTI_TRY(watch_.look(channels_, now));
      set.clear();
      watched.clear();
      acceptor_.watch(set);
      for (size_t rank = 1; rank < channels_.size(); ++rank) {
        if (channels_[rank].fd() < 0) continue;
        set.push_back({channels_[rank].fd(), POLLIN, 0});
        watched.push_back(rank);
      }
      TUTTI_TRY(wait_for_events(set, std::min({deadline_ns, acceptor_.due_ns(), watch_.due_ns()})));
      const size_t first = set.size() - watched.size();
      for (size_t i = 0; i < watched.size(); ++i) {
        if (set[first + i].revents != 0) TUTTI_TRY(check_gone(watched[i]));
      }
    }
    return {};
  }

  Status admit(Acceptor::Guest guest) {
    tune(guest.socket.get(), limit_s_);
    FrameChannel channel({std::move(guest.socket), Integrity::encrypted, guest.handshake.session()},
                         wire::most_exchange_bytes);
    const int rank = guest.claim().client;
    Status wrong;
    if (guest.claim().nranks != uint32_t(nranks_)) {
      wrong = {TUTTI_MISMATCH,
               rank_name(rank) + " was started as one of " + std::to_string(guest.claim().nranks) +
                   " ranks, rank 0 as one of " + std::to_string(nranks_),
               rank};
    } else if (channels_[size_t(rank)].fd() >= 0) {
      wrong = {TUTTI_MISMATCH, "two callers were started as rank " + std::to_string(rank), rank};
    }
    if (wrong.ok()) {
      channels_[size_t(rank)] = std::move(channel);
    } else {
      tell(channel, job_, wrong);
    }
    return wrong;
  }

  // A member sends nothing but beats before all are there, so anything else means that it has gone.
  Status check_gone(size_t rank) {
    wire::Header header;
    std::string_view payload;
    Status why;
    for (;;) {
      const FrameChannel::Got got = channels_[rank].read(&header, &payload, &why);
      if (got == FrameChannel::Got::nothing) return {};
      if (got != FrameChannel::Got::frame || !watch_.is_beat(header)) break;
      watch_.hear(rank);
    }
    channels_[rank].close();
    return {TUTTI_PEER_FAILED,
            rank_name(int(rank)) + " has gone before all were there: " + missing().text(),
            int(rank)};
  }

  Status missing() const {
    std::string text;
    int count = 0, first = -1;
    for (size_t rank = 1; rank < channels_.size(); ++rank) {
      if (channels_[rank].fd() >= 0) continue;
      if (first < 0) first = int(rank);
      if (++count <= 8) text += (count == 1 ? "" : ", ") + std::to_string(rank);
    }
    if (count > 8) text += " and " + std::to_string(count - 8) + " more";
    text = (count == 1 ? "rank " : "ranks ") + text + " did not come to rank 0 in time" + place_;
    if (acceptor_.refused() > 0) {
      text +=
          "; " + std::to_string(acceptor_.refused()) + " connections without the key were refused";
    }
    return {TUTTI_TIMEOUT, text, first};
  }

  int nranks_;
  uint64_t job_;
  std::string place_;
  Acceptor acceptor_;
  std::vector<FrameChannel> channels_;
  int limit_s_;
  HostWatch watch_;
};

Status call_rank_0(const RendezvousId& id, int rank, int nranks, uint64_t deadline_ns,
                   uint64_t heartbeat_ns, SecureSocket* out) {
  Destination to;
  to.address = id.address;
  to.key = id.key;
  to.claim = {Purpose::bootstrap, job_of(id.key), rank, 0, uint32_t(nranks), {}, true};
  to.patient = id.fixed;
  Caller caller(to);
  std::vector<pollfd> set;
  for (;;) {
    const uint64_t now = now_ns();
    caller.advance(now);
    if (caller.state() == Caller::State::failed) return caller.error();
    if (caller.state() == Caller::State::done) break;
    if (now >= deadline_ns) {
      const std::string why = caller.obstacle() != 0 ? std::strerror(caller.obstacle()) : "";
      return {TUTTI_TIMEOUT,
              "rank 0 was not to be reached at " + id.address.text() + " in time" +
                  (why.empty() ? "" : ": " + why),
              0};
    }
    set.clear();
    caller.watch(set);
    TUTTI_TRY(wait_for_events(set, std::min(deadline_ns, caller.due_ns())));
  }
  *out = {caller.take(), Integrity::encrypted, caller.handshake().session()};
  tune(out->get(), later_than_beats_s(heartbeat_ns, bootstrap_limit_s));
  return {};
}

}  // namespace

Status open_rendezvous(const std::string& interface, Rendezvous* out) {
  RendezvousId id;
  id.address = Address::loopback();
  if (!interface.empty()) TUTTI_TRY(resolve_interface(interface, &id.address));
  TUTTI_TRY(random_bytes(id.key));
  TUTTI_TRY(listen_on(&id.address, &out->listener));
  out->id = id.encode();
  return {};
}

Status open_rendezvous_at(const FixedPlace& place, const JobKey& key, bool listen,
                          uint64_t deadline_ns, Rendezvous* out) {
  RendezvousId id;
  id.fixed = true;
  id.key = key;
  TUTTI_TRY(resolve_host(place.host, place.port, deadline_ns, &id.address));
  if (id.address.is_wildcard()) {
    return {TUTTI_INVALID,
            "\"" + place.host + "\" is no address of one host; name the one where rank 0 runs"};
  }
  if (id.address.is_loopback() && is_own_name(place.host)) look_outward(place, &id.address);
  if (listen) {
    Address bound = id.address;
    TUTTI_TRY(listen_on(&bound, &out->listener));
  }
  out->id = id.encode();
  return {};
}

Status read_key_file(const std::string& path, JobKey* out) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!file) return system_error("cannot open the key file " + path, errno);
  struct stat found {};
  if (fstat(file.get(), &found) != 0) return system_error("cannot read " + path, errno);
  if (!S_ISREG(found.st_mode)) return {TUTTI_AUTH, "the key file " + path + " is no regular file"};
  if (found.st_uid != geteuid() && found.st_uid != 0) {
    return {TUTTI_AUTH, "the key file " + path + " belongs to another user"};
  }
  if ((found.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return {TUTTI_AUTH,
            "the key file " + path + " can be used by others than its owner; chmod 600 it"};
  }
  uint8_t bytes[33];
  if (::read(file.get(), bytes, sizeof(bytes)) != 32) {
    return {TUTTI_AUTH, "the key file " + path +
                            " must hold 32 bytes, as from "
                            "`head -c 32 /dev/urandom`"};
  }
  std::copy_n(bytes, out->size(), out->begin());
  explicit_bzero(bytes, sizeof(bytes));
  return {};
}

Status join_rendezvous(const tutti_unique_id& id, Fd listener, int rank, int nranks,
                       uint64_t deadline_ns, uint64_t heartbeat_ns,
                       std::unique_ptr<Exchange>* out) {
  RendezvousId place;
  TUTTI_TRY(RendezvousId::parse(id, &place));
  if (nranks < 1 || nranks > wire::most_ranks || rank < 0 || rank >= nranks) {
    return {TUTTI_INVALID, rank_name(rank) + " of " + std::to_string(nranks) +
                               " ranks cannot be; at most " + std::to_string(wire::most_ranks) +
                               " are served"};
  }
  std::vector<FrameChannel> channels;
  if (rank == 0 && nranks > 1) {
    if (!listener) return {TUTTI_INVALID, "rank 0 needs the listening socket of its rendezvous"};
    // It may come from a launcher that has not made it non-blocking.
    fcntl(listener.get(), F_SETFL, fcntl(listener.get(), F_GETFL) | O_NONBLOCK);
    std::vector<Fd> places;
    TUTTI_TRY(reserve_descriptors(listener.get(), size_t(nranks - 1) + Acceptor::spare_descriptors,
                                  std::to_string(nranks - 1) + " other ranks", &places));
    places.clear();
    Assembly assembly(place, std::move(listener), nranks, heartbeat_ns);
    TUTTI_TRY(assembly.assemble(deadline_ns));
    channels = std::move(assembly.channels());
  } else if (rank != 0) {
    SecureSocket socket;
    TUTTI_TRY(call_rank_0(place, rank, nranks, deadline_ns, heartbeat_ns, &socket));
    channels.emplace_back(std::move(socket), wire::most_exchange_bytes);
  }
  auto exchange = std::make_unique<RootedExchange>(rank, nranks, job_of(place.key),
                                                   std::move(channels), heartbeat_ns);
  std::string nonce(sizeof(Nonce), '\0');
  if (rank == 0) {
    TUTTI_TRY(random_bytes({reinterpret_cast<uint8_t*>(nonce.data()), nonce.size()}));
  }
  TUTTI_TRY(exchange->welcome(&nonce, deadline_ns));
  exchange->set_key(world_key(place.key, nonce, nranks));
  *out = std::move(exchange);
  return {};
}

Status join_rendezvous_at(const FixedPlace& place, const std::string& key_file, int rank,
                          int nranks, uint64_t deadline_ns, uint64_t heartbeat_ns,
                          std::unique_ptr<Exchange>* out) {
  JobKey key;
  TUTTI_TRY(read_key_file(key_file, &key));
  Rendezvous rendezvous;
  TUTTI_TRY(open_rendezvous_at(place, key, rank == 0, deadline_ns, &rendezvous));
  return join_rendezvous(rendezvous.id, std::move(rendezvous.listener), rank, nranks, deadline_ns,
                         heartbeat_ns, out);
}

}  // namespace tutti
