// A rank of Open MPI or MPICH. Arguments: the controller's socket, the team's number, the
// collective.
#include <mpi.h>

#include "bench/peers/server.h"

namespace {

struct Arguments {
  const float* in;
  float* out;
  int count;
  int rank, nranks;
};

using MpiCall = int (*)(const Arguments& a);

struct Entry {
  const char* name;
  MpiCall call;
};

const Entry entries[] = {
    {"allreduce",
     [](const Arguments& a) {
       return MPI_Allreduce(a.in, a.out, a.count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
     }},
    {"reduce",
     [](const Arguments& a) {
       return MPI_Reduce(a.in, a.out, a.count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
     }},
    {"broadcast",
     [](const Arguments& a) { return MPI_Bcast(a.out, a.count, MPI_FLOAT, 0, MPI_COMM_WORLD); }},
    {"allgather",
     [](const Arguments& a) {
       return MPI_Allgather(a.in, a.count, MPI_FLOAT, a.out, a.count, MPI_FLOAT, MPI_COMM_WORLD);
     }},
    {"reduce_scatter",
     [](const Arguments& a) {
       return MPI_Reduce_scatter_block(a.in, a.out, a.count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
     }},
    {"alltoall",
     [](const Arguments& a) {
       return MPI_Alltoall(a.in, a.count, MPI_FLOAT, a.out, a.count, MPI_FLOAT, MPI_COMM_WORLD);
     }},
    {"gather",
     [](const Arguments& a) {
       return MPI_Gather(a.in, a.count, MPI_FLOAT, a.out, a.count, MPI_FLOAT, 0, MPI_COMM_WORLD);
     }},
    {"scatter",
     [](const Arguments& a) {
       return MPI_Scatter(a.in, a.count, MPI_FLOAT, a.out, a.count, MPI_FLOAT, 0, MPI_COMM_WORLD);
     }},
    {"scan",
     [](const Arguments& a) {
       return MPI_Scan(a.in, a.out, a.count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
     }},
    {"exscan",
     [](const Arguments& a) {
       return MPI_Exscan(a.in, a.out, a.count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
     }},
    {"sendrecv",
     [](const Arguments& a) {
       return MPI_Sendrecv(a.in, a.count, MPI_FLOAT, (a.rank + 1) % a.nranks, 0, a.out, a.count,
                           MPI_FLOAT, (a.rank + a.nranks - 1) % a.nranks, 0, MPI_COMM_WORLD,
                           MPI_STATUS_IGNORE);
     }},
};

class Mpi : public tutti::bench::Implementation {
 public:
  explicit Mpi(const std::string& collective) {
    for (const Entry& entry : entries)
      if (collective == entry.name) call_ = entry.call;
    if (!call_) tutti::bench::give_up("MPI has no such collective here");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks_);
  }
  std::string version() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(text, &length);
    return std::string(text, size_t(length));
  }
  int rank() const override { return rank_; }
  int nranks() const override { return nranks_; }
  // Errors are fatal by MPI's default.
  void call(const float* in, float* out, size_t count) override {
    call_({in, out, int(count), rank_, nranks_});
  }

 private:
  MpiCall call_ = nullptr;
  int rank_ = 0, nranks_ = 1;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 4) tutti::bench::give_up("usage: SOCKET TEAM COLLECTIVE");
  Mpi mpi(argv[3]);
  tutti::bench::PeerServer(mpi, tutti::bench::find_collective(argv[3]), argv[1], std::atoi(argv[2]))
      .serve();
  MPI_Finalize();
}
