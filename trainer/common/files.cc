#include "trainer/common/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "trainer/common/error.h"

namespace tutti::train {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// Gives `take` the contents of a file, one part after the other.
template <class Take>
void for_each_part(const std::string& path, Take&& take) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "r"),
                                                             std::fclose);
  if (!file) fail("cannot read " + path);
  std::vector<char> part(1 << 20);
  for (size_t n = 0; (n = std::fread(part.data(), 1, part.size(), file.get())) > 0;)
    take(std::string_view(part.data(), n));
  if (std::ferror(file.get()) != 0) fail("cannot read " + path);
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
}

void Sha256::add(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
}

std::string Sha256::finish() {
  std::array<unsigned char, 32> bytes{};
  EVP_DigestFinal_ex(context_.get(), bytes.data(), nullptr);
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

DurableFile::DurableFile(const std::string& path)
    : fd_(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
  if (fd_ < 0) fail("cannot create " + path);
}

DurableFile::~DurableFile() {
  if (fd_ >= 0) ::close(fd_);
}

void DurableFile::write(std::span<const std::byte> bytes) {
  digest_.add(bytes);
  size_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), std::min<size_t>(bytes.size(), 1 << 26));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot write");
    bytes = bytes.subspan(size_t(written));
  }
}

std::string DurableFile::close() {
  if (fsync(fd_) != 0) fail("cannot write");
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0) fail("cannot write");
  return digest_.finish();
}

void write_file(const std::string& path, const std::string& text) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  if (!file) fail("cannot write " + path);
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !written) fail("cannot write " + path);
}

std::string read_file(const std::string& path) {
  std::string text;
  for_each_part(path, [&](std::string_view part) { text += part; });
  return text;
}

uint64_t room_in(const char* option, const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code error, ignored;
  const fs::path folder = fs::absolute(name, error), trial = folder / "unfinished-trial";
  std::vector<fs::path> made{trial};  // the innermost first
  for (fs::path path = folder; !path.empty() && !fs::exists(path, ignored);
       path = path.parent_path())
    made.push_back(path);
  fs::create_directories(folder, error);
  if (!error) fs::create_directory(trial, error);
  const auto room = error ? fs::space_info{} : fs::space(folder, error);
  for (const fs::path& path : made) fs::remove(path, ignored);
  if (error) throw BadInput(fmt::format("{} {}: {}", option, name, error.message()));
  return room.available;
}

void sync_folder(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail("cannot open " + path);
  const int status = fsync(fd);
  ::close(fd);
  if (status != 0) fail("cannot write " + path);
}

std::string sha256_of(const std::string& path) {
  Sha256 digest;
  try {
    for_each_part(path, [&](std::string_view part) { digest.add(std::as_bytes(std::span(part))); });
  } catch (const std::system_error&) {
    return "";
  }
  return digest.finish();
}

std::string sha256_of_text(std::string_view text) {
  Sha256 digest;
  digest.add(std::as_bytes(std::span(text)));
  return digest.finish();
}

}  // namespace tutti::train
