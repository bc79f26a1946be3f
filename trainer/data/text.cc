// Text: the tokens of a file, or of all files below a folder, cut into windows that do not overlap.
// The last tenth is for validation.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "trainer/common/error.h"
#include "trainer/data/data.h"

namespace tutti::train {
namespace {

namespace fs = std::filesystem;

constexpr size_t most_bytes = size_t(1) << 30;

bool is_text(const fs::path& path) {
  static const std::vector<std::string> endings = {".cc",  ".h",   ".hpp", ".c",     ".md", ".py",
                                                   ".txt", ".rst", ".tex", ".build", ".cu"};
  const fs::path name = path.extension() == ".gz" ? path.stem() : path;
  return std::find(endings.begin(), endings.end(), name.extension()) != endings.end();
}

bool is_hidden_or_built(const fs::path& path) {
  const std::string name = path.filename();
  return name.starts_with(".") || name.starts_with("build") || name == "__pycache__";
}

std::vector<fs::path> files_of(const fs::path& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return {path};
  if (!fs::is_directory(path, error))
    throw BadInput(fmt::format("--data text:{}: there is no such file or folder", path.string()));
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (is_hidden_or_built(entry->path()))
      entry.disable_recursion_pending();
    else if (entry->is_regular_file(error) && is_text(entry->path()))
      files.push_back(entry->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

class Text : public Data {
 public:
  Text(const std::string& path, int64_t context, const std::string& tokens)
      : name_(path.empty() ? "tutti's own sources" : path), context_(size_t(context)) {
    const std::string where = path.empty() ? TUTTI_SOURCE_ROOT : path;
    const std::vector<fs::path> files = files_of(where);
    files_ = files.size();
    for (const fs::path& file : files) {
      bytes_ += data_in(file);
      if (bytes_.size() > most_bytes)
        throw BadInput(fmt::format("--data text:{}: more than 1 GiB of text", where));
    }
    vocabulary_ = vocabulary_of(tokens, bytes_);
    if (vocabulary_.size() > Vocabulary::bytes) tokens_ = vocabulary_.encoded(bytes_);
    if (size() < 2 * context_ + 1)
      throw BadInput(fmt::format("--data text:{}: {} {} of text are too few for a context of {}",
                                 where, size(), tokens.empty() ? "bytes" : "tokens", context));
    windows_ = (size() - 1) / context_;
    training_ = windows_ - std::max<size_t>(windows_ / 10, 1);
  }
  // Tokens of the whole text.
  size_t size() const { return tokens_.empty() ? bytes_.size() : tokens_.size(); }
  std::string about() const override {
    const std::string tokens =
        tokens_.empty() ? "" : fmt::format("{} tokens of {} kinds, ", size(), vocabulary_.size());
    return fmt::format("{:.1f} MB of text ({}{}, {} file{})", double(bytes_.size()) / 1e6, tokens,
                       name_, files_, files_ == 1 ? "" : "s");
  }
  uint64_t digest() const override {
    const uint64_t text = digest_of(std::as_bytes(std::span(bytes_)));
    return tokens_.empty() ? text : digest_of(std::as_bytes(std::span(tokens_)), text);
  }
  uint64_t training_samples() const override { return training_; }
  uint64_t validation_samples() const override { return windows_ - training_; }
  int64_t terms() const override { return int64_t(context_); }
  double bytes_a_term() const override { return double(bytes_.size()) / double(size()); }
  void append(uint64_t index, Batch& batch) const override {
    const size_t from = index * context_;
    for (size_t i = from; i <= from + context_; ++i)
      batch.tokens.push_back(tokens_.empty() ? uint8_t(bytes_[i]) : tokens_[i]);
  }

 private:
  std::string name_;
  size_t files_ = 0;
  std::string bytes_;
  std::vector<uint16_t> tokens_;  // empty where they are the bytes
  size_t context_;
  size_t windows_ = 0;
  size_t training_ = 0;
};

}  // namespace

std::unique_ptr<Data> open_text(const std::string& path, int64_t context,
                                const std::string& tokens) {
  return std::make_unique<Text>(path, context, tokens);
}

}  // namespace tutti::train
