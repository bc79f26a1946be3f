// A rank of Gloo, over tcp on loopback: the only transport it has within a host. Arguments: the
// controller's socket, the team's number, rank, number of ranks, an empty folder for the
// rendezvous.
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "bench/peers/server.h"

namespace {

class Gloo : public tutti::bench::Implementation {
 public:
  Gloo(int rank, int nranks, const std::string& folder) {
    gloo::transport::tcp::attr attributes;
    attributes.iface = "lo";
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, nranks);
    gloo::rendezvous::FileStore store(folder);
    context->connectFullMesh(store, device);
    context_ = context;
  }
  std::string version() const override { return "Gloo"; }
  int rank() const override { return context_->rank; }
  int nranks() const override { return context_->size; }
  void call(const float* in, float* out, size_t count) override {
    gloo::AllreduceOptions options(context_);
    options.setInput(const_cast<float*>(in), count);
    options.setOutput(out, count);
    void (*sum)(void*, const void*, const void*, size_t) = &gloo::sum<float>;
    options.setReduceFunction(sum);
    gloo::allreduce(options);
  }

 private:
  std::shared_ptr<gloo::Context> context_;
};

}  // namespace

int main(int argc, char** argv) {
  using namespace tutti::bench;
  if (argc != 6) give_up("usage: SOCKET TEAM RANK RANKS FOLDER");
  const int rank = std::atoi(argv[3]), nranks = std::atoi(argv[4]);
  Gloo gloo(rank, nranks, argv[5]);
  PeerServer(gloo, find_collective("allreduce"), argv[1], std::atoi(argv[2])).serve();
}
