// Files that are written as a whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's

namespace tutti::train {

// A SHA-256 of bytes that come one after the other.
class Sha256 {
 public:
  Sha256();
  void add(std::span<const std::byte> bytes);
  std::string finish();  // in hexadecimal

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

// A file that is being written, with the SHA-256 of its contents so far. Throws std::system_error.
class DurableFile {
 public:
  explicit DurableFile(const std::string& path);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Syncs the file to the disk and closes it. Returns the digest in hexadecimal.
  std::string close();
  uint64_t size() const { return size_; }

 private:
  int fd_;
  uint64_t size_ = 0;
  Sha256 digest_;
};

// Whole files. Throw std::system_error, which names them.
void write_file(const std::string& path, const std::string& text);
std::string read_file(const std::string& path);

// The bytes that are free for a folder that is there or can be made, for which it is tried and
// nothing of that left. Throws BadInput, in the name of the option, if it cannot be written to.
uint64_t room_in(const char* option, const std::string& folder);

void sync_folder(const std::string& path);
// In hexadecimal, of a whole file ("" if it cannot be read), and of a text.
std::string sha256_of(const std::string& path);
std::string sha256_of_text(std::string_view text);

}  // namespace tutti::train
