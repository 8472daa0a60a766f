#include "distributed/ddp/bucket.h"

#include <algorithm>

namespace weft::ddp {

std::vector<std::vector<size_t>> assign_buckets(const std::vector<Parameter>& parameters,
                                                const std::vector<size_t>& order, int64_t first_cap_bytes,
                                                int64_t cap_bytes) {
  struct Filling {
    DType dtype;
    std::vector<size_t> members;
    int64_t bytes = 0;
    bool first = true;
    size_t last = 0;  // where in `order` its last member stands
  };
  std::vector<Filling> filling;  // one a dtype, in order of appearance
  std::vector<Filling> done;
  for (size_t position = 0; position < order.size(); ++position) {
    const size_t index = order[position];
    const Tensor& tensor = parameters[index].tensor;
    auto at = std::find_if(filling.begin(), filling.end(), [&](const Filling& f) { return f.dtype == tensor.dtype(); });
    if (at == filling.end()) at = filling.insert(filling.end(), {tensor.dtype(), {}, 0, true, 0});
    at->members.push_back(index);
    at->bytes += tensor.nbytes();
    at->last = position;
    if (at->bytes >= (at->first ? first_cap_bytes : cap_bytes)) {
      done.push_back(std::move(*at));
      *at = {done.back().dtype, {}, 0, false, 0};
    }
  }
  for (Filling& rest : filling)
    if (!rest.members.empty()) done.push_back(std::move(rest));
  std::sort(done.begin(), done.end(), [](const Filling& a, const Filling& b) { return a.last < b.last; });
  std::vector<std::vector<size_t>> buckets;
  for (Filling& bucket : done) buckets.push_back(std::move(bucket.members));
  return buckets;
}

}  // namespace weft::ddp
