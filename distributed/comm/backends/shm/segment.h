// Memory that processes share: an anonymous file (memfd), which no name leads to and which disappears with its last user.
//
//   FileDescriptor file = create_memory_file(bytes, "group dp");   // really there: a full memory is an error now,
//   Mapping memory(file.get(), bytes);                               // not a SIGBUS at first use
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "distributed/comm/socket.h"

namespace weft::comm {

// Zeroed memory of `bytes`, reserved in full. Throws out_of_memory naming the bytes and what is available.
FileDescriptor create_memory_file(int64_t bytes, const std::string& purpose);

// A shared, writable mapping of such a file, with its pages mapped at once.
class Mapping {
 public:
  Mapping() = default;
  Mapping(int file, int64_t bytes);
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace weft::comm
