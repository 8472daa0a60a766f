// The device's gather, scatter, select, add, nonzero, sort and check against the CPU's, bit for bit.
#include "kernels/index/index.h"

#include <algorithm>

#include "tests/kernels/device_test.h"

namespace weft {
namespace {

int64_t product(const std::vector<int64_t>& sizes) {
  int64_t total = 1;
  for (const int64_t size : sizes) total *= size;
  return total;
}

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
  return strides;
}

// Walks an index of shape `index` beside the tensor `table` that it points into along `dim` and the tensor of its own
// shape: (table, index, own) where `gathers`, else (own, index, table).
struct Walk {
  Layout<3> layout;
  int64_t step = 0;  // of the table along dim

  Walk(const std::vector<int64_t>& table, const std::vector<int64_t>& index, size_t dim, bool gathers) {
    const std::vector<int64_t> table_strides = contiguous_strides(table), own = contiguous_strides(index);
    for (size_t d = 0; d < index.size(); ++d) {
      const int64_t of_table = d == dim ? 0 : table_strides[d];
      layout.push(index[d], gathers ? std::array{of_table, own[d], own[d]} : std::array{own[d], own[d], of_table});
    }
    step = table_strides[dim];
    layout.collapse();
  }
};

struct Shapes {
  std::vector<int64_t> table, index;
  size_t dim;
};
const std::vector<Shapes> kShapes = {
    {{7}, {5}, 0},
    {{7}, {400}, 0},
    {{5, 9}, {5, 4}, 1},
    {{5, 9}, {60, 9}, 0},
    {{3, 4, 6}, {3, 70, 5}, 1},
    {{3, 4, 6}, {2, 3, 6}, 0},
    {{3, 4, 6}, {3, 4, 90}, 2},
    {{2, 3}, {2, 1}, 1},
    {{1, 1}, {1, 1}, 0},
    {{2, 5, 3, 2}, {2, 40, 3, 2}, 1},
    {{3}, {2500}, 0},
    {{600, 2}, {600, 2}, 0},
};

template <class T>
void check_moves(const TestDevice& device) {
  unsigned seed = 0;
  for (const Shapes& s : kShapes) {
    SCOPED_TRACE(testing::Message() << sizeof(T) << " bytes, shapes " << testing::PrintToString(s.table) << " by "
                                    << testing::PrintToString(s.index) << " along " << s.dim);
    const auto table_size = static_cast<size_t>(product(s.table)), count = static_cast<size_t>(product(s.index));
    const std::vector<int64_t> index = random_indices(count, s.table[s.dim], ++seed);
    const auto numbers = random_indices(table_size + count, 100, ++seed);
    std::vector<T> table(table_size), own(count);
    for (size_t i = 0; i < table_size; ++i) table[i] = static_cast<T>(numbers[i]);
    for (size_t i = 0; i < count; ++i) own[i] = static_cast<T>(numbers[table_size + i]);
    DeviceArray<int64_t> device_index(device, index);
    DeviceArray<T> device_table(device, table), device_own(device, own), out(device, count);

    const Walk gathers(s.table, s.index, s.dim, true), scatters(s.table, s.index, s.dim, false);
    device.kernels().index.gather(device.stream(), sizeof(T), gathers.layout, device_table.data(), gathers.step,
                                  device_index.data(), out.data());
    std::vector<T> expected(count);
    cpu::index_kernels.gather({}, sizeof(T), gathers.layout, table.data(), gathers.step, index.data(), expected.data());
    expect_same_bits(out.host(), expected);

    device.kernels().index.scatter(device.stream(), sizeof(T), scatters.layout, device_own.data(), device_index.data(),
                                   device_table.data(), scatters.step);
    cpu::index_kernels.scatter({}, sizeof(T), scatters.layout, own.data(), index.data(), table.data(), scatters.step);
    expect_same_bits(device_table.host(), table);
  }
}

TEST(IndexDevice, GatherAndScatter) {
  on_devices([](const TestDevice& device) {
    check_moves<uint8_t>(device);
    check_moves<uint16_t>(device);
    check_moves<uint32_t>(device);
    check_moves<uint64_t>(device);
    EXPECT_THROW(
        device.kernels().index.gather(device.stream(), 3, Walk({2}, {2}, 0, true).layout, nullptr, 1, nullptr, nullptr),
        Error);
  });
}

// Values that T holds, and sums whose bits show the order in which they were made.
template <class T>
std::vector<T> values_of(size_t count, unsigned seed) {
  if constexpr (std::is_integral_v<T>) {
    std::vector<T> values = random_indices(count, int64_t{1} << 62, seed);
    return values;
  } else {
    return random_values<T>(count, 1, seed);
  }
}

template <class T>
void check_sums(const TestDevice& device) {
  unsigned seed = 20;
  for (const Shapes& s : kShapes) {
    SCOPED_TRACE(testing::Message() << name(dtype_of<T>) << ", shapes " << testing::PrintToString(s.table) << " by "
                                    << testing::PrintToString(s.index) << " along " << s.dim);
    const auto count = static_cast<size_t>(product(s.index));
    std::vector<T> table = values_of<T>(static_cast<size_t>(product(s.table)), ++seed);
    const std::vector<T> own = values_of<T>(count, ++seed);
    const std::vector<int64_t> index = random_indices(count, s.table[s.dim], ++seed);
    DeviceArray<int64_t> device_index(device, index);
    DeviceArray<T> device_table(device, table), device_own(device, own);
    const Walk walk(s.table, s.index, s.dim, false);
    device.kernels().index.scatter_add(device.stream(), dtype_of<T>, walk.layout, device_own.data(),
                                       device_index.data(), device_table.data(), walk.step);
    cpu::index_kernels.scatter_add({}, dtype_of<T>, walk.layout, own.data(), index.data(), table.data(), walk.step);
    expect_same_bits(device_table.host(), table);
  }
}

template <class T>
void check_rows(const TestDevice& device, int64_t outer, int64_t size, int64_t inner, int64_t n, double alpha) {
  SCOPED_TRACE(testing::Message() << name(dtype_of<T>) << " " << outer << " x " << size << " x " << inner << " by " << n
                                  << ", alpha " << alpha);
  std::vector<T> table = values_of<T>(static_cast<size_t>(outer * size * inner), 41);
  const std::vector<T> source = values_of<T>(static_cast<size_t>(outer * n * inner), 42);
  const std::vector<int64_t> index = random_indices(static_cast<size_t>(n), size, 43);
  DeviceArray<int64_t> device_index(device, index);
  DeviceArray<T> device_table(device, table), device_source(device, source), selected(device, source.size());
  device.kernels().index.select(device.stream(), sizeof(T), device_table.data(), outer, size, inner,
                                device_index.data(), n, selected.data());
  std::vector<T> expected(source.size());
  cpu::index_kernels.select({}, sizeof(T), table.data(), outer, size, inner, index.data(), n, expected.data());
  expect_same_bits(selected.host(), expected);

  device.kernels().index.add(device.stream(), dtype_of<T>, device_table.data(), outer, size, inner, device_index.data(),
                             n, device_source.data(), alpha);
  cpu::index_kernels.add({}, dtype_of<T>, table.data(), outer, size, inner, index.data(), n, source.data(), alpha);
  if (device.device.type == DeviceType::simt || alpha == 1 || std::is_integral_v<T>)
    expect_same_bits(device_table.host(), table);
  else  // a GPU rounds alpha · source + out once
    expect_close(device_table.host(), converted<double>(table), static_cast<double>(n) * kRounding<T>);
}

template <class T>
void check_all_rows(const TestDevice& device) {
  check_sums<T>(device);
  check_rows<T>(device, 1, 10, 4, 25, 1);
  check_rows<T>(device, 3, 10, 1, 25, 1);
  check_rows<T>(device, 2, 5, 70, 130, 1);
  check_rows<T>(device, 2, 3, 3, 2100, 2);
  check_rows<T>(device, 2, 3, 3, 10, -3);
  check_rows<T>(device, 2, 3, 4, 0, 1);
  check_rows<T>(device, 0, 3, 4, 5, 1);
  check_rows<T>(device, 2, 3, 0, 5, 1);
}

TEST(IndexDevice, SelectAndSums) {
  on_devices([](const TestDevice& device) {
    check_all_rows<float>(device);
    check_all_rows<double>(device);
    check_all_rows<int64_t>(device);
    EXPECT_THROW(device.kernels().index.add(device.stream(), i32, nullptr, 1, 1, 1, nullptr, 1, nullptr, 1), Error);
  });
}

TEST(IndexDevice, Nonzero) {
  on_devices([](const TestDevice& device) {
    for (const int64_t n : {0, 1, 31, 32, 511, 512, 513, 5000, 200001}) {
      for (const double share : {0.0, 0.1, 1.0}) {
        SCOPED_TRACE(testing::Message() << n << " flags, " << share);
        std::mt19937 generator(7);
        std::bernoulli_distribution flip(share);
        std::vector<uint8_t> flags(static_cast<size_t>(n));
        for (uint8_t& flag : flags) flag = flip(generator);
        std::vector<int64_t> expected;
        for (int64_t i = 0; i < n; ++i)
          if (flags[static_cast<size_t>(i)]) expected.push_back(i);
        DeviceArray<uint8_t> device_flags(device, flags, 1);
        DeviceArray<int64_t> out(device, expected.size());
        const auto* data = reinterpret_cast<const bool*>(device_flags.data());
        const auto count = static_cast<int64_t>(expected.size());
        EXPECT_EQ(device.kernels().index.nonzero(device.stream(), data, n, nullptr), count);
        EXPECT_EQ(device.kernels().index.nonzero(device.stream(), data, n, out.data()), count);
        EXPECT_EQ(out.host(), expected);
      }
    }
  });
}

template <class T>
void check_sort(const TestDevice& device, std::vector<T> x, int64_t rows, int64_t k) {
  const auto n = static_cast<int64_t>(x.size()) / std::max<int64_t>(rows, 1);
  for (const bool descending : {false, true}) {
    SCOPED_TRACE(testing::Message() << name(dtype_of<T>) << ", first " << k << " of " << n << " in " << rows
                                    << " rows, descending " << descending);
    const auto count = static_cast<size_t>(rows * k);
    DeviceArray<T> device_x(device, x), values(device, count);
    DeviceArray<int64_t> indices(device, count);
    device.kernels().index.sort(device.stream(), dtype_of<T>, device_x.data(), rows, n, k, descending, values.data(),
                                indices.data());
    using S = std::conditional_t<std::is_integral_v<T>, T, StatisticType<T>>;
    std::vector<S> wide, expected(count);
    if constexpr (std::is_same_v<S, T>)
      wide = x;
    else
      wide = converted<S>(x);
    std::vector<int64_t> expected_indices(count);
    cpu::index_kernels.sort({}, dtype_of<S>, wide.data(), rows, n, k, descending, expected.data(),
                            expected_indices.data());
    EXPECT_EQ(indices.host(), expected_indices);
    std::vector<T> taken(count);
    for (size_t i = 0; i < count; ++i)
      taken[i] = x[i / static_cast<size_t>(k) * static_cast<size_t>(n) + static_cast<size_t>(expected_indices[i])];
    expect_same_bits(values.host(), taken);
  }
}

template <class T>
void check_all_sorts(const TestDevice& device) {
  for (const int64_t n : {1, 2, 3, 17, 64, 1000, 1024, 1025, 3000, 9001}) {
    const int64_t rows = n > 1000 ? 2 : 9;
    std::vector<T> x = values_of<T>(static_cast<size_t>(rows * n), 51);
    check_sort(device, x, rows, n);
    check_sort(device, x, rows, (n + 3) / 4);
    // Few values: what is equal stays in order.
    for (size_t i = 0; i < x.size(); ++i) x[i] = T(static_cast<float>(i * i % 5) - 2.0f);
    check_sort(device, x, rows, n);
  }
  check_sort(device, std::vector<T>(), 0, 0);
  check_sort(device, std::vector<T>(6), 2, 0);
}

TEST(IndexDevice, Sort) {
  on_devices([](const TestDevice& device) {
    check_all_sorts<float>(device);
    check_all_sorts<double>(device);
    check_all_sorts<int64_t>(device);
    check_all_sorts<BFloat16>(device);
    check_all_sorts<Half>(device);
    EXPECT_THROW(device.kernels().index.sort(device.stream(), u8, nullptr, 1, 1, 1, false, nullptr, nullptr), Error);
  });
}

template <class T>
void check_special_sort(const TestDevice& device) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> specials = {0.0f, nan, -0.0f, infinity, -infinity, 1.0f, -nan, -1.0f, nan, 0.0f, -infinity};
  std::vector<T> row;
  for (const float x : specials) row.push_back(T(x));
  check_sort(device, row, 1, static_cast<int64_t>(row.size()));
  std::vector<T> many;
  for (int i = 0; i < 300; ++i) many.insert(many.end(), row.begin(), row.end());
  check_sort(device, many, 1, static_cast<int64_t>(many.size()));
}

TEST(IndexDevice, SortsNaNAsTheLargest) {
  on_devices([](const TestDevice& device) {
    check_special_sort<float>(device);
    check_special_sort<double>(device);
    check_special_sort<BFloat16>(device);
    const std::vector<int64_t> ends = {std::numeric_limits<int64_t>::max(), -1, std::numeric_limits<int64_t>::min(), 0};
    check_sort(device, ends, 1, 4);
  });
}

TEST(IndexDevice, CheckNamesTheIndexAndTheRange) {
  on_devices([](const TestDevice& device) {
    std::vector<int64_t> index = random_indices(3000, 5, 60);
    const IndexKernels& kernels = device.kernels().index;
    {
      DeviceArray<int64_t> good(device, index);
      kernels.check(device.stream(), "gather", good.data(), 3000, 0, 5);
      kernels.check(device.stream(), "gather", good.data(), 0, 0, 0);
    }
    index[2000] = -4;
    DeviceArray<int64_t> bad(device, index);
    kernels.check(device.stream(), "gather", bad.data(), 3000, -5, 5);
    try {
      kernels.check(device.stream(), "gather", bad.data(), 3000, 0, 5);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.op(), "gather");
      EXPECT_NE(std::string(error.what()).find("position 2000 holds -4"), std::string::npos) << error.what();
    }
    kernels.check(device.stream(), "gather", bad.data(), 2000, 0, 5);
  });
}

}  // namespace
}  // namespace weft
