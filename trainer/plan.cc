#include "trainer/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/common/error.h"
#include "trainer/common/files.h"
#include "trainer/data/data.h"
#include "trainer/meeting.h"
#include "trainer/models/replica.h"
#include "trainer/models/shape.h"
#include "trainer/parallel/mesh.h"
#include "trainer/pipeline/figures.h"
#include "trainer/report/script.h"
#include "trainer/sync/buckets.h"
#include "trainer/sync/server_core.h"
#include "trainer/sync/volume.h"
#include "trainer/sync/ways.h"

namespace tutti::train {
namespace {

void check_writable(const char* option, const std::string& path) {
  if (path.empty() || path == "-") return;
  const bool there = access(path.c_str(), F_OK) == 0;
  std::FILE* file = std::fopen(path.c_str(), "a");
  if (!file)
    throw BadInput(fmt::format("{}: cannot write {}: {}", option, path, std::strerror(errno)));
  std::fclose(file);
  if (!there) std::remove(path.c_str());
}

// ---------------------------------------------------------------- what each rank will hold

struct Footprint {
  size_t parameters = 0;
  size_t state = 0;  // of the optimizer
};

// The part of a layout that belongs to these layers.
Layout of_layers(const Layout& layout, const std::vector<std::string>& layers) {
  Layout kept;
  size_t offset = 0;
  for (Parameter p : layout) {
    const std::string layer = p.name.substr(0, p.name.find('.'));
    if (std::find(layers.begin(), layers.end(), layer) == layers.end()) continue;
    p.offset = offset;
    offset += p.count;
    kept.push_back(std::move(p));
  }
  return kept;
}

// Of the rank that has this part of each layer.
Replica divided_replica(const Options& o, const Shape& shape, const Data& data, int part) {
  return {shape, data, o.seed, split_of(o, {nullptr, part, o.tp, TUTTI_CALL_CONFIG_INIT})};
}

// By rank. `layouts`: of each rank along --tp, all layers; `stages`: the layers of each stage, none
// where there are no stages.
std::vector<Footprint> footprints_of(const Options& o, const Mesh& mesh,
                                     const std::vector<Layout>& layouts,
                                     const std::vector<std::vector<std::string>>& stages) {
  std::vector<Footprint> footprints(size_t(mesh.ranks()));
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    Footprint& footprint = footprints[size_t(rank)];
    const auto& all = layouts[size_t(mesh.at(rank, Axis::tensor))];
    const auto& own = stages.empty() ? all : of_layers(all, stages[size_t(mesh.stage(rank))]);
    const std::vector<int> holders = mesh.holders(rank);
    const auto place = std::find(holders.begin(), holders.end(), rank) - holders.begin();
    size_t optimized = 0;
    for (const Bucket& bucket : buckets_of(own, o)) {
      footprint.parameters += bucket.count;
      optimized += o.zero ? share_of(bucket, int(holders.size()), int(place)).size() : bucket.count;
    }
    if (!o.has_servers()) footprint.state = moments_of(o) * optimized;
  }
  return footprints;
}

// ---------------------------------------------------------------- the dry run

// The grid, and each rank's groups in it and what it holds.
void show_grid(const Options& o, const Mesh& mesh, const std::vector<Footprint>& footprints) {
  if (mesh.ranks() == o.dp) return;
  fmt::print("the grid   {} ranks: --dp {} x --pp {}{} x --tp {}; outermost first {}\n",
             mesh.ranks(), o.dp, o.pp, o.stage_widths.empty() ? "" : " of widths " + o.stage_widths,
             o.tp, o.grid_order);
  for (int rank = 0; rank < mesh.ranks(); ++rank)
    fmt::print(
        "rank {:<5} copy {}, stage {}, part {} of each layer; gradients with ranks {}, stages on "
        "ranks {}, layers with ranks {}; {} parameters, {} values of optimizer state\n",
        rank, mesh.copy(rank), mesh.widths().name(mesh.at(rank, Axis::pipeline)),
        mesh.at(rank, Axis::tensor), fmt::join(mesh.holders(rank), " "),
        fmt::join(mesh.group(rank, {Axis::pipeline}), " "),
        fmt::join(mesh.group(rank, {Axis::tensor}), " "), footprints[size_t(rank)].parameters,
        footprints[size_t(rank)].state);
}

// The role of each rank, and what it holds.
void show_memory(const Options& o, const Layout& layout, const std::vector<Footprint>& footprints) {
  const int p = o.workers();
  fmt::print(
      "{:<10} {} worker{}{}\n", p == 1 ? "rank 0" : fmt::format("ranks 0-{}", p - 1),
      p == 1 ? "is a" : "are", p == 1 ? "" : "s",
      o.has_servers()
          ? fmt::format("; behind them {} parameter server{}, rank{} {}", o.servers,
                        o.servers == 1 ? "" : "s", o.servers == 1 ? "" : "s",
                        o.servers == 1 ? std::to_string(p) : fmt::format("{}-{}", p, o.world() - 1))
          : "");
  Footprint most;
  for (const Footprint& of : footprints)
    most = {std::max(most.parameters, of.parameters), std::max(most.state, of.state)};
  const auto bytes = double(o.element_bytes() * most.parameters);
  fmt::print("a worker   holds {}{} of parameters, {} of gradients", p == o.dp ? "" : "at most ",
             megabytes(bytes), megabytes(bytes));
  if (!o.has_servers())
    fmt::print(", {} of optimizer state", megabytes(double(o.element_bytes() * most.state)));
  if (o.mixed())
    fmt::print(", {} of parameters in {}", megabytes(double(2 * most.parameters)), o.precision);
  if (o.topk > 0) fmt::print(", {} of gradients that were not sent yet", megabytes(bytes));
  fmt::print("\n");
  if (!o.has_servers()) return;
  const double part = largest_part(o, layout);
  fmt::print("a server   holds {}{} of parameters and {} of optimizer state\n",
             o.servers == 1 ? "" : "at most ", megabytes(part), megabytes(moments_of(o) * part));
}

void check_layers(const Options& o, const Shape& shape) {
  const int64_t layers = layers_of(shape, o.tp);
  const int64_t parts = int64_t(o.pp) * o.chunks;
  const std::string asked =
      fmt::format("--pp {}{}", o.pp, o.chunks > 1 ? fmt::format(" x --chunks {}", o.chunks) : "");
  if (parts > layers)
    throw BadInput(
        fmt::format("{}: {} {} has {} layers only", asked, shape.name, shape.size, layers));
  if (o.stages == "even" && layers % parts != 0)
    throw BadInput(fmt::format("--stages even: the {} layers of {} {} are no multiple of {}",
                               layers, shape.name, shape.size, asked));
  if (o.stages == "even" || o.stages == "profile") return;
  size_t listed = 0;
  for (const size_t count : o.stage_layers()) listed += count;
  if (int64_t(listed) != layers)
    throw BadInput(fmt::format("--stages {}: these are {} layers, {} {} has {}", o.stages, listed,
                               shape.name, shape.size, layers));
}

// The layers and work of each stage, as far as known without a run.
void show_pipeline_plan(const Options& o, const PipelinePlan& plan, const Mesh& mesh,
                        const std::vector<Footprint>& footprints) {
  const PipelineRun run = simulate(plan.schedule, plan.shape);
  fmt::print("pipeline   {}, {} micro-batches{}: {:.1f} % of the stages' time is used\n",
             o.schedule, plan.shape.micro_batches,
             o.micro_batches == "auto" ? " to begin with" : "", 100 * run.utilisation);
  const StageWidths& widths = plan.shape.widths;
  for (int place = 0; place < widths.ranks(); ++place) {
    size_t most = 0;
    for (int t = 0; t < o.tp; ++t)
      most = std::max(most, footprints[size_t(mesh.rank(0, place, t))].parameters);
    fmt::print("stage {:<4} {}: {} of parameters{}, at most {} micro-batches alive\n",
               widths.name(place), fmt::join(plan.layers_of(widths.stage(place)), " "),
               megabytes(double(o.element_bytes() * most)), o.tp > 1 ? " at most on a rank" : "",
               run.peak_live[size_t(place)]);
  }
  for (const Port& port : plan.ports) {
    const double count = double(o.computed_bytes()) * port.elements();
    fmt::print("part {:<5} to part {}: {:.0f} bytes {}{}, and as much back{}\n", port.from, port.to,
               count, port.weight() ? "a step" : "a sample",
               port.name.empty() ? "" : " of " + port.name,
               port.weight() ? " with every micro-batch" : "");
  }
  if (widths.widest() > 1) {
    std::vector<int> shards;
    shards.reserve(size_t(plan.shape.micro_batches));
    for (int i = 0; i < plan.shape.micro_batches; ++i)
      shards.push_back(widths.shard(i, plan.shape.micro_batches));
    fmt::print("shards     of a copy enter as {}\n", fmt::join(shards, " "));
  }
  fmt::print("\n{}\n", drawing_text(run, plan.shape));
}

}  // namespace

void prepare(const Options& o) {
  const Device device = Device::open(o.device, 0);  // first: see there
  const Shape shape = shape_of(o);
  check_precision(shape, device);
  if (o.pipelined()) check_layers(o, shape);
  const std::unique_ptr<Data> data = open_data(o.data, shape.context, o.seed, o.tokens);
  if (uint64_t(o.batch) > data->training_samples())
    throw BadInput(fmt::format("--batch {}: {} has {} training samples only", o.batch,
                               data->about(), data->training_samples()));
  if (o.conv_split == "strips") divided_replica(o, shape, *data, 0);  // checks its strips
  if (shape.size == "resnet50" && data->classes > 1000)
    throw BadInput("the model cnn:resnet50 knows 1000 classes");
  if (o.resume) {
    std::vector<std::string> warnings;
    const Checkpoint found = newest_checkpoint(o.checkpoint, warnings);
    check_continues(found, o, identity_of(o), data->digest());
    for (const std::string& warning : warnings)
      fmt::print(stderr, "tutti-train: {}: going on from {}\n", warning, found.folder);
  } else if (!o.checkpoint.empty() && has_checkpoints(o.checkpoint)) {
    throw BadInput(fmt::format(
        "--checkpoint {} has checkpoints already: --resume goes on from them", o.checkpoint));
  }
  if ((o.has_servers() && o.optimizer == "lamb") || !o.checkpoint.empty() || !o.init.empty()) {
    Replica replica(shape, *data, o.seed);
    set_initial(o, *data, replica);
    if (o.has_servers()) server_parts(o, replica.layout());
    check_space(o, checkpoint_bytes(o, replica.size()));
  }
  if (!o.meet.empty()) check_meeting_place(o.meet);
  check_writable("--json", o.json);
  check_writable("--csv", o.csv);
  check_writable("--report", o.report);
  check_writable("--trace", o.trace);
  check_writable("--log", o.log);
  check_python("--report", o.report);
  check_python("--tensorboard", o.tensorboard);
  if (!o.tensorboard.empty()) room_in("--tensorboard", o.tensorboard);
}

void show_plan(const Options& o) {
  const Shape shape = shape_of(o);
  const std::unique_ptr<Data> data = open_data(o.data, shape.context, o.seed, o.tokens);
  Replica replica(shape, *data, o.seed);
  const auto& layout = replica.layout();
  const size_t count = elements_of(layout);
  const auto bytes = double(o.element_bytes() * count);
  const int p = o.dp;
  fmt::print("model      {} {}: {} parameters in {} tensors, {}\n", shape.name, shape.size, count,
             layout.size(), megabytes(bytes));
  fmt::print("data       {}: {} samples to train with, {} to validate with\n", data->about(),
             data->training_samples(), data->validation_samples());
  fmt::print("a step     {} samples in {} shards, {} for each of {} worker{}\n", o.batch, o.shards,
             o.shards / p, p, p == 1 ? "" : "s");
  const Mesh mesh(o.dp, o.widths(), o.tp, o.grid_order);
  std::vector<Layout> layouts;
  for (int part = 0; o.tp > 1 && part < o.tp; ++part)
    layouts.push_back(divided_replica(o, shape, *data, part).layout());
  if (o.tp == 1) layouts.push_back(layout);
  PipelinePlan pipeline;
  std::vector<std::vector<std::string>> stages;
  if (o.pipelined()) {
    const Batch one = samples_of(*data, o.seed, 0, o.batch, 0, o.batch / o.shards);
    pipeline = plan_pipeline(o, facts_of(replica, one, o.stages == "profile"));
    for (int stage = 0; stage < o.pp; ++stage) stages.push_back(pipeline.layers_of(stage));
  }
  const auto footprints = footprints_of(o, mesh, layouts, stages);
  show_grid(o, mesh, footprints);
  show_memory(o, layout, footprints);
  if (o.pipelined()) {
    show_pipeline_plan(o, pipeline, mesh, footprints);
    if (o.dp > 1)
      fmt::print("each stage averages its gradients over its {} copies, {} shards in all\n", o.dp,
                 o.shards);
    return;
  }
  const auto& most = *std::max_element(
      layouts.begin(), layouts.end(),
      [](const auto& a, const auto& b) { return elements_of(a) < elements_of(b); });
  fmt::print("{}", sync_way(o).plan({o, layout, most}));
  if (!o.checkpoint.empty())
    fmt::print("checkpoint {} after every {} steps, in {}\n",
               megabytes(double(checkpoint_bytes(o, count))), o.checkpoint_every, o.checkpoint);
}

}  // namespace tutti::train
