#include "bench/workload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <initializer_list>
#include <numeric>

#include "bench/error.h"

namespace tutti::bench {
namespace {

constexpr size_t first_bucket_limit = size_t(1) << 20;
constexpr size_t bucket_limit = size_t(25) << 20;

class Model {
 public:
  void tensor(const std::string& name, std::initializer_list<size_t> shape) {
    parameters.push_back(
        {name, std::accumulate(shape.begin(), shape.end(), size_t(1), std::multiplies<size_t>())});
  }
  // A weight matrix with its bias.
  void linear(const std::string& name, size_t in, size_t out) {
    tensor(name + ".weight", {out, in});
    tensor(name + ".bias", {out});
  }
  void norm(const std::string& name, size_t width) {
    tensor(name + ".weight", {width});
    tensor(name + ".bias", {width});
  }
  std::vector<Parameter> parameters;
};

void bottleneck(Model& m, const std::string& name, size_t in, size_t width, bool first) {
  const size_t out = 4 * width;
  m.tensor(name + ".conv1.weight", {width, in, 1, 1});
  m.norm(name + ".bn1", width);
  m.tensor(name + ".conv2.weight", {width, width, 3, 3});
  m.norm(name + ".bn2", width);
  m.tensor(name + ".conv3.weight", {out, width, 1, 1});
  m.norm(name + ".bn3", out);
  if (!first) return;
  m.tensor(name + ".downsample.0.weight", {out, in, 1, 1});
  m.norm(name + ".downsample.1", out);
}

std::vector<Parameter> resnet50() {
  Model m;
  m.tensor("conv1.weight", {64, 3, 7, 7});
  m.norm("bn1", 64);
  const size_t blocks[] = {3, 4, 6, 3};
  size_t in = 64;
  for (size_t layer = 0; layer < 4; ++layer) {
    const size_t width = size_t(64) << layer;
    for (size_t block = 0; block < blocks[layer]; ++block) {
      bottleneck(m, fmt::format("layer{}.{}", layer + 1, block), in, width, block == 0);
      in = 4 * width;
    }
  }
  m.linear("fc", 2048, 1000);
  return m.parameters;
}

std::vector<Parameter> gpt2() {
  constexpr size_t width = 768;
  Model m;
  m.tensor("wte.weight", {50257, width});
  m.tensor("wpe.weight", {1024, width});
  for (int layer = 0; layer < 12; ++layer) {
    const std::string h = fmt::format("h.{}.", layer);
    m.norm(h + "ln_1", width);
    m.linear(h + "attn.c_attn", width, 3 * width);
    m.linear(h + "attn.c_proj", width, width);
    m.norm(h + "ln_2", width);
    m.linear(h + "mlp.c_fc", width, 4 * width);
    m.linear(h + "mlp.c_proj", 4 * width, width);
  }
  m.norm("ln_f", width);
  return m.parameters;
}

std::vector<Parameter> bert_large() {
  constexpr size_t width = 1024;
  Model m;
  m.tensor("embeddings.word_embeddings.weight", {30522, width});
  m.tensor("embeddings.position_embeddings.weight", {512, width});
  m.tensor("embeddings.token_type_embeddings.weight", {2, width});
  m.norm("embeddings.LayerNorm", width);
  for (int layer = 0; layer < 24; ++layer) {
    const std::string l = fmt::format("encoder.layer.{}.", layer);
    m.linear(l + "attention.self.query", width, width);
    m.linear(l + "attention.self.key", width, width);
    m.linear(l + "attention.self.value", width, width);
    m.linear(l + "attention.output.dense", width, width);
    m.norm(l + "attention.output.LayerNorm", width);
    m.linear(l + "intermediate.dense", width, 4 * width);
    m.linear(l + "output.dense", 4 * width, width);
    m.norm(l + "output.LayerNorm", width);
  }
  m.linear("pooler.dense", width, width);
  return m.parameters;
}

struct Entry {
  const char* name;
  size_t total;
  std::vector<Parameter> (*make)();
};
constexpr Entry entries[] = {
    {"resnet50", 25'557'032, resnet50},
    {"gpt2", 124'439'808, gpt2},
    {"bert-large", 335'141'888, bert_large},
};

}  // namespace

std::vector<std::string> workload_names() {
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.emplace_back(entry.name);
  return names;
}

Workload make_workload(const std::string& name) {
  for (const Entry& entry : entries) {
    if (name != entry.name) continue;
    Workload workload{name, entry.total, entry.make()};
    size_t sum = 0;
    for (const Parameter& parameter : workload.parameters) sum += parameter.count;
    if (sum != entry.total)
      throw Failure(fmt::format("workload {}: the shapes have {} parameters, published are {}",
                                name, sum, entry.total));
    return workload;
  }
  throw BadInput(fmt::format("unknown workload '{}': allowed are {}", name,
                             fmt::join(workload_names(), ", ")));
}

std::vector<size_t> make_buckets(const Workload& workload, size_t element_size) {
  std::vector<size_t> buckets;
  size_t open = 0;
  for (size_t i = workload.parameters.size(); i-- > 0;) {
    open += workload.parameters[i].count;
    const size_t limit = buckets.empty() ? first_bucket_limit : bucket_limit;
    if (open * element_size < limit) continue;
    buckets.push_back(open);
    open = 0;
  }
  if (open) buckets.push_back(open);
  return buckets;
}

}  // namespace tutti::bench
