// Making a communicator: who is where, which transport serves which pair, and the links.
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/log.h"
#include "lib/comm/comm.h"
#include "lib/comm/measure.h"
#include "lib/comm/mixed_link.h"
#include "lib/control/agree.h"
#include "lib/control/host.h"
#include "transports/registry.h"

namespace tutti {

namespace {

// What ranks exchange first, as raw bytes, followed by the list of transports.
struct Introduction {
  HostRecord host;
  uint64_t random = 0;
  uint64_t checks_results = 0;
  uint64_t has_device = 0;
  uint64_t adopts = 0;
  uint64_t integrity = 0;
  uint64_t measures = 0;
  uint64_t tuning = 0;  // digest_of() the values
  char tuning_id[24] = "";
};

std::string join(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ",") + word;
  return all;
}

// `ready`: whether this rank can take part.
Status introduce(Exchange& exchange, const CommSettings& settings, Status ready,
                 uint64_t deadline_ns, std::vector<HostRecord>* hosts, uint64_t* comm_id) {
  Introduction mine;
  mine.checks_results = settings.check_results ? 1 : 0;
  mine.has_device = settings.device != CommSettings::no_device ? 1 : 0;
  mine.adopts = settings.adopts ? 1 : 0;
  mine.integrity = uint64_t(settings.integrity);
  mine.measures = settings.tuning.measures ? 1 : 0;
  mine.tuning = digest_of(settings.tuning.values());
  settings.tuning.id().copy(mine.tuning_id, sizeof(mine.tuning_id) - 1);
  if (ready.ok()) ready = HostRecord::own(&mine.host);
  mine.host.transports = offered_transports(settings.transports, settings.transports_named,
                                            settings.integrity == Integrity::none);
  if (ready.ok() &&
      getrandom(&mine.random, sizeof(mine.random), 0) != ssize_t(sizeof(mine.random))) {
    ready = system_error("cannot read random bytes", errno);
  }
  std::string text(reinterpret_cast<const char*>(&mine), sizeof(mine));
  text += join(settings.transports);
  std::vector<std::string> all;
  TUTTI_TRY(agree_on(exchange, ready, text, deadline_ns, &all));
  for (int rank = 0; rank < exchange.nranks(); ++rank) {
    if (all[rank].size() < sizeof(Introduction)) {
      return {TUTTI_CORRUPT, rank_name(rank) + " introduced itself wrongly", rank};
    }
    Introduction other;
    std::memcpy(&other, all[rank].data(), sizeof(other));
    hosts->push_back(other.host);
    if (rank == 0) *comm_id = other.random;
    if (other.checks_results != mine.checks_results) {
      const bool here = settings.check_results;
      return {TUTTI_MISMATCH,
              rank_name(exchange.rank()) + (here ? " checks" : " does not check") +
                  " results, rank " + std::to_string(rank) + (here ? " does not" : " does") +
                  ": TUTTI_CHECK must be the same on all ranks",
              rank};
    }
    if (other.has_device != mine.has_device) {
      const bool here = mine.has_device != 0;
      return {TUTTI_MISMATCH,
              rank_name(exchange.rank()) + (here ? " names a" : " names no") + " device, rank " +
                  std::to_string(rank) + (here ? " does not" : " does") +
                  ": all ranks of a communicator must, or none",
              rank};
    }
    if (other.adopts != mine.adopts) {
      const bool here = settings.adopts;
      return {TUTTI_MISMATCH,
              rank_name(exchange.rank()) + (here ? " adopts" : " does not adopt") +
                  " vectors that come back, rank " + std::to_string(rank) +
                  (here ? " does not" : " does") + ": TUTTI_ADOPT must be the same on all ranks",
              rank};
    }
    if (other.integrity != mine.integrity) {
      if (other.integrity > uint64_t(Integrity::encrypted))
        return {TUTTI_CORRUPT, rank_name(rank) + " introduced itself wrongly", rank};
      return {TUTTI_MISMATCH,
              rank_name(exchange.rank()) + " has TUTTI_INTEGRITY=" + name_of(settings.integrity) +
                  ", rank " + std::to_string(rank) + " has " + name_of(Integrity(other.integrity)) +
                  ": it must be the same on all ranks",
              rank};
    }
    if (other.measures != mine.measures) {
      const bool here = settings.tuning.measures;
      return {TUTTI_MISMATCH,
              rank_name(exchange.rank()) + (here ? " measures" : " does not measure") +
                  " its medium, rank " + std::to_string(rank) + (here ? " does not" : " does") +
                  ": TUTTI_TUNING must be measure on all ranks of a job, or on none",
              rank};
    }
    if (other.tuning != mine.tuning) {
      other.tuning_id[sizeof(other.tuning_id) - 1] = '\0';
      const bool same = std::strcmp(other.tuning_id, mine.tuning_id) == 0;
      return {TUTTI_MISMATCH,
              rank_name(exchange.rank()) + " has the tuning table " + mine.tuning_id + ", rank " +
                  std::to_string(rank) + " has " +
                  (same ? "one of another version of tutti" : other.tuning_id) +
                  ": all ranks of a job must have one (TUTTI_TUNING names its file)",
              rank};
    }
    if (all[rank].substr(sizeof(other)) != text.substr(sizeof(mine))) {
      return {TUTTI_MISMATCH,
              rank_name(exchange.rank()) + " allows the transports " + text.substr(sizeof(mine)) +
                  ", rank " + std::to_string(rank) + " allows " + all[rank].substr(sizeof(other)),
              rank};
    }
  }
  return {};
}

}  // namespace

Status Communicator::create(std::unique_ptr<Exchange> exchange, const CommSettings& settings,
                            std::unique_ptr<Communicator>* out) {
  const uint64_t deadline_ns = deadline_after_ms(settings.setup_ms);
  std::unique_ptr<Communicator> made;
  TUTTI_TRY(create_plain(*exchange, settings, &made));
  Connection& connection = made->connection_;
  if (settings.tuning.measures && connection.nranks > 1) {
    TUTTI_TRY(measure(*exchange, connection, deadline_ns, &connection.tuning));
    connection.capabilities.tuning = connection.tuning.values();
  }
  if (settings.device != CommSettings::no_device)
    TUTTI_TRY(made->open_device(*exchange, deadline_after_ms(settings.setup_ms)));
  if (logging()) log(TUTTI_LOG_INFO, made->describe());
  *out = std::move(made);
  return {};
}

Status Communicator::create_plain(Exchange& exchange, const CommSettings& settings,
                                  std::unique_ptr<Communicator>* out) {
  std::unique_ptr<Communicator> made(new Communicator);
  made->connection_.rank = exchange.rank();
  made->connection_.nranks = exchange.nranks();
  made->connection_.settings = settings;
  made->connection_.tuning = settings.tuning;
  made->connection_.settings.progress_thread = false;  // until it runs
  Status ready = settings.progress_thread ? in_flight::use_progress_thread() : Status();
  made->connection_.settings.progress_thread = settings.progress_thread && ready.ok();
  made->connection_.key = KeptKey(exchange.key());
  made->connection_.capabilities.nranks = uint32_t(made->connection_.nranks);
  made->connection_.capabilities.tuning = settings.tuning.values();
  made->connection_.capabilities.copy_only = settings.memory != LinkMemory::host;
  made->messages_.open();
  // Communicators derived from this one use it as their exchange, and stay on its network.
  if (made->connection_.settings.interface.empty())
    made->connection_.settings.interface = exchange.local_address();
  const bool alone = made->connection_.nranks == 1;
  if (ready.ok() && !alone && !settings.record_folder.empty())
    ready = record::check_folder(settings.record_folder);
  TUTTI_TRY(alone ? ready : made->connect(exchange, std::move(ready)));
  *out = std::move(made);
  return {};
}

namespace {

std::string describe_link(const Link& link, int peer) {
  const Integrity integrity = link.integrity_to(peer);
  std::string name = link.name_to(peer);
  if (integrity == Integrity::encrypted) name += ", encrypted";
  if (integrity == Integrity::checksum) name += ", with checksums";
  return name;
}

}  // namespace

std::string Communicator::describe() const {
  const TuningTable& table = connection_.tuning;
  return rank_name(rank()) + " of " + std::to_string(nranks()) + ": a communicator over " +
         describe_links() + " with the tuning table " + table.name() +
         (table.path.empty() ? "" : " of " + table.path);
}

// "shm (to 1-3) + tcp, encrypted (to 4-7)".
std::string Communicator::describe_links() const {
  if (connection_.link == nullptr) return "none";
  std::vector<std::pair<std::string, std::string>> links;  // a transport, and its ranks
  for (int first = 0; first < nranks();) {
    int end = first + 1;
    if (first != rank()) {
      const std::string name = describe_link(*connection_.link, first);
      while (end < nranks() && end != rank() && describe_link(*connection_.link, end) == name)
        ++end;
      auto found = std::find_if(links.begin(), links.end(),
                                [&](const auto& one) { return one.first == name; });
      if (found == links.end()) found = links.insert(found, {name, ""});
      found->second += (found->second.empty() ? "" : ", ") + std::to_string(first);
      if (end > first + 1) found->second += "-" + std::to_string(end - 1);
    }
    first = end;
  }
  std::string text;
  for (const auto& [name, ranks] : links)
    text += (text.empty() ? "" : " + ") + name + " (to " + ranks + ")";
  return text;
}

Status Communicator::connect(Exchange& exchange, Status ready) {
  const uint64_t deadline_ns = deadline_after_ms(connection_.settings.setup_ms);
  std::vector<HostRecord> hosts;
  uint64_t comm_id = 0;
  TUTTI_TRY(
      introduce(exchange, connection_.settings, std::move(ready), deadline_ns, &hosts, &comm_id));

  for (const HostRecord& one : hosts)
    connection_.processes.push_back(hosts[size_t(connection_.rank)].sees(one) ? one.pid : 0);
  // The first transport in the list that can serve a pair serves it. Every rank decides this for
  // all pairs, so all open the same transports in the same order.
  const size_t n = size_t(connection_.nranks);
  std::vector<std::vector<uint8_t>> peers(connection_.settings.transports.size(),
                                          std::vector<uint8_t>(n, 0));
  std::vector<uint8_t> used(connection_.settings.transports.size(), 0);
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = a + 1; b < n; ++b) {
      const int index = transport_for(connection_.settings.transports, hosts[a], hosts[b]);
      if (index < 0) {
        return {TUTTI_UNSUPPORTED,
                "none of the allowed transports (" + join(connection_.settings.transports) +
                    ") can join rank " + std::to_string(a) + " and rank " + std::to_string(b),
                int(b)};
      }
      used[size_t(index)] = 1;
      if (a == size_t(connection_.rank)) peers[size_t(index)][b] = 1;
      if (b == size_t(connection_.rank)) peers[size_t(index)][a] = 1;
    }
  }
  std::vector<std::string> among;
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i]) {
      among.push_back(connection_.settings.transports[i]);
    } else {
      peers[i].clear();
    }
  }
  const bool across = std::any_of(hosts.begin(), hosts.end(), [&](const HostRecord& one) {
    return !std::equal(std::begin(one.boot_id), std::end(one.boot_id), hosts[0].boot_id);
  });
  connection_.medium = join(among) + (across ? " across hosts" : "");
  connection_.capabilities.cache_group = cache_group(hosts);
  connection_.capabilities.across_hosts = across;
  double most = 1;
  for (size_t rank = 0; rank < n; ++rank) most = std::max(most, ranks_per_core(hosts, rank));
  connection_.capabilities.ranks_per_core = most;
  TUTTI_TRY(open_links(exchange, peers, comm_id, deadline_ns));

  set_patience(ranks_per_core(hosts, size_t(connection_.rank)));
  const uint64_t place[] = {comm_id, uint64_t(connection_.rank)};
  runner_.open(hash_of(place));
  deadlock::add(this);
  process::add(this);
  if (connection_.settings.record_folder.empty()) return {};
  const record::Made made{comm_id, connection_.rank, connection_.nranks, transport()};
  const Status opened = record::open(connection_.settings.record_folder, made, &connection_.record);
  if (!opened.ok() && logging())
    log(TUTTI_LOG_WARNING, rank_name(rank()) + ": no flight record: " + opened.text());
  return {};
}

// `ranks_per_core`: on this host. Where there are more ranks than cores the rank that is waited for
// needs this core: 4 ranks on 2 cores took 3.0 us at 4 B without spinning, 7.7 us with 20 looks.
// Who waits for one rank alone spins a little, as that rank may be running on another core; not
// below two ranks a core: there some ranks have a core to themselves, and their yields are looks.
void Communicator::set_patience(double ranks_per_core) {
  const bool crowded = ranks_per_core > 1;
  const uint32_t most = connection_.link->most_spins();
  const TuningTable& table = connection_.tuning;
  const auto patience = [&](Field spins, Field yields) {
    // What somebody has set stays; waits correct what was measured.
    const auto told = [&](Field field) { return uint32_t(get(table.values(), field)); };
    const auto usual = [&](Field field) {
      const bool stays = table.origin(field) != Origin::measured;
      return stays ? told(field) : uint32_t(get(default_tuning, field));
    };
    // Who spins for milliseconds loses its core before that has been in vain, and learns nothing.
    const uint64_t most_usable = uint64_t{1'000} * usual(spins);
    return Patience{.spins = uint32_t(std::min<uint64_t>({told(spins), most, most_usable})),
                    .yields = told(yields),
                    .beside = connection_.settings.beside,
                    .usual_spins = std::min(usual(spins), most),
                    .usual_yields = usual(yields)};
  };
  const Field yields = crowded ? Field::crowded_yields : Field::yields;
  connection_.patience = patience(crowded ? Field::crowded_spins : Field::spins, yields);
  connection_.lone_patience =
      ranks_per_core < 2 ? connection_.patience : patience(Field::crowded_lone_spins, yields);
}

namespace {

shared::Copying copying_of(Use single_copy) {
  if (single_copy == Use::always) return shared::Copying::always;
  return single_copy == Use::never ? shared::Copying::never : shared::Copying::where_asked;
}

}  // namespace

Status Communicator::open_links(Exchange& exchange, std::vector<std::vector<uint8_t>>& peers,
                                uint64_t comm_id, uint64_t deadline_ns) {
  std::vector<std::unique_ptr<Link>> links;
  std::vector<int> link_of(size_t(connection_.nranks), -1);
  size_t transports = 0;
  for (size_t i = 0; i < peers.size(); ++i) {
    if (peers[i].empty()) continue;
    ++transports;
    LinkSetup setup{&exchange,
                    comm_id,
                    peers[i],
                    connection_.settings.interface,
                    deadline_ns,
                    connection_.settings.memory,
                    &connection_.capabilities.tuning,
                    ns_of_ms(connection_.settings.heartbeat_ms),
                    connection_.settings.integrity};
    std::unique_ptr<Link> link;
    TUTTI_TRY(open_transport(connection_.settings.transports[i], setup, &link));
    if (link == nullptr) continue;
    for (size_t rank = 0; rank < peers[i].size(); ++rank) {
      if (peers[i][rank]) link_of[rank] = int(links.size());
    }
    links.push_back(std::move(link));
  }
  if (links.size() == 1) {
    connection_.link = std::move(links.front());
  } else {
    connection_.link = std::make_unique<MixedLink>(std::move(links), std::move(link_of));
  }
  connection_.slots = connection_.link->slots();
  // Fused paths only if all ranks share memory; every rank finds the same.
  connection_.capabilities.all_share_memory =
      transports == 1 && connection_.slots != nullptr && connection_.slots->cells() != nullptr;
  connection_.capabilities.checks_memory =
      transports == 1 && connection_.settings.integrity == Integrity::checksum &&
      find_transport(connection_.link->name())->reach != Transport::Reach::network;
  if (connection_.capabilities.all_share_memory) {
    using Reach = shared::Regions::Reach;
    regions_ = shared::Regions(connection_.slots->one_process() ? Reach::process : Reach::host);
    if (connection_.settings.adopts && !connection_.slots->one_process() &&
        connection_.settings.device == CommSettings::no_device)
      adoption_ = std::make_unique<Adoption>(*this, regions_);
    auto shared = std::make_unique<shared::Protocols>(
        *connection_.slots, regions_, connection_.settings.non_temporal,
        copying_of(connection_.settings.single_copy), group_size(connection_.capabilities),
        connection_.capabilities.tuning);
    connection_.capabilities.one_hop_element_limit_bytes = shared::OneHopShape::most_element_bytes(
        uint32_t(connection_.nranks), connection_.capabilities.tuning);
    connection_.capabilities.staged_limit_bytes = shared->staged_bytes();
    connection_.capabilities.one_shot_limit_bytes = shared->one_shot_bytes();
    connection_.capabilities.two_level_limit_bytes = shared->two_level_bytes();
    runner_.protocols().share(std::move(shared));
    if (connection_.settings.measures_calls) (void)connection_.slots->cells()->touch();
  }
  return {};
}

}  // namespace tutti
