#include "trainer/data/data.h"

#include <fmt/format.h>
#ifdef TUTTI_ZLIB
#include <zlib.h>
#endif

#include <cerrno>
#include <system_error>

#include "trainer/common/error.h"
#include "trainer/common/files.h"

namespace tutti::train {
namespace {

// Of a gzip file. Throws std::system_error where it cannot be opened, BadInput where it is damaged.
std::string unpacked(const std::string& path, const char* option) {
#ifdef TUTTI_ZLIB
  constexpr size_t most = size_t(1) << 30;
  errno = 0;
  auto close = [](gzFile file) { gzclose(file); };
  const std::unique_ptr<gzFile_s, decltype(close)> file(gzopen(path.c_str(), "rb"), close);
  if (!file) throw std::system_error(errno, std::generic_category(), "cannot read " + path);
  std::string text, part(1 << 16, '\0');
  int read = 0;
  while ((read = gzread(file.get(), part.data(), unsigned(part.size()))) > 0) {
    text.append(part, 0, size_t(read));
    if (text.size() > most)
      throw BadInput(fmt::format("{}: {} is more than 1 GiB when it is unpacked", option, path));
  }
  int status = 0;
  gzerror(file.get(), &status);
  if (read < 0 || status != Z_OK || gzdirect(file.get()))
    throw BadInput(fmt::format("{}: {} is no whole gzip file", option, path));
  return text;
#else
  throw BadInput(fmt::format("{}: {}: this program was built without zlib", option, path));
#endif
}

}  // namespace

Batch samples_of(const Data& data, uint64_t seed, int64_t step, int64_t batch, int64_t begin,
                 int64_t end) {
  Batch out;
  out.samples = end - begin;
  const uint64_t size = data.training_samples();
  for (int64_t i = begin; i < end; ++i) {
    const uint64_t number = uint64_t(step) * uint64_t(batch) + uint64_t(i);
    const uint64_t epoch = number / size;
    data.append(permuted(number % size, size, mixed(seed, epoch)), out);
  }
  return out;
}

Batch validation_of(const Data& data, uint64_t begin, uint64_t end) {
  Batch out;
  out.samples = int64_t(end - begin);
  for (uint64_t i = begin; i < end; ++i) data.append(data.training_samples() + i, out);
  return out;
}

std::string data_in(const std::string& path, const char* option) {
  try {
    return path.ends_with(".gz") ? unpacked(path, option) : read_file(path);
  } catch (const std::system_error& failed) {
    throw BadInput(fmt::format("{}: {}", option, failed.what()));
  }
}

std::unique_ptr<Data> open_data(const std::string& name, int64_t context, uint64_t seed,
                                const std::string& tokens) {
  const size_t colon = name.find(':');
  const std::string kind = name.substr(0, colon);
  const std::string path = colon == std::string::npos ? "" : name.substr(colon + 1);
  if (kind == "text") return open_text(path, context, tokens);
  if (kind == "idx") return open_idx(path);
  if (name == "digits") return make_digits(seed);
  if (name == "noise") return make_noise();
  throw BadInput(fmt::format("--data {}: allowed are text:PATH, idx:FOLDER and digits", name));
}

}  // namespace tutti::train
