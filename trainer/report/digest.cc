#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/common/error.h"
#include "trainer/data/data.h"
#include "trainer/device/vectors.h"
#include "trainer/pipeline/pipeline.h"
#include "trainer/report/summary.h"

namespace tutti::train {
namespace {

void check_equal(const communicator& comm, uint64_t digest) {
  uint64_t bounds[] = {digest, ~digest};
  comm.allreduce<uint64_t>(bounds, TUTTI_MIN);
  if (bounds[0] != digest || ~bounds[1] != digest)
    throw Failure("the replicas differ: their parameters should be equal, bit for bit");
}

// Of all parameters in the order in which one rank would hold them: from the last layer to the
// first, whichever stages have them.
std::string digest_over_stages(const Worker& worker) {
  const PipelineShape& shape = worker.pipeline->plan().shape;
  const communicator& ranks = worker.grid.pipeline;
  uint64_t digest = digest_of({});
  for (int part = shape.parts() - 1; part >= 0; --part) {
    const int owner = shape.widths.lead(part % shape.stages);
    if (owner == ranks.rank()) {
      const OnHost<const std::byte> here(worker.replica.device(),
                                         worker.pipeline->parameters(part / shape.stages));
      digest = digest_of(here.values(), digest);
    }
    ranks.broadcast<uint64_t>(std::span(&digest, 1), owner);
  }
  return fmt::format("{:016x}", digest);
}

}  // namespace

std::string checked_digest(const Worker& worker) {
  const OnHost<const std::byte> here(worker.replica.device(), worker.replica.bytes());
  const std::span<const std::byte> all = here.values();
  const uint64_t own = digest_of(all);
  check_equal(worker.comm, own);
  const communicator& model = worker.grid.model;
  if (model.size() == 1) return fmt::format("{:016x}", own);
  const size_t width = worker.replica.width();
  uint64_t shared = digest_of({});  // over the ranks that divide the same layers
  for (const Parameter& p : worker.replica.layout()) {
    if (!p.division.spans.empty()) continue;
    shared = digest_of(all.subspan(width * p.offset, width * p.count), shared);
  }
  check_equal(worker.grid.tensor, shared);
  if (worker.grid.tensor.size() == 1 && worker.pipeline) return digest_over_stages(worker);
  std::vector<uint64_t> found(size_t(model.size())), parts(found.size());
  model.allgather<uint64_t>(std::span(&own, 1), found);
  // By position in the pipeline, then by part of its layers, whatever the order of the grid.
  const Mesh& mesh = worker.grid.mesh;
  const std::vector<int> ranks = mesh.group(worker.grid.all.rank(), {Axis::pipeline, Axis::tensor});
  for (size_t i = 0; i < ranks.size(); ++i) {
    const auto place = size_t(mesh.at(ranks[i], Axis::pipeline));
    const auto part = size_t(mesh.at(ranks[i], Axis::tensor));
    parts[place * size_t(mesh.size(Axis::tensor)) + part] = found[i];
  }
  return fmt::format("{:016x}", digest_of(std::as_bytes(std::span(parts))));
}

}  // namespace tutti::train
