// StateDict: names and tensors in the order of a module's declaration.
//
//   StateDict state = net.state_dict();            // "fc1.weight", "fc1.bias", …
//   save_safetensors(state, "mlp.safetensors");
#pragma once
#include "tensor/ordered_map.h"
#include "tensor/tensor.h"

namespace weft {

using StateDict = OrderedMap<Tensor>;

}  // namespace weft
