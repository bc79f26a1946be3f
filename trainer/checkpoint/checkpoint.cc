#include "trainer/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>

#include "trainer/checkpoint/boxes.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/common/error.h"
#include "trainer/common/faults.h"
#include "trainer/common/files.h"
#include "trainer/common/gather_text.h"
#include "trainer/device/vectors.h"

namespace tutti::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kept_generations = 2;

std::string folder_name(int64_t step) { return fmt::format("step-{:09}", step); }

// Newest first.
std::vector<fs::path> generations(const std::string& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().filename().string().starts_with("step-")) found.push_back(entry.path());
  std::sort(found.rbegin(), found.rend());
  return found;
}

// How much is compared with what checkpoint.json says.
enum class Look { nothing, lengths, digests };

// Throws Damaged unless the checkpoint is whole, as far as that is looked at.
Checkpoint verified(const fs::path& folder, Look look) {
  std::string text;
  try {
    text = read_file(folder / "checkpoint.json");
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): then it says nothing
  }
  Checkpoint found{parse_about(text), folder.string(), {}, {}};
  const std::string name = folder.filename();
  if (name != folder_name(found.step) && name.starts_with("step-"))
    throw Damaged("checkpoint.json is damaged: its folder is of another step");
  for (const About::File& file : found.files) {
    const fs::path path = folder / file.name;
    found.paths.push_back(path);
    std::error_code error;
    if (look >= Look::lengths && (fs::file_size(path, error) != file.bytes || error))
      throw Damaged(file.name + " is missing or has another length");
    if (look == Look::digests && sha256_of(path) != file.sha256)
      throw Damaged(file.name + " has other bytes");
  }
  if (found.vocabulary && look != Look::nothing) {
    if (sha256_of(folder / vocabulary_file) != *found.vocabulary)
      throw Damaged(fmt::format("{} is missing or has other bytes", vocabulary_file));
    found.words = read_file(folder / vocabulary_file);
  }
  return found;
}

// The newest of which `look` finds nothing damaged; one sentence for each newer one.
std::optional<Checkpoint> newest(const std::string& folder, Look look,
                                 std::vector<std::string>& warnings) {
  for (const fs::path& path : generations(folder)) {
    try {
      return verified(path, look);
    } catch (const Damaged& damaged) {
      warnings.push_back(fmt::format("{} is damaged ({})", path.string(), damaged.what()));
    }
  }
  return std::nullopt;
}

std::string own_name(const StateVector& v, const CheckpointGroup& group) {
  return v.placement == StateVector::Placement::local ? fmt::format("{}.{}", v.name, group.copy)
                                                      : v.name;
}

// A file's header.
Header header_of(const fs::path& path) {
  const uint64_t size = fs::file_size(path);
  std::ifstream file(path, std::ios::binary);
  std::string head(8, '\0');
  file.read(head.data(), 8);
  head.resize(header_size(head, size));
  file.read(head.data() + 8, std::streamsize(head.size() - 8));
  if (!file) throw Damaged(path.filename().string() + " cannot be read");
  return parse_header(head, size);
}

// ---------------------------------------------------------------- writing

// What a rank's file has: each tensor, where its values are, and of what it is a part.
struct Pieces {
  std::vector<Tensor> tensors;
  std::vector<std::span<const std::byte>> values;
  std::vector<Device> devices;  // where these are
  json parts = json::array();   // the name of the whole tensor, and the box in it
};

const char* dtype_name(const Options& options) {
  return options.dtype == "float64" ? "F64" : "F32";
}

// The shape of a parameter over all ranks that divide it.
std::vector<int64_t> whole_shape(const Parameter& p) {
  std::vector<int64_t> shape = p.shape;
  if (!p.division.spans.empty()) shape[size_t(p.division.dimension)] = p.division.whole;
  return shape;
}
Box whole_box(const std::vector<int64_t>& shape) {
  Box box;
  for (const int64_t size : shape) box.push_back({0, size});
  return box;
}

// Cuts the vector's values into boxes of the whole tensors. Elements of a box lie one after the
// other: ranges are cut at rows, and parameters that are divided along an inner dimension have one
// span of it.
void add_pieces(const CheckpointGroup& group, const StateVector& v, Pieces& out) {
  const size_t width = group.options.element_bytes();
  for (size_t i = 0; i < v.ranges.size(); ++i) {
    for (const Parameter& p : group.layout) {
      const size_t begin = std::max(v.ranges[i].begin, p.offset);
      const size_t end = std::min(v.ranges[i].end, p.offset + p.count);
      if (begin >= end || !p.counted) continue;
      std::span<const std::byte> rest = v.values[i].subspan(width * (begin - v.ranges[i].begin));
      const std::string name = v.name + "/" + p.name;
      for (const Box& part : boxes_of(p.shape, int64_t(begin - p.offset), int64_t(end - p.offset)))
        for (const Placed& box : placed(part, p.division)) {
          const std::string text = text_of(box.whole);
          const bool whole = box.whole == whole_box(whole_shape(p));
          const size_t bytes = width * size_t(elements(box.whole));
          const uint64_t at = out.tensors.empty() ? 0 : out.tensors.back().end;
          Tensor tensor{whole ? name : name + text, dtype_name(group.options), {}, at, at + bytes};
          for (const Span& span : box.whole) tensor.shape.push_back(uint64_t(span.size()));
          out.tensors.push_back(std::move(tensor));
          out.values.push_back(rest.first(bytes));
          out.devices.push_back(v.device);
          out.parts.push_back({name, text});
          rest = rest.subspan(bytes);
        }
    }
  }
}

// Ranks that sum gradients hold the same parameters, which are saved once: whole parameters, spread
// over these ranks by bytes.
Range own_share(const Layout& layout, size_t total, int ranks, int rank) {
  Range share{total, total};
  for (const Parameter& p : layout) {
    const auto owner = int(p.offset * size_t(ranks) / total);
    if (owner != rank) continue;
    share.begin = std::min(share.begin, p.offset);
    share.end = p.offset + p.count;
  }
  return share.begin == total ? Range{0, 0} : share;
}

Pieces own_pieces(const CheckpointGroup& group, const std::vector<StateVector>& state) {
  const size_t width = group.options.element_bytes();
  const Range share = own_share(group.layout, elements_of(group.layout), group.copies, group.copy);
  Pieces pieces;
  for (StateVector v : state) {
    v.name = own_name(v, group);
    if (v.placement == StateVector::Placement::replicated) {
      v.ranges = {share};
      v.values = {v.values[0].subspan(width * share.begin, width * share.size())};
    }
    add_pieces(group, v, pieces);
  }
  return pieces;
}

// Returns what checkpoint.json says of the rank's file and of the parts in it, or the error.
json write_own(const CheckpointGroup& group, const std::vector<StateVector>& state,
               const LossScale* scale, const fs::path& folder) {
  try {
    const Pieces pieces = own_pieces(group, state);
    const std::string name =
        fmt::format("rank-{}-of-{}.safetensors", group.comm.rank(), group.comm.size());
    DurableFile file(folder / name);
    file.write(make_header(pieces.tensors, {{"format", "tutti"}}));
    fault_point("save-header");
    for (size_t i = 0; i < pieces.values.size(); ++i) {
      const OnHost<const std::byte> here(pieces.devices[i], pieces.values[i]);
      file.write(here.values());
      if (i == pieces.values.size() / 2) fault_point("save-half");
    }
    fault_point("save-written");
    const std::string digest = file.close();
    fault_point("save-synced");
    json about = {{"name", name}, {"bytes", file.size()}, {"sha256", digest}};
    if (scale) about["loss-scale"] = scale->text();
    return {{"file", about}, {"parts", pieces.parts}};
  } catch (const std::exception& failed) {
    return {{"error", failed.what()}};
  }
}

// `tensors`: the file of each part of each of them.
void write_about(const CheckpointGroup& group, int64_t step, const fs::path& folder,
                 const json& files, const json& tensors) {
  json contents = {{"step", step},
                   {"copies", group.copies},
                   {"tensors", tensors},
                   {"identity", group.identity},
                   {"settings", group.settings},
                   {"data", group.data.digest()},
                   {"files", files}};
  if (const Vocabulary& words = group.data.vocabulary(); words.size() > Vocabulary::bytes) {
    DurableFile file(folder / vocabulary_file);
    file.write(words.text());
    contents["vocabulary"] = file.close();
  }
  const json about = {{"format", format_version},
                      {"sha256", sha256_of_text(contents.dump())},
                      {"contents", contents}};
  const std::string text = about.dump(2) + "\n";
  DurableFile file(folder / "checkpoint.json");
  file.write(text.substr(0, text.size() / 2));
  fault_point("save-about");
  file.write(text.substr(text.size() / 2));
  file.close();
}

// Rank 0: an empty folder to write to.
void make_unfinished(const fs::path& unfinished) {
  fs::create_directories(unfinished.parent_path());
  for (const auto& entry : fs::directory_iterator(unfinished.parent_path()))
    if (entry.path().filename().string().starts_with("unfinished-")) fs::remove_all(entry.path());
  fs::create_directory(unfinished);
}

// Rank 0: turns the written files into a checkpoint.
void commit(const CheckpointGroup& group, int64_t step, const fs::path& unfinished,
            const std::vector<std::string>& written) {
  json files = json::array(), tensors = json::object();
  for (const std::string& text : written) {
    const json one = json::parse(text);
    if (one.contains("error"))
      throw Failure(fmt::format("rank {}: {}", files.size(), one["error"].get<std::string>()));
    for (const json& part : one["parts"])
      tensors[part[0].get<std::string>()].push_back({{"file", files.size()}, {"box", part[1]}});
    files.push_back(one["file"]);
  }
  const std::string folder = group.options.checkpoint;
  write_about(group, step, unfinished, files, tensors);
  sync_folder(unfinished);
  fault_point("save-named");
  const fs::path name = fs::path(folder) / folder_name(step);
  fs::remove_all(name);  // a damaged one of the same step
  fs::rename(unfinished, name);
  fault_point("save-renamed");
  sync_folder(folder);
}

// Rank 0. Those of later steps are damaged ones that the run did not go on from.
void prune(const std::string& folder, int64_t step) {
  size_t kept = 0;
  for (const fs::path& generation : generations(folder)) {
    if (generation.filename() <= folder_name(step) && ++kept <= kept_generations) continue;
    std::error_code ignored;
    // First, so that there is never half a checkpoint.
    fs::remove(generation / "checkpoint.json", ignored);
    fault_point("save-pruned");
    fs::remove_all(generation, ignored);
  }
}

// ---------------------------------------------------------------- reading

// The parts of tensors in a checkpoint's files.
class Parts {
 public:
  explicit Parts(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {
    for (size_t file = 0; file < checkpoint.paths.size(); ++file) {
      const Header header = header_of(checkpoint.paths[file]);
      for (const Tensor& tensor : header.tensors) {
        Tensor& found = tensors_[{file, tensor.name}] = tensor;
        found.begin += header.size;
        found.end += header.size;
      }
    }
  }
  // Reads the layout's values of a vector, from every file that has some of them.
  void read(const std::string& vector, const Options& options, const Layout& layout,
            std::span<std::byte> out) const {
    for (const Parameter& p : layout) {
      const std::string name = vector.empty() ? p.name : vector + "/" + p.name;
      const json boxes = checkpoint_.tensors.value(name, json::array());
      size_t covered = 0;
      for (const Placed& own : placed(whole_box(p.shape), p.division))
        for (const json& entry : boxes) covered += read_common(name, entry, own, p, options, out);
      if (covered != p.count)
        throw Damaged(fmt::format("it has {} values of {}, not {}", covered, name, p.count));
    }
  }

 private:
  // Copies the elements that the entry's box and this rank's part share. Returns their number.
  size_t read_common(const std::string& name, const json& entry, const Placed& own,
                     const Parameter& p, const Options& options, std::span<std::byte> out) const {
    const size_t width = options.element_bytes();
    const Box all = whole_box(whole_shape(p));
    Box theirs;
    const auto file = entry.at("file").get<size_t>();
    const auto text = entry.at("box").get<std::string>();
    if (!box_of(text, theirs) || theirs.size() != all.size() || common(theirs, all) != theirs)
      throw Damaged(name + text + " is not a part of this model");
    const Box both = common(own.whole, theirs);
    if (elements(both) == 0) return 0;
    const auto found = tensors_.find({file, theirs == all ? name : name + text});
    if (found == tensors_.end()) throw Damaged(name + text + " is in no file");
    const Tensor& tensor = found->second;
    const size_t bytes = width * size_t(elements(theirs));
    if (tensor.dtype != dtype_name(options) || tensor.end - tensor.begin != bytes)
      throw Damaged(name + text + " has another type or length");
    std::vector<char> values(bytes);
    std::ifstream stream(checkpoint_.paths[file], std::ios::binary);
    stream.seekg(std::streamoff(tensor.begin));
    stream.read(values.data(), std::streamsize(bytes));
    if (!stream) throw Damaged(name + text + " cannot be read");
    copy_box(both, theirs, values.data(), own.frame, out.data() + width * p.offset, width);
    return size_t(elements(both));
  }

  const Checkpoint& checkpoint_;
  // By number of the file and name; begin and end are from the file's beginning.
  std::map<std::pair<size_t, std::string>, Tensor> tensors_;
};

// What is found to be damaged is bad input of the option.
template <class Read>
void read_for(const char* option, const Checkpoint& checkpoint, Read&& read) {
  try {
    read();
  } catch (const json::exception&) {
    throw BadInput(fmt::format("{}: {}: checkpoint.json is damaged", option, checkpoint.folder));
  } catch (const Damaged& damaged) {
    throw BadInput(fmt::format("{}: {}: {}", option, checkpoint.folder, damaged.what()));
  }
}

// Weights alone, a safetensors file as PyTorch and others write them: a tensor a parameter.
Checkpoint weights_of(const std::string& path, const json& model) {
  Checkpoint weights;
  weights.folder = path;
  weights.identity = model;
  weights.paths = {path};
  weights.tensors = json::object();
  for (const auto& [name, dtype, shape, begin, end] : header_of(path).tensors)
    weights.tensors[name] = {
        {{"file", 0}, {"box", text_of(whole_box({shape.begin(), shape.end()}))}}};
  return weights;
}

// The vector of a checkpoint that has the parameters: where each worker kept its own, the first's.
std::string vector_of_weights(const Checkpoint& checkpoint) {
  for (const std::string vector : {"parameters", "parameters.0"})
    for (const auto& [tensor, boxes] : checkpoint.tensors.items())
      if (tensor.starts_with(vector + "/")) return vector;
  return "";
}

// "--layers is 3, was 2" for each value of `now` that `was` does not have.
std::vector<std::string> differences(const json& now, const json& was) {
  std::vector<std::string> differ;
  for (const auto& [name, value] : now.items())
    if (!was.contains(name) || was[name] != value)
      differ.push_back(
          fmt::format("--{} is {}, was {}", name, value.dump(), was.value(name, json()).dump()));
  return differ;
}

}  // namespace

std::optional<LossScale> Checkpoint::scale_of(int rank) const {
  if (scales.empty()) return {};
  return LossScale::parsed(scales[std::min(size_t(rank), scales.size() - 1)]);
}

bool has_checkpoints(const std::string& folder) { return !generations(folder).empty(); }

Checkpoint newest_checkpoint(const std::string& folder, std::vector<std::string>& warnings,
                             const char* option) {
  if (const auto found = newest(folder, Look::digests, warnings)) return *found;
  throw BadInput(warnings.empty() ? fmt::format("{}: there is no checkpoint in {}", option, folder)
                                  : fmt::format("{}: no checkpoint is whole: {}", option,
                                                fmt::join(warnings, "; ")));
}

std::optional<Checkpoint> described_checkpoint(const std::string& folder) {
  std::vector<std::string> ignored;
  return newest(folder, Look::nothing, ignored);
}

Checkpoint initial_checkpoint(const Options& options, const json& model) {
  const std::string& folder = options.init;
  std::error_code ignored;
  Checkpoint found;
  try {
    if (fs::is_regular_file(folder, ignored)) return weights_of(folder, model);
    std::vector<std::string> warnings;
    found = fs::exists(fs::path(folder) / "checkpoint.json", ignored)
                ? verified(folder, Look::digests)
                : newest_checkpoint(folder, warnings, "--init");
  } catch (const Damaged& damaged) {
    throw BadInput(fmt::format("--init: {} is damaged ({})", folder, damaged.what()));
  }
  const std::vector<std::string> differ = differences(model, found.identity);
  if (!differ.empty())
    throw BadInput(
        fmt::format("--init: {} is of another model: {}", found.folder, fmt::join(differ, ", ")));
  return found;
}

void check_continues(const Checkpoint& checkpoint, const Options& options, const json& identity,
                     uint64_t data_digest) {
  const std::vector<std::string> differ = differences(identity, checkpoint.identity);
  if (!differ.empty())
    throw BadInput(fmt::format("--resume: {} is of another run: {}", checkpoint.folder,
                               fmt::join(differ, ", ")));
  if (checkpoint.data_digest != data_digest)
    throw BadInput(
        fmt::format("--resume: {} was learnt from other data: what --data {} names has changed",
                    checkpoint.folder, options.data));
  if (checkpoint.step >= options.steps)
    throw BadInput(fmt::format("--resume: {} has already made the {} steps", checkpoint.folder,
                               options.steps));
  if (options.topk > 0 && checkpoint.copies != options.dp)
    throw BadInput(fmt::format(
        "--resume: with --topk each of the {} workers has kept its own rest: --dp must be {}",
        checkpoint.copies, checkpoint.copies));
}

std::vector<std::string> changes_since(const Checkpoint& checkpoint, const json& settings) {
  // Where an older checkpoint has none.
  json before = {{"decay", "constant"}, {"min-lr", 0}, {"precision", "full"}};
  before.update(checkpoint.settings);
  return differences(settings, before);
}

Checkpoint common_checkpoint(const CheckpointGroup& group) {
  const std::string& folder = group.options.checkpoint;
  Checkpoint found;
  on_first<BadInput>(group.comm, [&] {
    std::vector<std::string> warnings;
    found = newest_checkpoint(folder, warnings);
  });
  group.comm.broadcast<int64_t>(std::span(&found.step, 1), 0);
  if (group.comm.rank() == 0) return found;
  try {
    return verified(fs::path(folder) / folder_name(found.step), Look::lengths);
  } catch (const Damaged& damaged) {
    throw BadInput(fmt::format("--resume: {} of step {}, which rank 0 goes on from: {}", folder,
                               found.step, damaged.what()));
  }
}

void save_checkpoint(const CheckpointGroup& group, const std::vector<StateVector>& state,
                     int64_t step, const LossScale* scale) {
  const std::string& folder = group.options.checkpoint;
  const fs::path unfinished = fs::path(folder) / ("unfinished-" + folder_name(step));
  const auto first = [&](auto&& work) {
    on_first<Failure>(group.comm, [&] {
      try {
        work();
      } catch (const std::exception& failed) {
        std::error_code ignored;
        fs::remove_all(unfinished, ignored);
        throw Failure(fmt::format(
            "the checkpoint of step {} cannot be written to {}: {}; earlier ones are as they were",
            step, folder, failed.what()));
      }
    });
  };
  fault_point("save-begin");
  first([&] { make_unfinished(unfinished); });
  const std::string mine = write_own(group, state, scale, unfinished)
                               .dump(-1, ' ', false, json::error_handler_t::replace);
  const std::vector<std::string> written = gather_text(group.comm, mine);
  first([&] {
    commit(group, step, unfinished, written);
    prune(folder, step);
  });
}

void load_checkpoint(const Checkpoint& checkpoint, const CheckpointGroup& group,
                     const std::vector<StateVector>& state) {
  const size_t width = group.options.element_bytes();
  read_for("--resume", checkpoint, [&] {
    const Parts parts(checkpoint);
    std::vector<std::byte> whole(width * elements_of(group.layout));
    for (const StateVector& v : state) {
      parts.read(own_name(v, group), group.options, group.layout, whole);
      for (size_t i = 0; i < v.ranges.size(); ++i) {
        const auto part = std::span(whole).subspan(width * v.ranges[i].begin, v.values[i].size());
        const OnHost<std::byte> here(v.device, v.values[i]);
        std::copy(part.begin(), part.end(), here.values().begin());
        here.store();
      }
    }
  });
}

void load_weights(const Checkpoint& checkpoint, const Options& options, const Layout& layout,
                  const Device& device, std::span<std::byte> parameters) {
  read_for("--init", checkpoint, [&] {
    const std::string vector = vector_of_weights(checkpoint);
    // Other ranks may have parameters that this one has not, but not if it has the whole model.
    if (vector.empty() && options.tp == 1 && options.pp == 1 &&
        checkpoint.tensors.size() != layout.size())
      throw Damaged(fmt::format("it has {} tensors, and the model {} parameters",
                                checkpoint.tensors.size(), layout.size()));
    const OnHost<std::byte> here(device, parameters);
    Parts(checkpoint).read(vector, options, layout, here.values());
    here.store();
  });
}

void check_space(const Options& o, size_t checkpoint) {
  if (o.checkpoint.empty()) return;
  const size_t there = std::min(generations(o.checkpoint).size(), kept_generations);
  const double bytes = double(kept_generations + 1 - there) * double(checkpoint);
  const auto room = double(room_in("--checkpoint", o.checkpoint));
  if (room < bytes)
    throw BadInput(
        fmt::format("--checkpoint {}: {:.1f} MB are free, but checkpoints may need {:.1f} MB",
                    o.checkpoint, room / 1e6, bytes / 1e6));
}

}  // namespace tutti::train
