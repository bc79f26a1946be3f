// `tutti-bench peer-rank`: a rank of tutti in a comparison, by the public C API alone.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "bench/buffers.h"
#include "bench/calls.h"
#include "bench/commands.h"
#include "bench/cores.h"
#include "bench/error.h"
#include "bench/peers/server.h"
#include "bench/rank.h"

namespace tutti::bench {
namespace {

class Tutti : public Implementation {
 public:
  Tutti(const Collective& collective, const std::string& transports, std::string algorithm,
        Memory memory)
      : function_(calls_of(collective).plain), algorithm_(std::move(algorithm)), memory_(memory) {
    tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
    if (!transports.empty()) config.transports = transports.c_str();
    tutti_comm comm = nullptr;
    require(tutti_comm_create_from_env(&config, &comm), nullptr, "joining the other ranks");
    comm_ = Comm(comm);
    forced_.algorithm = algorithm_.c_str();
    call_.dtype = TUTTI_FLOAT32;
    call_.op = TUTTI_SUM;
    call_.rank = rank();
    call_.nranks = nranks();
    call_.comm = comm;
    if (algorithm_ != "auto") call_.config = &forced_;
  }
  std::string version() const override {
    const std::string text = std::string("tutti ") + tutti_version();
    tutti_explanation explanation{};
    explanation.size = sizeof explanation;
    if (tutti_allreduce_explain(1, TUTTI_FLOAT32, TUTTI_SUM, comm_.get(), nullptr, &explanation) !=
            TUTTI_OK ||
        std::string("default") == explanation.tuning)
      return text;
    return text + " with tuning table " + explanation.tuning;
  }
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
  void call(const float* in, float* out, size_t count) override {
    call_.send = in;
    call_.recv = out;
    call_.count = count;
    check(function_(call_));
  }

 private:
  void check(tutti_status status) const {
    if (status != TUTTI_OK) [[unlikely]]
      require(status, comm_.get(), "tutti");
  }
  Comm comm_;
  CallFunction function_;
  Call call_{};
  std::string algorithm_;
  Memory memory_;
  tutti_call_config forced_ = TUTTI_CALL_CONFIG_INIT;
};

struct Arguments {
  std::string socket, collective, transports, algorithm = "auto";
  Memory memory = Memory::heap;
  int team = 0;
};

}  // namespace

Command add_peer_rank(CLI::App& app) {
  auto a = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("peer-rank", "a rank that `peers` has started")->group("");
  command->add_option("--socket", a->socket)->required();
  command->add_option("--team", a->team)->required();
  command->add_option("--collective", a->collective)->required();
  command->add_option("--transport", a->transports);
  command->add_option("--algorithm", a->algorithm);
  static const std::map<std::string, Memory> kinds{
      {"heap", Memory::heap}, {"adopted", Memory::adopted}, {"symmetric", Memory::symmetric}};
  command->add_option("--memory", a->memory)->transform(CLI::Transformer(kinds));
  return [a](const std::vector<std::string>&) {
    const Collective& collective = find_collective(a->collective);
    bind_rank(std::stoi(std::getenv("TUTTI_RANK")), std::stoi(std::getenv("TUTTI_SIZE")));
    Tutti tutti(collective, a->transports, a->algorithm, a->memory);
    PeerServer(tutti, collective, a->socket.c_str(), a->team).serve();
    return 0;
  };
}

}  // namespace tutti::bench
