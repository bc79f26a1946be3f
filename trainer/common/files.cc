#include "trainer/common/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "trainer/common/error.h"

namespace tutti::train {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
}

void Sha256::add(const void* bytes, size_t size) { EVP_DigestUpdate(context_.get(), bytes, size); }

std::string Sha256::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned size = 0;
  EVP_DigestFinal_ex(context_.get(), bytes.data(), &size);
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

DurableFile::DurableFile(const std::string& path)
    : fd_(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
  if (fd_ < 0) fail("cannot create " + path);
}

DurableFile::~DurableFile() {
  if (fd_ >= 0) ::close(fd_);
}

void DurableFile::write(const void* bytes, size_t size) {
  digest_.add(bytes, size);
  size_ += size;
  const char* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t written = ::write(fd_, at, std::min<size_t>(size, 1 << 26));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot write");
    at += written;
    size -= size_t(written);
  }
}

std::string DurableFile::close() {
  if (fsync(fd_) != 0) fail("cannot write");
  const int fd = fd_;
  fd_ = -1;
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
  std::FILE* const file = std::fopen(path.c_str(), "r");
  if (!file) fail("cannot read " + path);
  std::string text;
  char part[65536];
  for (size_t n = 0; (n = std::fread(part, 1, sizeof part, file)) > 0;) text.append(part, n);
  const bool failed = std::ferror(file) != 0;
  std::fclose(file);
  if (failed) fail("cannot read " + path);
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
  std::ifstream file(path, std::ios::binary);
  if (!file) return "";
  Sha256 digest;
  std::vector<char> part(1 << 20);
  while (file.read(part.data(), std::streamsize(part.size())) || file.gcount() > 0)
    digest.add(part.data(), size_t(file.gcount()));
  return digest.finish();
}

std::string sha256_of_text(const std::string& text) {
  Sha256 digest;
  digest.add(text.data(), text.size());
  return digest.finish();
}

}  // namespace tutti::train
