// A rank of Open MPI or MPICH. Arguments: the controller's socket, the team's number.
#include <mpi.h>

#include "bench/peers/server.h"

namespace {

class Mpi : public tutti::bench::Implementation {
 public:
  std::string version() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(text, &length);
    return std::string(text, size_t(length));
  }
  int rank() const override {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
  }
  int nranks() const override {
    int nranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    return nranks;
  }
  // Errors are fatal by MPI's default.
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }
  void allreduce(const float* in, float* out, size_t count) override {
    MPI_Allreduce(in, out, int(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 3) tutti::bench::give_up("usage: SOCKET TEAM");
  Mpi mpi;
  tutti::bench::PeerServer(mpi, argv[1], std::atoi(argv[2])).serve();
  MPI_Finalize();
}
