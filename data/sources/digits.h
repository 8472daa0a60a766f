// The handwritten digits of scikit-learn (UCI "Optical Recognition of Handwritten Digits", test part): 1,797 images of
// 8 × 8 pixels with values 0 … 16, and the digit.
//
//   auto train = data::digits("train");                      // "input": f32[64] in [0, 1], "target": i64
//   auto images = data::digits("test", {.image = true});     // "input": f32[1, 8, 8]
#pragma once
#include <filesystem>
#include <memory>
#include <string_view>

#include "data/dataset.h"

namespace weft::data {

struct DigitsOptions {
  bool image = false;               // rows of shape {1, 8, 8} instead of {64}
  std::filesystem::path file = {};  // default: digits.csv in data_directory(); 64 pixels and the label a line
};

// `split`: "test" is every fifth row (359 of the 1,797), "train" the others, "all" both. Throws not_found when the file
// is missing, saying how to get it, and corrupt_data naming the line that is not as expected.
std::shared_ptr<TensorDataset> digits(std::string_view split, const DigitsOptions& options = {});

}  // namespace weft::data
