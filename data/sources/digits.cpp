#include "data/sources/digits.h"

#include <charconv>

#include "data/sources/data_directory.h"
#include "tensor/factory.h"
#include "tensor/file.h"

namespace weft::data {
namespace {

constexpr int kPixels = 64;
constexpr int kTestEvery = 5;  // rows 4, 9, 14, … are for testing

struct Row {
  float pixels[kPixels];
  int64_t digit;
};

// 64 pixels and a label, with commas between.
Row parse_row(std::string_view line, const std::filesystem::path& file, int64_t number) {
  Row row;
  const char* at = line.data();
  const char* const end = at + line.size();
  for (int column = 0; column <= kPixels; ++column) {
    double value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    const bool last = column == kPixels;
    const double most = last ? 9 : 16;
    // The comparison is false for NaN too.
    if (error != std::errc() || !(value >= 0 && value <= most) || (last ? next != end : next == end || *next != ','))
      fail(ErrorCode::corrupt_data, "digits",
           "{}, line {}: expected 64 pixels in [0, 16] and a digit, separated by commas; column {} is not one",
           file.string(), number, column + 1);
    if (last) {
      row.digit = static_cast<int64_t>(value);
    } else {
      row.pixels[column] = static_cast<float>(value / 16);
      at = next + 1;
    }
  }
  return row;
}

}  // namespace

std::shared_ptr<TensorDataset> digits(std::string_view split, const DigitsOptions& options) {
  WEFT_CHECK(split == "train" || split == "test" || split == "all", "digits",
             "expected split \"train\", \"test\" or \"all\", got \"{}\"", split);
  const auto file = options.file.empty() ? data_directory() / "digits.csv" : options.file;
  const std::string text = read_file(require_data(file, "digits"));

  std::vector<Row> rows;
  int64_t index = 0, number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line(text.data() + begin, end - begin);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    begin = end + 1;
    ++number;
    if (line.empty()) continue;
    const bool test = index++ % kTestEvery == kTestEvery - 1;
    const Row row = parse_row(line, file, number);
    if (split == "all" || test == (split == "test")) rows.push_back(row);
  }
  if (rows.empty()) fail(ErrorCode::corrupt_data, "digits", "{} has no rows for \"{}\"", file.string(), split);

  const auto count = static_cast<int64_t>(rows.size());
  Tensor input = options.image ? empty({count, 1, 8, 8}) : empty({count, kPixels});
  Tensor target = empty({count}, i64);
  float* pixels = input.data<float>();
  int64_t* labels = target.data<int64_t>();
  for (const Row& row : rows) {
    pixels = std::copy(std::begin(row.pixels), std::end(row.pixels), pixels);
    *labels++ = row.digit;
  }
  return std::make_shared<TensorDataset>(OrderedMap<Tensor>{{"input", input}, {"target", target}});
}

}  // namespace weft::data
