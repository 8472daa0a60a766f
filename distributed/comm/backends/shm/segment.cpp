#include "distributed/comm/backends/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <limits>

#include "kernels/base/error.h"

namespace weft::comm {
namespace {

constexpr std::string_view kOp = "shared memory";

int64_t read_number(const std::string& path) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? value : std::numeric_limits<int64_t>::max();  // "max" or no such file: no limit
}

// Bytes that can still be had: what the machine has free and what our control group leaves, whichever is less. The kernel
// would give out more than there is and then kill a process that uses it.
int64_t available_bytes() {
  int64_t available = std::numeric_limits<int64_t>::max();
  std::ifstream information("/proc/meminfo");
  for (std::string key, unit; information >> key;) {
    if (key == "MemAvailable:") {
      int64_t kilobytes = 0;
      if (information >> kilobytes) available = kilobytes * 1024;
      break;
    }
    std::getline(information, unit);
  }
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.rfind("0::", 0) != 0) continue;
    const std::string folder = "/sys/fs/cgroup" + line.substr(3);
    const int64_t limit = read_number(folder + "/memory.max");
    const int64_t used = read_number(folder + "/memory.current");
    if (limit < std::numeric_limits<int64_t>::max() && used < std::numeric_limits<int64_t>::max())
      available = std::min(available, std::max<int64_t>(0, limit - used));
  }
  return available;
}

[[noreturn]] void fail_memory(int64_t bytes, const std::string& purpose, const std::string& why) {
  fail(ErrorCode::out_of_memory, kOp, "cannot get {} bytes for {}: {}", bytes, purpose, why);
}

}  // namespace

FileDescriptor create_memory_file(int64_t bytes, const std::string& purpose) {
  const int64_t available = available_bytes();
  if (bytes > available) fail_memory(bytes, purpose, fmt::format("only {} bytes are available", available));
  rlimit limit{};  // going over it would be a signal, not an error
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      static_cast<uint64_t>(bytes) > limit.rlim_cur)
    fail_memory(bytes, purpose, fmt::format("the file size limit (ulimit -f) is {} bytes", limit.rlim_cur));
  FileDescriptor file(memfd_create("weft", MFD_CLOEXEC));
  if (!file) fail_memory(bytes, purpose, error_text(errno));
  if (ftruncate(file.get(), bytes) != 0) fail_memory(bytes, purpose, error_text(errno));
  int result;
  do {
    result = fallocate(file.get(), 0, 0, bytes);
  } while (result != 0 && errno == EINTR);
  if (result != 0) fail_memory(bytes, purpose, error_text(errno));
  return file;
}

Mapping::Mapping(int file, int64_t bytes) : bytes_(bytes) {
  void* data = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
  if (data == MAP_FAILED) fail(ErrorCode::out_of_memory, kOp, "cannot map {} bytes: {}", bytes, error_text(errno));
  data_ = static_cast<std::byte*>(data);
}

Mapping::~Mapping() {
  if (data_) munmap(data_, static_cast<size_t>(bytes_));
}

}  // namespace weft::comm
