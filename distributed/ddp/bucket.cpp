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
  };
  std::vector<Filling> filling;  // one a dtype, in order of appearance
  std::vector<std::vector<size_t>> done;
  for (size_t index : order) {
    const Tensor& tensor = parameters[index].tensor;
    auto at = std::find_if(filling.begin(), filling.end(), [&](const Filling& f) { return f.dtype == tensor.dtype(); });
    if (at == filling.end()) at = filling.insert(filling.end(), {tensor.dtype(), {}, 0, true});
    at->members.push_back(index);
    at->bytes += tensor.nbytes();
    if (at->bytes >= (at->first ? first_cap_bytes : cap_bytes)) {
      done.push_back(std::move(at->members));
      *at = {at->dtype, {}, 0, false};
    }
  }
  for (Filling& rest : filling)
    if (!rest.members.empty()) done.push_back(std::move(rest.members));
  return done;
}

}  // namespace weft::ddp
