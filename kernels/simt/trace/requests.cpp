#include "kernels/simt/trace/requests.h"

#include <algorithm>
#include <array>
#include <bit>

namespace weft::trace {
namespace {

struct Span {
  uintptr_t begin;
  uintptr_t end;
};

// Different bytes of sorted spans, and pieces of `size` bytes that they touch.
struct Extent {
  uint64_t bytes = 0;
  uint64_t pieces = 0;
};
Extent measure(const Span* spans, size_t count, uintptr_t size) {
  Extent extent;
  uintptr_t covered = 0;
  uintptr_t next_piece = 0;
  for (size_t i = 0; i < count; ++i) {
    const uintptr_t begin = std::max(spans[i].begin, covered);
    if (spans[i].end <= begin) continue;
    extent.bytes += spans[i].end - begin;
    covered = spans[i].end;
    const uintptr_t first = std::max(begin / size, next_piece);
    const uintptr_t last = (spans[i].end - 1) / size;
    if (last >= first) extent.pieces += last - first + 1;
    next_piece = std::max(next_piece, last + 1);
  }
  return extent;
}

// Rounds over the banks for lanes that are served together: the most different words that one bank has to give.
unsigned rounds(const Span* spans, size_t count) {
  std::array<uintptr_t, 256> words;
  size_t used = 0;
  for (size_t i = 0; i < count; ++i)
    for (uintptr_t word = spans[i].begin / 4; word <= (spans[i].end - 1) / 4 && used < words.size(); ++word)
      words[used++] = word;
  std::sort(words.begin(), words.begin() + used);
  std::array<unsigned, 32> bank{};
  unsigned most = 1;
  for (size_t i = 0; i < used; ++i) {
    if (i > 0 && words[i] == words[i - 1]) continue;
    most = std::max(most, ++bank[words[i] % 32]);
  }
  return most;
}

}  // namespace

void RequestLog::reset(unsigned threads) {
  threads_.resize(threads);
  for (auto& entries : threads_) entries.clear();
}

void RequestLog::flush(std::vector<Site>& sites) {
  cursor_.resize(std::max(cursor_.size(), sites.size()));
  std::vector<uint32_t> touched;
  for (size_t warp = 0; warp * 32 < threads_.size(); ++warp) {
    const size_t lanes = std::min<size_t>(32, threads_.size() - warp * 32);
    requests_.clear();
    first_.clear();
    std::vector<uint32_t>& last = cursor_;
    for (size_t lane = 0; lane < lanes; ++lane) {
      // Before a lane begins, no site has a cursor: 0. `last` then is the request that the lane was in last, plus one.
      for (const uint32_t site : touched) last[site] = 0;
      touched.clear();
      for (const Entry& entry : threads_[warp * 32 + lane]) {
        uint32_t& cursor = last[entry.site];
        if (cursor == 0) touched.push_back(entry.site);
        uint32_t& next = cursor == 0 ? first_[entry.site] : requests_[cursor - 1].next;
        if (next == 0) {
          next = static_cast<uint32_t>(requests_.size() + 1);
          cursor = next;
          requests_.emplace_back();
          requests_.back().site = entry.site;
        } else {
          cursor = next;
        }
        Request& request = requests_[cursor - 1];
        request.lanes |= 1u << lane;
        request.bytes = std::max(request.bytes, entry.bytes);
        request.address[lane] = entry.address;
      }
    }
    for (const uint32_t site : touched) last[site] = 0;
    touched.clear();
    for (const Request& request : requests_) count(request, static_cast<unsigned>(lanes), sites[request.site]);
  }
  for (auto& entries : threads_) entries.clear();
}

void RequestLog::count(const Request& request, unsigned warp_lanes, Site& site) {
  LineFigures& figures = site.figures;
  const auto active = static_cast<unsigned>(std::popcount(request.lanes));
  ++figures.requests;
  figures.lanes += active;
  figures.possible_lanes += warp_lanes;
  const unsigned run = request.lanes >> std::countr_zero(request.lanes);
  if (run & (run + 1)) ++figures.scattered;

  std::array<Span, 32> spans;
  size_t used = 0;
  bool same_stride = true;
  int64_t stride = 0;
  for (unsigned rest = request.lanes; rest; rest &= rest - 1, ++used) {
    const uintptr_t address = request.address[std::countr_zero(rest)];
    spans[used] = {address, address + request.bytes};
    if (used == 0) continue;
    const auto step = static_cast<int64_t>(address - spans[used - 1].begin);
    same_stride = same_stride && (used == 1 || step == stride);
    stride = step;
  }
  if (used > 1) {
    const bool first = figures.lanes == active || figures.stride == 0;
    site.regular = site.regular && same_stride && (first || stride == figures.stride);
    figures.stride = site.regular ? stride : 0;
  }

  if (figures.shared) {
    // Lanes are served in groups, in their order.
    const unsigned group = request.bytes > 8 ? 8 : request.bytes > 4 ? 16 : 32;
    for (unsigned begin = 0; begin < 32; begin += group) {
      std::array<Span, 32> served;
      size_t count = 0;
      for (unsigned lane = begin; lane < begin + group; ++lane)
        if (request.lanes >> lane & 1) served[count++] = {request.address[lane], request.address[lane] + request.bytes};
      if (count == 0) continue;
      figures.passes += rounds(served.data(), count);
      ++figures.needed_passes;
    }
  }
  const auto by_address = [](const Span& a, const Span& b) { return a.begin < b.begin; };
  if (!std::is_sorted(spans.begin(), spans.begin() + used, by_address))
    std::sort(spans.begin(), spans.begin() + used, by_address);
  const Extent extent = measure(spans.data(), used, 32);
  figures.useful_bytes += extent.bytes;
  if (figures.shared) return;
  figures.sectors += extent.pieces;
  figures.needed_sectors += (extent.bytes + 31) / 32;
}

}  // namespace weft::trace
