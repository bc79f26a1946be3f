// `tutti-bench peers`: tutti beside the other libraries of this machine.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

#include "bench/busy.h"
#include "bench/commands.h"
#include "bench/error.h"
#include "bench/options.h"
#include "bench/oracle.h"
#include "bench/peers/peers_report.h"
#include "bench/sizes.h"
#include "bench/terminal.h"
#include "bench/transports.h"

namespace tutti::bench {
namespace {

constexpr int busy_sample_ms = 500;

struct PeersOptions {
  std::string collective = "allreduce";
  int nranks = 2;
  std::string sizes_text = "4:64M";
  std::string algorithm = "auto";
  std::string transport = default_transport();
  std::string data_text = "live";
  Data data = Data::live;
  std::string json;
  double seconds = 3;
  double timeout = 60;
  bool forced = false;
  std::vector<size_t> sizes;
};

// Removed with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string path = (std::filesystem::temp_directory_path() / "tutti-bench-XXXXXX").string();
    if (!mkdtemp(path.data())) throw Failure("cannot make a temporary folder");
    path_ = path;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Sizes rounded to whole blocks, without duplicates.
std::vector<size_t> whole_sizes(const Collective& collective, int nranks,
                                const std::vector<size_t>& wanted) {
  std::vector<size_t> sizes;
  for (size_t bytes : wanted) {
    const size_t count = collective.count_within(nranks, bytes / sizeof(float));
    const size_t whole = collective.longest(nranks, count) * sizeof(float);
    if (sizes.empty() || sizes.back() != whole) sizes.push_back(whole);
  }
  return sizes;
}

void resolve_peers(PeersOptions& o) {
  const Collective& collective = find_collective(o.collective);
  if (!collective.sized)
    throw BadInput(fmt::format("--collective {}: it moves nothing that could be compared by size",
                               o.collective));
  if (!(o.seconds > 0)) throw BadInput("--seconds: must be more than 0");
  if (!(o.timeout > 0)) throw BadInput("--timeout: must be more than 0");
  o.data = data_from_name(o.data_text);
  Options names(collective);
  names.sizes_text = o.sizes_text;
  names.algorithms_text = o.algorithm;
  names.transports_text = o.transport;
  resolve(names);
  check_ranks(names, o.nranks);
  if (names.algorithms.size() != 1) throw BadInput("--algorithm: one name, or auto");
  o.sizes = whole_sizes(collective, o.nranks, names.sizes);
  if (!o.json.empty() && o.json != "-" && !std::ofstream(o.json, std::ios::app))
    throw BadInput(fmt::format("cannot write to '{}'", o.json));
}

// Starts all teams at once; a team that does not connect in time has failed.
void start(std::vector<std::unique_ptr<Team>>& teams, const Meeting& meeting,
           std::chrono::milliseconds patience) {
  show_progress(0, "starting everybody");
  for (auto& team : teams) team->start();
  const auto deadline = std::chrono::steady_clock::now() + patience;
  auto settled = [&] {
    bool all = true;
    for (auto& team : teams) all &= team->settled();
    return all;
  };
  while (!settled() && std::chrono::steady_clock::now() < deadline) {
    PeerHello hello;
    const int fd = meeting.accept(&hello);
    if (fd < 0) continue;
    if (hello.team >= 0 && size_t(hello.team) < teams.size())
      teams[size_t(hello.team)]->join(fd, hello);
    else
      close(fd);
  }
  for (auto& team : teams)
    if (!team->settled()) team->fail("not all of its ranks started in time");
}

std::vector<PeerInfo> describe(const std::vector<std::unique_ptr<Team>>& teams) {
  std::vector<PeerInfo> peers;
  for (const auto& team : teams) {
    const Contender& c = team->contender();
    peers.push_back(
        {c.name, team->version(), c.settings, team->binding(), c.role, team->failure()});
  }
  return peers;
}

int run(PeersOptions& o) {
  resolve_peers(o);
  const TemporaryFolder folder;
  const Meeting meeting;
  const Collective& collective = find_collective(o.collective);
  std::vector<std::string> notes;
  double busy = busy_share(busy_sample_ms);
  show_progress(0, "building the peers' programs");
  const auto contenders = find_contenders(
      {o.collective, o.nranks, o.forced, o.algorithm, o.transport, meeting.name(), folder.path()},
      notes);
  const std::chrono::milliseconds patience(int64_t(o.timeout * 1000));
  std::vector<std::unique_ptr<Team>> teams;
  teams.reserve(contenders.size());
  for (const Contender& c : contenders)
    teams.push_back(std::make_unique<Team>(c, o.nranks, patience));
  start(teams, meeting, patience);

  std::ofstream file;
  if (!o.json.empty() && o.json != "-") file.open(o.json);
  std::ostream* json = o.json.empty() ? nullptr : o.json == "-" ? &std::cout : &file;
  std::vector<PeerRow> rows;
  for (size_t i = 0; i < o.sizes.size(); ++i) {
    rows.push_back(compare_at(teams, o.sizes[i], o.data, o.seconds, [&](double fraction) {
      show_progress(std::min(0.999, (double(i) + fraction) / double(o.sizes.size())),
                    format_bytes(o.sizes[i]));
    }));
    if (json)
      *json << peers_json(collective, describe(teams), rows.back(), o.nranks, o.data) << std::flush;
  }
  show_progress(1, "");
  const auto peers = describe(teams);
  teams.clear();
  busy = std::max(busy, busy_share(busy_sample_ms));
  if (const std::string caution = about_busy(busy); !caution.empty()) notes.push_back(caution);
  if (o.json != "-")
    std::cout << render_peers(collective, peers, rows, o.nranks, o.data, notes, screen_width())
              << std::flush;

  std::string bad;
  for (const PeerInfo& peer : peers)
    if (!peer.failure.empty()) bad += fmt::format("{} failed: {}. ", peer.name, peer.failure);
  for (const PeerRow& row : rows)
    for (size_t t = 0; t < peers.size(); ++t)
      if (row.cells[t].wrong)
        bad += fmt::format("{}: {} wrong elements at {}. ", peers[t].name, row.cells[t].wrong,
                           format_bytes(row.bytes));
  if (!bad.empty()) throw Failure(bad);
  return 0;
}

}  // namespace

Command add_peers(CLI::App& app) {
  auto o = std::make_shared<PeersOptions>();
  CLI::App* command = app.add_subcommand(
      "peers",
      "compare with every MPI that is found (Open MPI, MPICH, Intel MPI), oneCCL and Gloo");
  command
      ->add_option("collective,--collective", o->collective,
                   "one of tutti-bench --help, but not barrier; Gloo takes part in allreduce only")
      ->capture_default_str();
  command->add_option("-n,--ranks", o->nranks, "ranks of each library")
      ->check(CLI::Range(1, int(Oracle::most_ranks)))
      ->capture_default_str();
  command->add_option("--sizes", o->sizes_text, "bytes of the vector, or of the longer buffer")
      ->capture_default_str();
  command->add_option("--algorithm", o->algorithm, "tutti's algorithm, or auto")
      ->capture_default_str();
  command->add_option("--transport", o->transport, "tutti's transport")->capture_default_str();
  command
      ->add_option("--data", o->data_text,
                   "live: each rank writes its input and reads its result between calls, which is "
                   "not timed; still: nobody does")
      ->capture_default_str();
  command->add_option("--seconds", o->seconds, "time for all batches of one size")
      ->capture_default_str();
  command
      ->add_option("--timeout", o->timeout,
                   "seconds after which ranks that do not answer are killed")
      ->capture_default_str();
  command->add_flag("--forced", o->forced, "also the peers' strongest components, forced");
  command->add_option("--json", o->json, "write one object a line to a file, or - for stdout")
      ->type_name("FILE");
  return [o](const std::vector<std::string>&) { return run(*o); };
}

}  // namespace tutti::bench
