// Cases of data_rng: recorded draws of torch's CPU generator, recipe by recipe, and Philox blocks.
#pragma once
#include "tensor/tree.h"

namespace weft::testing {

void check_random(const std::string& key, const Tree& c);

}  // namespace weft::testing
