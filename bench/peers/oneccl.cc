// A rank of oneCCL, on vectors of the host, started by no launcher. Arguments: the controller's
// socket, the team's number, the collective, rank, number of ranks, an empty folder for the
// rendezvous.
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <oneapi/ccl.hpp>

#include "bench/peers/server.h"

namespace {

struct Arguments {
  const float* in;
  float* out;
  size_t count;
  const ccl::communicator& ranks;
};

using CclCall = ccl::event (*)(const Arguments& a);

struct Entry {
  const char* name;
  CclCall call;
};

constexpr auto sum = ccl::reduction::sum;

const Entry entries[] = {
    {"allreduce",
     [](const Arguments& a) { return ccl::allreduce(a.in, a.out, a.count, sum, a.ranks); }},
    {"reduce",
     [](const Arguments& a) { return ccl::reduce(a.in, a.out, a.count, sum, 0, a.ranks); }},
    {"broadcast", [](const Arguments& a) { return ccl::broadcast(a.out, a.count, 0, a.ranks); }},
    {"allgather", [](const Arguments& a) { return ccl::allgather(a.in, a.out, a.count, a.ranks); }},
    {"reduce_scatter",
     [](const Arguments& a) { return ccl::reduce_scatter(a.in, a.out, a.count, sum, a.ranks); }},
    {"alltoall", [](const Arguments& a) { return ccl::alltoall(a.in, a.out, a.count, a.ranks); }},
};

// Rank 0's key-value store; the others read where it is from a file, which appears whole.
ccl::shared_ptr_class<ccl::kvs> meet(int rank, const std::string& folder) {
  const std::string path = folder + "/address";
  ccl::kvs::address_type address;
  if (rank == 0) {
    auto store = ccl::create_main_kvs();
    address = store->get_address();
    std::ofstream(path + ".new", std::ios::binary).write(address.data(), address.size());
    if (std::rename((path + ".new").c_str(), path.c_str()) != 0)
      tutti::bench::give_up("cannot write the address of the key-value store");
    return store;
  }
  std::ifstream file;
  for (file.open(path, std::ios::binary); !file; file.open(path, std::ios::binary)) usleep(1000);
  file.read(address.data(), address.size());
  return ccl::create_kvs(address);
}

class Ccl : public tutti::bench::Implementation {
 public:
  Ccl(const std::string& collective, int rank, int nranks, const std::string& folder)
      : ranks_(ccl::create_communicator(nranks, rank, meet(rank, folder))) {
    for (const Entry& entry : entries)
      if (collective == entry.name) call_ = entry.call;
    if (!call_) tutti::bench::give_up("oneCCL has no such collective here");
  }
  std::string version() const override {
    const ccl::library_version version = ccl::get_library_version();
    return "oneCCL " + std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
           std::to_string(version.update);
  }
  int rank() const override { return ranks_.rank(); }
  int nranks() const override { return ranks_.size(); }
  void call(const float* in, float* out, size_t count) override {
    call_({in, out, count, ranks_}).wait();
  }

 private:
  ccl::communicator ranks_;
  CclCall call_ = nullptr;
};

// Workers that spin would take the processor from everybody else.
void require_rest() {
  usleep(100'000);
  const clock_t before = clock();
  usleep(200'000);
  if (clock() - before > CLOCKS_PER_SEC / 20)
    tutti::bench::give_up(
        "oneCCL's workers use the processor while nobody calls it (CCL_WORKER_WAIT is not 1, or is "
        "not known to this release), so that nothing can be measured beside it");
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tutti::bench;
  if (argc != 7) give_up("usage: SOCKET TEAM COLLECTIVE RANK RANKS FOLDER");
  setenv("CCL_PROCESS_LAUNCHER", "none", 1);
  setenv("CCL_WORKER_WAIT", "1", 0);
  setenv("CCL_LOCAL_RANK", argv[4], 1);
  setenv("CCL_LOCAL_SIZE", argv[5], 1);
  ccl::init();
  Ccl library(argv[3], std::atoi(argv[4]), std::atoi(argv[5]), argv[6]);
  if (library.rank() == 0) require_rest();
  PeerServer(library, find_collective(argv[3]), argv[1], std::atoi(argv[2])).serve();
}
