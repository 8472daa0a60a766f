// What the reader and the writer of safetensors files share. Not for users; see tensor/safetensors.h.
#pragma once
#include <functional>
#include <string_view>

#include "tensor/safetensors.h"

namespace weft::detail {

// The metadata entry that lists tied names as JSON.
inline constexpr std::string_view kAliasesKey = "weft.aliases";

// Neither the metadata's key nor with a zero byte inside.
bool is_tensor_name(std::string_view name);

// The names that `metadata` ties to tensors. A list under kAliasesKey counts alone and must be right; without it, every
// entry that leads from what is no tensor to what is one.
Metadata aliases_of(const Metadata& metadata, const std::function<bool(std::string_view)>& is_tensor,
                    std::string_view origin);

}  // namespace weft::detail
