#include "tensor/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "kernels/base/error.h"

namespace weft {

namespace fs = std::filesystem;

namespace {

constexpr size_t kBufferBytes = size_t{256} << 10;

[[noreturn]] void fail_errno(std::string_view op, const fs::path& path, std::string_view what, int error) {
  const ErrorCode code = error == ENOENT || error == ENOTDIR ? ErrorCode::not_found : ErrorCode::io;
  std::string hint;
  if (error == ENOSPC || error == EDQUOT) hint = "; free some space or write elsewhere";
  fail(code, op, "{}: cannot {}: {}{}", path.string(), what, std::generic_category().message(error), hint);
}

// A descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

int open_retry(const fs::path& path, int flags, mode_t mode = 0) {
  int fd;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

// Opens a regular file to read and gives its size. O_NONBLOCK: a pipe must not make us wait for a writer.
int open_regular(std::string_view op, const fs::path& path, size_t* size) {
  const int fd = open_retry(path, O_RDONLY | O_NONBLOCK);
  if (fd < 0) fail_errno(op, path, "open", errno);
  struct stat status;
  if (::fstat(fd, &status) != 0) {
    const int error = errno;
    ::close(fd);
    fail_errno(op, path, "stat", error);
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(fd);
    fail(ErrorCode::io, op, "{}: {}", path.string(),
         S_ISDIR(status.st_mode) ? "is a folder, expected a file" : "is not a regular file");
  }
  *size = static_cast<size_t>(status.st_size);
  return fd;
}

void sync_folder(std::string_view op, const fs::path& folder) {
  const Descriptor fd(open_retry(folder, O_RDONLY | O_DIRECTORY));
  if (fd.get() < 0) fail_errno(op, folder, "open the folder", errno);
  // Some file systems cannot sync a folder and say EINVAL: there is nothing more to do then.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) fail_errno(op, folder, "sync the folder", errno);
}

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

// Where a write to `path` should land: through symbolic links.
fs::path resolve_links(const fs::path& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error)) return path;
  const fs::path resolved = fs::weakly_canonical(path, error);
  return error ? path : resolved;
}

// Names in one folder that nobody else uses: the process and a counter. Short, so that a long target name still fits.
fs::path temporary_name(const fs::path& target) {
  static std::atomic<uint64_t> counter{0};
  return folder_of(target) /
         fmt::format(".weft-{}-{}.tmp", ::getpid(), counter.fetch_add(1, std::memory_order_relaxed));
}

}  // namespace

std::string read_file(const fs::path& path) {
  size_t size = 0;
  const Descriptor fd(open_regular("read_file", path, &size));
  std::string content(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(fd.get(), content.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno("read_file", path, "read", errno);
    if (got == 0) break;  // shorter by now
    done += static_cast<size_t>(got);
  }
  content.resize(done);
  return content;
}

void write_file(const fs::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

Ref<MappedFile> MappedFile::open(const fs::path& path) {
  size_t size = 0;
  const Descriptor fd(open_regular("map_file", path, &size));
  std::byte* data = nullptr;
  if (size > 0) {
    // Private and writable: an in-place operation on a tensor that aliases the file copies the page it touches.
    void* mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd.get(), 0);
    if (mapped == MAP_FAILED) fail_errno("map_file", path, "map into memory", errno);
    data = static_cast<std::byte*>(mapped);
  }
  return Ref<MappedFile>(new MappedFile(path, data, size));
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(data_, size_);
}

AtomicFile::AtomicFile(const fs::path& target) : target_(resolve_links(target)) {
  WEFT_CHECK(target_.has_filename(), "write_file", "\"{}\" does not name a file", target.string());
  std::error_code ignored;
  if (fs::is_directory(target_, ignored))
    fail(ErrorCode::io, "write_file", "{}: is a folder, expected a file", target_.string());
  temporary_ = temporary_name(target_);
  do {
    descriptor_ = open_retry(temporary_, O_WRONLY | O_CREAT | O_EXCL, 0666);
    // A leftover of a killed process with our number: take the next name.
    if (descriptor_ < 0 && errno == EEXIST) temporary_ = temporary_name(target_);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR)
      fail(ErrorCode::not_found, "write_file", "{}: there is no folder {}", target_.string(),
           folder_of(target_).string());
    fail_errno("write_file", target_, "create", error);
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write_through(const char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor_, data, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_errno("write_file", target_, "write", errno);
    data += written;
    bytes -= static_cast<size_t>(written);
  }
}

void AtomicFile::flush() {
  write_through(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void AtomicFile::write(const void* data, size_t bytes) {
  WEFT_CHECK(descriptor_ >= 0, "write_file", "{}: already committed", target_.string());
  if (bytes == 0) return;
  if (buffer_.size() + bytes > kBufferBytes) flush();
  if (bytes > kBufferBytes) {
    write_through(static_cast<const char*>(data), bytes);
  } else {
    buffer_.append(static_cast<const char*>(data), bytes);
  }
}

void AtomicFile::commit() {
  WEFT_CHECK(descriptor_ >= 0, "write_file", "{}: already committed", target_.string());
  flush();
  if (::fsync(descriptor_) != 0) fail_errno("write_file", target_, "sync", errno);
  // Network file systems report some write errors only here.
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed != 0 || ::rename(temporary_.c_str(), target_.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary_.c_str());
    fail_errno("write_file", target_, closed != 0 ? "close" : "rename the new file to this name", error);
  }
  sync_folder("write_file", folder_of(target_));
}

namespace {

// Syncs every file and folder below and with `folder`.
void sync_tree(const fs::path& folder) {
  try {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_directory()) {
        sync_folder("write_folder", entry.path());
      } else if (entry.is_regular_file()) {
        const Descriptor fd(open_retry(entry.path(), O_RDONLY));
        if (fd.get() < 0 || ::fsync(fd.get()) != 0) fail_errno("write_folder", entry.path(), "sync", errno);
      }
    }
  } catch (const fs::filesystem_error& error) {
    fail_errno("write_folder", folder, "list the folder", error.code().value());
  }
  sync_folder("write_folder", folder);
}

}  // namespace

AtomicFolder::AtomicFolder(const fs::path& target) : target_(target) {
  if (!target_.has_filename()) target_ = target_.parent_path();  // "checkpoint/"
  WEFT_CHECK(target_.has_filename(), "write_folder", "\"{}\" does not name a folder", target.string());
  std::error_code ignored;
  if (fs::exists(target_, ignored) && !fs::is_directory(target_, ignored))
    fail(ErrorCode::io, "write_folder", "{}: is a file, expected a folder", target_.string());
  int error = 0;
  do {
    temporary_ = temporary_name(target_);
    error = ::mkdir(temporary_.c_str(), 0777) == 0 ? 0 : errno;
  } while (error == EEXIST);
  if (error == 0) return;
  const fs::path failed = std::exchange(temporary_, {});
  fail_errno("write_folder", target_, fmt::format("create a folder in {}", folder_of(failed).string()), error);
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

void AtomicFolder::commit() {
  WEFT_CHECK(!temporary_.empty(), "write_folder", "{}: already committed", target_.string());
  sync_tree(temporary_);
  std::error_code ignored;
  if (!fs::exists(target_, ignored)) {
    if (::rename(temporary_.c_str(), target_.c_str()) != 0)
      fail_errno("write_folder", target_, "rename the new folder to this name", errno);
    temporary_.clear();
  } else if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) != 0) {
    // No exchange on this file system: move the former folder away first, and back where the second step fails.
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP)
      fail_errno("write_folder", target_, "exchange it with the new folder", errno);
    const fs::path former = temporary_name(target_);
    if (::rename(target_.c_str(), former.c_str()) != 0)
      fail_errno("write_folder", target_, "move the former folder away", errno);
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
      const int error = errno;
      fs::rename(former, target_, ignored);
      fail_errno("write_folder", target_, "rename the new folder to this name", error);
    }
    temporary_ = former;
  }
  // What is left under the temporary name is the former folder.
  if (!temporary_.empty()) fs::remove_all(std::exchange(temporary_, {}), ignored);
  sync_folder("write_folder", folder_of(target_));
}

}  // namespace weft
