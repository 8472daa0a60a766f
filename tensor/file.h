// Files: read whole, mapped into memory, or written so that a reader sees the old or the new content, never a half.
//
//   AtomicFile file("model.json");
//   file.write(text);
//   file.commit();                          // without it, or on an exception: no trace of the new content
//   auto mapped = MappedFile::open("model.safetensors");
//
// Errors name the path and the cause: not_found for what is missing, io for what the system refused (a folder where a
// file was expected, permissions, a full disk).
#pragma once
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "kernels/base/ref.h"

namespace weft {

// The content of a regular file.
std::string read_file(const std::filesystem::path& path);
// Replaces `path` by a file with this content, as AtomicFile does.
void write_file(const std::filesystem::path& path, std::string_view content);

// A regular file in memory, read as its pages are touched. The memory may be written: changes stay in this process and
// never reach the file. A file that is replaced (as AtomicFile does) does not disturb those who map it; one that is cut
// short while it is mapped does (SIGBUS), as with any mapping.
class MappedFile final : public RefCounted {
 public:
  static Ref<MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();

  std::byte* data() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }
  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  MappedFile(std::filesystem::path path, std::byte* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}
  std::filesystem::path path_;
  std::byte* data_;
  size_t size_;
};

// A file under a temporary name in the target's folder, until commit() makes it durable and gives it the target's name:
// write, fsync, rename, fsync of the folder. A target that is a symbolic link is replaced where it points.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

 private:
  void flush();
  void write_through(const char* data, size_t bytes);
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  std::string buffer_;  // small writes are gathered here
};

// The same for a folder: fill path(), then commit(). Until then, and after a crash, `target` is as it was (missing, or
// the former complete folder). commit() replaces a former folder in one step where the file system can exchange names.
class AtomicFolder {
 public:
  explicit AtomicFolder(const std::filesystem::path& target);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // The temporary folder to write into.
  const std::filesystem::path& path() const noexcept { return temporary_; }
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
};

}  // namespace weft
