// A named stretch of the program in a GPU profile (NVTX ranges: Nsight Systems, Nsight Compute).
//
//   ProfileRange range("attention");   // until the end of the scope
//
// It costs a few nanoseconds where no profiler listens, and does nothing in a program that has not used a GPU yet.
#pragma once

namespace weft {

class ProfileRange {
 public:
  explicit ProfileRange(const char* name) noexcept;
  ~ProfileRange();
  ProfileRange(const ProfileRange&) = delete;
  ProfileRange& operator=(const ProfileRange&) = delete;

 private:
  void (*end_)();
};

}  // namespace weft
