// What a warp's accesses cost a GPU: accesses of single threads, gathered to requests of warps, counted in sectors and
// passes over the banks.
//
//   RequestLog log;
//   log.add(thread, site, address, 4);            // thread by thread, in any order among threads
//   log.flush(warps, sites);                      // at a barrier: everything so far is complete
//
// A request is what the lanes of a warp do in one instruction. The emulator runs threads one after the other, so the
// k-th time that each lane executes an instruction (since the last barrier of the block) is taken to be one request. For
// lanes that take different numbers of turns through a loop it is where they would meet again.
//
// Global memory moves in sectors of 32 bytes. Shared memory has 32 banks of 4 bytes; lanes that need different words of
// one bank wait for each other. Accesses of 8 bytes are served half a warp at a time, those of 16 a quarter (CUDA C++
// Programming Guide, compute capability 5.x and later).
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "kernels/simt/trace/report.h"

namespace weft::trace {

// One instruction of a kernel, with its figures so far (LineFigures::at is found at the end).
struct Site {
  const void* pc = nullptr;
  LineFigures figures;
  bool regular = true;  // figures.stride holds for all requests so far
};

class RequestLog {
 public:
  void reset(unsigned threads);
  void add(unsigned thread, uint32_t site, uintptr_t address, unsigned bytes) {
    threads_[thread].push_back({address, site, bytes});
  }
  void flush(std::vector<Site>& sites);

 private:
  struct Entry {
    uintptr_t address;
    uint32_t site;
    uint32_t bytes;
  };
  struct Request {
    uint32_t site = 0;
    uint32_t lanes = 0;  // a bit each
    uint32_t bytes = 0;
    uint32_t next = 0;  // the following request of the same site, plus one
    uintptr_t address[32];
  };
  void count(const Request& request, unsigned warp_lanes, Site& site);

  std::vector<std::vector<Entry>> threads_;
  std::vector<Request> requests_;                 // of the warp in work
  std::unordered_map<uint32_t, uint32_t> first_;  // of a site, plus one
  std::vector<uint32_t> cursor_;                  // by site: the lane's next request, plus one
};

}  // namespace weft::trace
