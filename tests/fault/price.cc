// What watching costs: calls of a communicator with flight record and heartbeat beside the same
// calls of one without, block by block in the same processes; and the guard against forked
// children, by itself.
//
//   price [--pairs N] [--over LIST] [--bytes LIST] [--most-ns NS] [--most-percent P]
//
// --over: of shm, tcp and hosts, which is tcp between two hosts. Of each pair of communicators the
// median difference counts, of all pairs the median, as pages that lie otherwise cost more than
// what is measured. Hosts need root, for network namespaces.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/process.h"
#include "tests/fault/trials.h"
#include "tests/support/hosts.h"

namespace {

using tutti::now_ns;
using tutti::testing::Hosts;
using tutti::testing::refuse_option;
using tutti::testing::Report;
using tutti::testing::report_of;

constexpr int blocks = 100;
constexpr uint64_t block_ns = 2'000'000;

struct Where {
  const char *name, *text, *transport, *interface;
};
constexpr Where everywhere[] = {{"shm", "shm, 2 ranks", "shm", nullptr},
                                {"tcp", "tcp, 2 ranks of one host", "tcp", nullptr},
                                {"hosts", "tcp, 2 hosts", "tcp", "tt0"}};
constexpr int nranks = 2;

struct Options {
  int pairs = 15;
  std::vector<Where> over{std::begin(everywhere), std::end(everywhere)};
  std::vector<size_t> bytes;  // none: those of the transport
  double most_ns = std::numeric_limits<double>::infinity();
  double most_percent = std::numeric_limits<double>::infinity();
};

struct Quartiles {
  double low, median, high;
};

Quartiles quartiles_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double q) { return values[size_t(q * double(values.size() - 1))]; };
  return {at(0.25), at(0.5), at(0.75)};
}

void must(tutti_status status) {
  if (status == TUTTI_OK) return;
  fprintf(stderr, "price: %s\n", tutti_last_error());
  exit(1);
}

// Of the ranks of `all`, watched or not.
tutti_comm create(tutti_comm all, const char* transport, const char* interface, bool watched) {
  if (watched) {
    unsetenv("TUTTI_RECORD_DIR");
    unsetenv("TUTTI_HEARTBEAT_MS");
  } else {
    setenv("TUTTI_RECORD_DIR", "none", 1);
    setenv("TUTTI_HEARTBEAT_MS", "86400000", 1);  // once a day
  }
  int rank = 0, nranks = 0;
  must(tutti_comm_rank(all, &rank));
  must(tutti_comm_size(all, &nranks));
  tutti_unique_id id{};
  if (rank == 0) must(tutti_unique_id_create(interface, &id));
  must(tutti_broadcast(&id, sizeof(id), TUTTI_UINT8, 0, all));
  tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
  config.transports = transport;
  tutti_comm comm = nullptr;
  must(tutti_comm_create_from_id(&id, rank, nranks, &config, &comm));
  return comm;
}

double time_of(tutti_comm comm, uint64_t calls, const std::vector<float>& in,
               std::vector<float>* out) {
  const uint64_t start = now_ns();
  for (uint64_t i = 0; i < calls; ++i)
    must(tutti_allreduce(in.data(), out->data(), in.size(), TUTTI_FLOAT32, TUTTI_SUM, comm));
  return double(now_ns() - start) / double(calls);
}

// Nanoseconds a call.
struct Cell {
  std::vector<double> plain, more;
};

void measure(tutti_comm all, const char* transport, const char* interface, size_t bytes,
             bool watched_first, Cell* cell) {
  tutti_comm made[2] = {};  // by whether it is watched
  for (const bool one : {watched_first, !watched_first})
    made[int(one)] = create(all, transport, interface, one);
  tutti_comm plain = made[0], watched = made[1];
  const std::vector<float> in(bytes / sizeof(float), 1);
  std::vector<float> out(in.size());
  // Alike on all ranks: what rank 0 needs, once the calls have settled.
  time_of(plain, 1000, in, &out);
  time_of(watched, 1000, in, &out);
  uint64_t calls = std::max<uint64_t>(5, uint64_t(double(block_ns) / time_of(plain, 20, in, &out)));
  must(tutti_broadcast(&calls, 1, TUTTI_UINT64, 0, all));
  std::vector<double> plain_ns, more_ns;
  for (int block = 0; block < blocks; ++block) {
    const bool first = block % 2 == 0;
    const double one = time_of(first ? plain : watched, calls, in, &out);
    const double other = time_of(first ? watched : plain, calls, in, &out);
    plain_ns.push_back(first ? one : other);
    more_ns.push_back(first ? other - one : one - other);
  }
  cell->plain.push_back(quartiles_of(plain_ns).median);
  cell->more.push_back(quartiles_of(more_ns).median);
  tutti_comm_free(watched);
  tutti_comm_free(plain);
}

// What rank 0 finds too much.
int measure_all(const Where& where, const Options& options, int rank, tutti_comm all) {
  const bool on_memory = std::string(where.transport) == "shm";
  std::vector<size_t> all_bytes = options.bytes;
  if (all_bytes.empty()) all_bytes = {8, 1024, on_memory ? size_t{16384} : size_t{65536}};
  int failed = 0;
  for (const size_t bytes : all_bytes) {
    Cell cell;
    for (int pair = 0; pair < options.pairs; ++pair)
      measure(all, where.transport, where.interface, bytes, pair % 2 != 0, &cell);
    if (rank != 0) continue;
    const double plain = quartiles_of(cell.plain).median;
    const Quartiles more = quartiles_of(cell.more);
    const double percent = 100 * more.median / plain;
    const bool too_much =
        on_memory ? more.median > options.most_ns : percent > options.most_percent;
    failed += too_much ? 1 : 0;
    printf("%-26s %7zu B  %10.1f  %+8.1f  (%+.1f ... %+.1f)  %+6.2f %%%s\n", where.text, bytes,
           plain, more.median, more.low, more.high, percent, too_much ? "  TOO MUCH" : "");
  }
  return failed;
}

int run(const Where& where, const Options& options) {
  const auto body = [&](int rank, tutti_comm all) {
    Report report = report_of(TUTTI_OK, all);
    report.rank = measure_all(where, options, rank, all);
    fflush(stdout);
    return report;
  };
  Report report;
  report.rank = 1;
  if (where.interface != nullptr) {
    if (const std::string obstacle = Hosts::obstacle(); !obstacle.empty()) {
      printf("%s: %s\n", where.text, obstacle.c_str());
      return 0;
    }
    Hosts hosts(nranks, where.transport, body);
    for (int rank = nranks - 1; rank >= 0; --rank) hosts.finish(rank, &report);
  } else {
    const auto children = tutti::testing::start(nranks, where.transport, body);
    for (int rank = nranks - 1; rank >= 0; --rank)
      tutti::testing::finish(children[size_t(rank)], &report);
  }
  return report.status == TUTTI_OK ? report.rank : 1;
}

double guard_ns() {
  constexpr int looks = 10'000'000;
  const uint32_t number = tutti::process::number_of_this();
  std::vector<double> each;
  for (int round = 0; round < 21; ++round) {
    bool same = true;
    const uint64_t start = now_ns();
    for (int i = 0; i < looks; ++i) {
      same = tutti::process::is_this(number) && same;
      asm volatile("" : "+r"(same)::"memory");
    }
    each.push_back(double(now_ns() - start) / looks);
    if (!same) abort();
  }
  return quartiles_of(each).median;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  tutti::testing::TrialOptions unused{};
  tutti::testing::read_options(
      "price", argc, argv, 2, unused, [&](const std::string& option, const std::string& value) {
        if (option == "--pairs") {
          options.pairs = std::max(1, std::stoi(value));
        } else if (option == "--over") {
          options.over = tutti::testing::named_in(value, everywhere, "price", "place");
        } else if (option == "--bytes") {
          for (const std::string& one : tutti::testing::split(value))
            options.bytes.push_back(std::stoul(one));
        } else if (option == "--most-ns") {
          options.most_ns = std::stod(value);
        } else if (option == "--most-percent") {
          options.most_percent = std::stod(value);
        } else {
          refuse_option("price", "there is no option " + option);
        }
        return true;
      });
  const double guard = guard_ns();
  options.most_ns -= guard;
  printf("guard against forked children: %.2f ns\n\n", guard);
  printf("allreduce, %d pairs of communicators                more ns a call,\n", options.pairs);
  printf("%-26s %9s  %10s  %8s  %s\n", "", "", "ns a call", "watched", "(quartiles of the pairs)");
  fflush(stdout);
  int failed = 0;
  for (const Where& where : options.over) failed += run(where, options);
  return failed == 0 ? 0 : 1;
}
