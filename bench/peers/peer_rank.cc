// `tutti-bench peer-rank`: a rank of tutti in a comparison, by the public C API alone.
#include <CLI/CLI.hpp>
#include <memory>

#include "bench/buffers.h"
#include "bench/commands.h"
#include "bench/error.h"
#include "bench/peers/server.h"
#include "bench/rank.h"

namespace tutti::bench {
namespace {

class Tutti : public Implementation {
 public:
  Tutti(const std::string& transports, std::string algorithm, Memory memory)
      : algorithm_(std::move(algorithm)), memory_(memory) {
    tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
    if (!transports.empty()) config.transports = transports.c_str();
    tutti_comm comm = nullptr;
    require(tutti_comm_create_from_env(&config, &comm), nullptr, "joining the other ranks");
    comm_ = Comm(comm);
    forced_.algorithm = algorithm_.c_str();
  }
  std::string version() const override { return std::string("tutti ") + tutti_version(); }
  int rank() const override {
    int rank = 0;
    require(tutti_comm_rank(comm_.get(), &rank), comm_.get(), "rank");
    return rank;
  }
  int nranks() const override {
    int nranks = 0;
    require(tutti_comm_size(comm_.get(), &nranks), comm_.get(), "size");
    return nranks;
  }
  std::shared_ptr<float[]> vector(size_t count) override {
    const auto bytes = allocate(memory_, comm_.get(), count * sizeof(float));
    return {bytes, reinterpret_cast<float*>(bytes.get())};
  }
  void barrier() override { check(tutti_barrier(comm_.get())); }
  void allreduce(const float* in, float* out, size_t count) override {
    if (algorithm_ == "auto")
      check(tutti_allreduce(in, out, count, TUTTI_FLOAT32, TUTTI_SUM, comm_.get()));
    else
      check(tutti_allreduce_with(in, out, count, TUTTI_FLOAT32, TUTTI_SUM, comm_.get(), &forced_));
  }

 private:
  void check(tutti_status status) const {
    if (status != TUTTI_OK) [[unlikely]]
      require(status, comm_.get(), "tutti");
  }
  Comm comm_;
  std::string algorithm_;
  Memory memory_;
  tutti_call_config forced_ = TUTTI_CALL_CONFIG_INIT;
};

struct Arguments {
  std::string socket, transports, algorithm = "auto";
  bool symmetric = false;
  int team = 0;
};

}  // namespace

Command add_peer_rank(CLI::App& app) {
  auto a = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("peer-rank", "a rank that `peers` has started")->group("");
  command->add_option("--socket", a->socket)->required();
  command->add_option("--team", a->team)->required();
  command->add_option("--transport", a->transports);
  command->add_option("--algorithm", a->algorithm);
  command->add_flag("--symmetric", a->symmetric);
  return [a](const std::vector<std::string>&) {
    Tutti tutti(a->transports, a->algorithm, a->symmetric ? Memory::symmetric : Memory::heap);
    PeerServer(tutti, a->socket.c_str(), a->team).serve();
    return 0;
  };
}

}  // namespace tutti::bench
