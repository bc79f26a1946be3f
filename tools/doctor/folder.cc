#include "tools/doctor/folder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/host_name.h"
#include "lib/base/process_state.h"
#include "lib/record/writer_lock.h"

namespace tutti::doctor {

namespace {

// Mapped and not read: whoever writes it may go on meanwhile.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (!file_ || fstat(file_.get(), &found_) != 0 || !S_ISREG(found_.st_mode)) {
      if (file_) errno = EINVAL;
      return;
    }
    readable_ = true;
    if (found_.st_size == 0) return;
    base_ = mmap(nullptr, size_t(found_.st_size), PROT_READ, MAP_SHARED, file_.get(), 0);
    readable_ = base_ != MAP_FAILED;
  }
  ~MappedFile() {
    if (base_ != MAP_FAILED) munmap(base_, size_t(found_.st_size));
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  bool readable() const { return readable_; }
  std::span<const std::byte> bytes() const {
    if (base_ == MAP_FAILED) return {};
    return {static_cast<const std::byte*>(base_), size_t(found_.st_size)};
  }
  const Fd& file() const { return file_; }
  const struct stat& found() const { return found_; }

 private:
  Fd file_;
  struct stat found_ {};
  void* base_ = MAP_FAILED;
  bool readable_ = false;
};

// Copies tell nothing.
Life life_of(const MappedFile& mapped, const record::ReadProcess& process) {
  if (uint64_t(mapped.found().st_dev) != process.device ||
      uint64_t(mapped.found().st_ino) != process.inode) {
    return process.ended_in_order ? Life::ended : Life::unknown;
  }
  const record::Writer writer = record::writer_of(mapped.file());
  if (writer.is == record::Writer::Is::unknown) return Life::unknown;
  if (writer.is == record::Writer::Is::gone) return Life::ended;
  if (writer.process <= 0 || !host_name().starts_with(process.host)) return Life::running;
  return process::is_stopped(writer.process) ? Life::stopped : Life::running;
}

}  // namespace

Status read_folder(const std::string& path, Folder* out) {
  std::error_code error;
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator at(path, error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().extension() == ".record") names.push_back(at->path().string());
  }
  if (error) return {TUTTI_INVALID, "cannot read the folder " + path + ": " + error.message()};
  std::sort(names.begin(), names.end());
  Folder folder;
  bool writers = false;
  for (const std::string& name : names) {
    const MappedFile mapped(name);
    if (!mapped.readable()) {
      folder.damaged.push_back("cannot read " + name + ": " + std::strerror(errno));
      continue;
    }
    Subject subject;
    if (const Status read = record::read(mapped.bytes(), name, &subject.record); !read.ok()) {
      folder.damaged.push_back(read.text());
      continue;
    }
    subject.life = life_of(mapped, subject.record);
    writers = writers || subject.life == Life::running || subject.life == Life::stopped;
    folder.subjects.push_back(std::move(subject));
  }
  if (writers) folder.now_ns = realtime_ns();
  *out = std::move(folder);
  return {};
}

}  // namespace tutti::doctor
