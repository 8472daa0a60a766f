#include "tests/distributed/process_group_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "tensor/factory.h"
#include "tests/support/nightly.h"

namespace weft::testing {
namespace {

constexpr DType kAll[] = {f64, f32, f16, bf16, f8e4m3, f8e5m2, i64, i32, i16, i8, u8, boolean};
constexpr Reduce kReductions[] = {Reduce::sum, Reduce::mean, Reduce::min, Reduce::max, Reduce::product};
// Eager, direct and staged, several windows; odd sizes and none.
constexpr int64_t kCounts[] = {0, 1, 7, 4096, 40003, 300007};

// The value of element i on a rank: any number that its type holds, small enough that a product of a few stays finite.
template <class T>
T element(int rank, int64_t i, int salt) {
  uint64_t x = static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15ull + static_cast<uint64_t>(rank * 977 + salt * 31337 + 1);
  x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9ull;
  x ^= x >> 29;
  if constexpr (std::is_same_v<T, bool>) {
    return (x & 3) == 0;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(x);
  } else {
    return T(static_cast<float>(static_cast<int64_t>(x % 4001) - 2000) / 700.0f);
  }
}

void fill(const Tensor& x, int rank, int salt = 0) {
  visit_all(x.dtype(), "fill", [&](auto type) {
    using T = typename decltype(type)::type;
    T* data = x.data<T>();
    for (int64_t i = 0; i < x.numel(); ++i) data[i] = element<T>(rank, i, salt);
  });
}

template <class T>
auto combine(Reduce reduce, T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return reduce == Reduce::sum || reduce == Reduce::max ? (a || b) : (a && b);
  } else {
    using Wide = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
    switch (reduce) {
      case Reduce::min: return b < a ? b : a;
      case Reduce::max: return b > a ? b : a;
      case Reduce::product: return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
      default: return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
    }
  }
}

// Element i of fill()'s tensors, reduced over `ranks` in rank order.
template <class T>
T reduced(Reduce reduce, const std::vector<int>& ranks, int64_t i, int salt = 0) {
  constexpr bool small = std::is_class_v<T>;
  using A = std::conditional_t<small, float, T>;
  A value = static_cast<A>(element<T>(ranks[0], i, salt));
  for (size_t r = 1; r < ranks.size(); ++r)
    value = combine<A>(reduce, value, static_cast<A>(element<T>(ranks[r], i, salt)));
  if constexpr (std::is_floating_point_v<A>) {
    if (reduce == Reduce::mean) value /= static_cast<A>(ranks.size());
  }
  return static_cast<T>(value);
}

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks;
  for (int r = 0; r < size; ++r) ranks.push_back(r);
  return ranks;
}

// Compares bits: `expected(i)` gives the element.
template <class T, class Expected>
::testing::AssertionResult holds(const Tensor& x, Expected expected) {
  const T* data = x.data<T>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    const T want = expected(i);
    if (std::memcmp(&want, &data[i], sizeof(T)) != 0) {
      return ::testing::AssertionFailure()
             << name(x.dtype()) << " element " << i << " of " << x.numel() << " is " << static_cast<double>(data[i])
             << ", expected " << static_cast<double>(want);
    }
  }
  return ::testing::AssertionSuccess();
}

// Calls body(type, tensor maker) for every dtype, count, and both kinds of memory.
template <class Body>
void for_each_kind(const ProcessGroup& group, Body body) {
  for (const DType dtype : kAll) {
    for (const int64_t count : kCounts) {
      if (count > 50000 && dtype != f32 && dtype != bf16) continue;
      if (count > 5000 && (dtype == f8e4m3 || dtype == f8e5m2)) continue;
      for (const bool shared : {false, true}) {
        const auto make = [&](int64_t elements) {
          return shared ? group.empty_shared({elements}, dtype) : empty({elements}, dtype);
        };
        visit_all(dtype, "test", [&](auto type) { body(type, count, make); });
      }
    }
  }
}

void all_reduce_bits(const ProcessGroup& group) {
  const std::vector<int> ranks = all_ranks(group.size());
  for_each_kind(group, [&](auto type, int64_t count, auto make) {
    using T = typename decltype(type)::type;
    const Tensor x = make(count);
    for (const Reduce reduce : kReductions) {
      if (reduce == Reduce::mean && !is_floating(x.dtype())) continue;
      fill(x, group.rank());
      group.all_reduce(x, reduce).wait();
      EXPECT_TRUE(holds<T>(x, [&](int64_t i) { return reduced<T>(reduce, ranks, i); })) << name(reduce);
    }
  });
}

void reduce_to_root(const ProcessGroup& group) {
  const std::vector<int> ranks = all_ranks(group.size());
  for_each_kind(group, [&](auto type, int64_t count, auto make) {
    using T = typename decltype(type)::type;
    const Tensor x = make(count);
    const int root = static_cast<int>(count) % group.size();
    fill(x, group.rank());
    group.reduce(x, root).wait();
    EXPECT_TRUE(holds<T>(x, [&](int64_t i) {
      return group.rank() == root ? reduced<T>(Reduce::sum, ranks, i) : element<T>(group.rank(), i, 0);
    }));
  });
}

void reduce_scatter_bits(const ProcessGroup& group) {
  const std::vector<int> ranks = all_ranks(group.size());
  for_each_kind(group, [&](auto type, int64_t count, auto make) {
    using T = typename decltype(type)::type;
    const Tensor input = make(count * group.size());
    const auto expected = [&](int64_t i) { return reduced<T>(Reduce::sum, ranks, group.rank() * count + i); };
    const Tensor output = empty({count}, input.dtype());
    fill(input, group.rank());
    group.reduce_scatter(output, input).wait();
    EXPECT_TRUE(holds<T>(output, expected));
    EXPECT_TRUE(holds<T>(input, [&](int64_t i) { return element<T>(group.rank(), i, 0); }));
    const Tensor own_part = input.narrow(0, group.rank() * count, count);
    group.reduce_scatter(own_part, input).wait();
    EXPECT_TRUE(holds<T>(own_part, expected)) << "in place";
  });
}

void all_gather_bits(const ProcessGroup& group) {
  for_each_kind(group, [&](auto type, int64_t count, auto make) {
    using T = typename decltype(type)::type;
    const Tensor input = make(count);
    fill(input, group.rank());
    const auto expected = [&](int64_t i) { return element<T>(static_cast<int>(i / count), i % count, 0); };
    const Tensor output = empty({count * group.size()}, input.dtype());
    group.all_gather(output, input).wait();
    EXPECT_TRUE(holds<T>(output, expected));
    const Tensor whole = make(count * group.size());
    const Tensor own_part = whole.narrow(0, group.rank() * count, count);
    fill(own_part, group.rank());
    group.all_gather(whole, own_part).wait();
    EXPECT_TRUE(holds<T>(whole, expected)) << "in place";
  });
}

void gather_and_scatter(const ProcessGroup& group) {
  for_each_kind(group, [&](auto type, int64_t count, auto make) {
    using T = typename decltype(type)::type;
    const int root = group.size() - 1;
    const bool is_root = group.rank() == root;
    const Tensor part = make(count);
    const Tensor whole = make(count * group.size());
    fill(part, group.rank());
    group.gather(is_root ? whole : Tensor(), part, root).wait();
    if (is_root) {
      EXPECT_TRUE(holds<T>(whole, [&](int64_t i) { return element<T>(static_cast<int>(i / count), i % count, 0); }));
      fill(whole, 50);
    }
    group.scatter(part, is_root ? whole : Tensor(), root).wait();
    EXPECT_TRUE(holds<T>(part, [&](int64_t i) { return element<T>(50, group.rank() * count + i, 0); }));
  });
}

void broadcast_bits(const ProcessGroup& group) {
  for_each_kind(group, [&](auto type, int64_t count, auto make) {
    using T = typename decltype(type)::type;
    const int root = static_cast<int>(count) % group.size();
    const Tensor x = make(count);
    fill(x, group.rank());
    group.broadcast(x, root).wait();
    EXPECT_TRUE(holds<T>(x, [&](int64_t i) { return element<T>(root, i, 0); }));
  });
}

void all_to_all_bits(const ProcessGroup& group) {
  for_each_kind(group, [&](auto type, int64_t count, auto make) {
    using T = typename decltype(type)::type;
    const Tensor input = make(count * group.size());
    const Tensor output = make(count * group.size());
    fill(input, group.rank());
    group.all_to_all(output, input).wait();
    EXPECT_TRUE(holds<T>(output, [&](int64_t i) {
      return element<T>(static_cast<int>(i / count), group.rank() * count + i % count, 0);
    }));
  });
}

void send_and_recv(const ProcessGroup& group) {
  if (group.size() == 1) {
    EXPECT_THROW(group.send(ones({1}), 0), Error);
    return;
  }
  const int right = (group.rank() + 1) % group.size();
  const int left = (group.rank() + group.size() - 1) % group.size();
  for (const int64_t count : kCounts) {
    // Everyone sends before it receives: that must not block, however long the message.
    const Tensor out = empty({count}, bf16);
    const Tensor in = empty({count}, bf16);
    const Tensor second = empty({count}, bf16);
    fill(out, group.rank());
    const Work sent = group.send(out, right);
    const Work sent_again = group.send(out, right);
    const Work received = group.recv(in, left);
    const Work received_again = group.recv(second, left);
    sent.wait();
    received_again.wait();
    received.wait();
    sent_again.wait();
    for (const Tensor& x : {in, second})
      EXPECT_TRUE(holds<BFloat16>(x, [&](int64_t i) { return element<BFloat16>(left, i, 0); }));
  }
  // Beside collectives, and with messages of different length in a row.
  for (int round = 0; round < test::rounds(20, 200); ++round) {
    const int64_t count = round * 1237;
    const Tensor x = empty({count}, i32);
    fill(x, group.rank(), round);
    if (group.rank() == 0) group.send(x, 1);
    if (group.rank() == 1) {
      group.recv(x, 0).wait();
      EXPECT_TRUE(holds<int32_t>(x, [&](int64_t i) { return element<int32_t>(0, i, round); }));
    }
    group.barrier();
  }
  group.barrier().wait();
}

// A result does not depend on how a buffer is cut.
void chunks_do_not_matter(const ProcessGroup& group) {
  const int64_t count = 200003;
  const Tensor whole = empty({count}, f32);
  const Tensor pieces = group.empty_shared({count}, f32);
  fill(whole, group.rank());
  fill(pieces, group.rank());
  group.all_reduce(whole, Reduce::mean).wait();
  std::vector<Work> works;
  for (int64_t begin = 0, length = 1; begin < count; begin += length, length = length * 3 + 1)
    works.push_back(group.all_reduce(pieces.narrow(0, begin, std::min(length, count - begin)), Reduce::mean));
  for (const Work& work : works) work.wait();
  EXPECT_EQ(std::memcmp(whole.data(), pieces.data(), static_cast<size_t>(whole.nbytes())), 0);
}

void many_in_flight(const ProcessGroup& group) {
  const std::vector<int> ranks = all_ranks(group.size());
  std::vector<Tensor> tensors;
  std::vector<Work> works;
  for (int k = 0; k < 60; ++k) {
    tensors.push_back(k % 3 == 0 ? group.empty_shared({k * 997}, f32) : empty({k * 997}, f32));
    fill(tensors.back(), group.rank(), k);
  }
  const uint64_t before = group.barrier().sequence();
  for (int k = 0; k < 60; ++k) works.push_back(group.all_reduce(tensors[static_cast<size_t>(k)]));
  for (int k = 59; k >= 0; --k) {
    if (k % 7 == 3) continue;  // nobody waits for these
    works[static_cast<size_t>(k)].wait();
    EXPECT_TRUE(works[static_cast<size_t>(k)].done());
    EXPECT_EQ(works[static_cast<size_t>(k)].sequence(), before + 1 + static_cast<uint64_t>(k));
  }
  group.barrier().wait();
  for (int k = 0; k < 60; ++k) {
    EXPECT_TRUE(holds<float>(tensors[static_cast<size_t>(k)],
                             [&](int64_t i) { return reduced<float>(Reduce::sum, ranks, i, k); }));
  }
}

// Operations whose handle and tensor are dropped run all the same.
void dropped_work(const ProcessGroup& group) {
  {
    const Tensor x = ones({1000});
    group.all_reduce(x);
    group.all_reduce(ones({600000}));
  }
  const Tensor y = ones({10});
  group.all_reduce(y).wait();
  EXPECT_EQ(y.data<float>()[9], static_cast<float>(group.size()));
}

void sub_groups(const ProcessGroup& group) {
  // Even and odd ranks, the latter in reverse.
  const int color = group.rank() % 2;
  const ProcessGroup half = group.split(color, color == 0 ? group.rank() : -group.rank(), color == 0 ? "even" : "odd");
  EXPECT_EQ(half.size(), (group.size() + 1 - color) / 2);
  EXPECT_EQ(half.name(), color == 0 ? "even" : "odd");
  std::vector<int> members;
  for (int r = color; r < group.size(); r += 2) members.push_back(r);
  if (color == 1) std::reverse(members.begin(), members.end());
  EXPECT_EQ(members[static_cast<size_t>(half.rank())], group.rank());

  // The parent's shared memory serves the sub-group too, and both groups' operations run at the same time.
  for (const int64_t count : {100, 30000, 400000}) {
    const Tensor x = group.empty_shared({count}, f32);
    const Tensor y = empty({count}, f32);
    const Tensor z = half.empty_shared({count}, f32);
    for (const Tensor& t : {x, y, z}) fill(t, group.rank());
    const Work of_half = half.all_reduce(x);
    const Work of_all = group.all_reduce(y);
    const Work of_half_own = half.all_reduce(z);
    of_all.wait();
    of_half.wait();
    of_half_own.wait();
    for (const Tensor& t : {x, z})
      EXPECT_TRUE(holds<float>(t, [&](int64_t i) { return reduced<float>(Reduce::sum, members, i); }));
    EXPECT_TRUE(holds<float>(y, [&](int64_t i) { return reduced<float>(Reduce::sum, all_ranks(group.size()), i); }));
  }

  // Named ranks; a rank that is in none gets none. A sub-group of a sub-group.
  std::vector<int> others = all_ranks(group.size());
  others.erase(others.begin());
  const ProcessGroup rest = group.subgroup(others);
  EXPECT_EQ(rest.defined(), group.rank() != 0);
  if (rest.defined()) {
    EXPECT_EQ(rest.rank(), group.rank() - 1);
    const ProcessGroup alone = rest.split(rest.rank());
    EXPECT_EQ(alone.size(), 1);
    const Tensor x = ones({5});
    alone.all_reduce(x).wait();
    rest.all_reduce(x).wait();
    EXPECT_EQ(x.data<float>()[4], static_cast<float>(group.size() - 1));
  }
  EXPECT_FALSE(group.split(-1).defined());
  if (group.size() > 1) {
    const std::vector<int> disputed = group.rank() == 0 ? std::vector<int>{0, 1} : std::vector<int>{1};
    EXPECT_THROW(group.subgroup(disputed), Error);
  }
  EXPECT_THROW(group.subgroup({0, group.size()}), Error);
  EXPECT_THROW(group.subgroup({0, 0}), Error);
  group.barrier().wait();
}

void bytes(const ProcessGroup& group) {
  const std::string mine(static_cast<size_t>(group.rank() * 40000), static_cast<char>('a' + group.rank()));
  const std::vector<std::string> all = group.all_gather_bytes(mine);
  ASSERT_EQ(static_cast<int>(all.size()), group.size());
  for (int r = 0; r < group.size(); ++r)
    EXPECT_EQ(all[static_cast<size_t>(r)], std::string(static_cast<size_t>(r * 40000), static_cast<char>('a' + r)));
  EXPECT_EQ(group.broadcast_bytes(group.rank() == 0 ? "from zero" : "something else"), "from zero");
}

// C88: scalars. C89: non-contiguous tensors are sent by value, in order; results reach them.
void shapes_and_strides(const ProcessGroup& group) {
  const Tensor scalar = full({}, 3 + 2 * group.rank());
  const Tensor scalars = group.all_gather(scalar);
  EXPECT_EQ(scalars.shape(), (Shape{group.size()}));
  EXPECT_TRUE(holds<float>(scalars, [](int64_t i) { return static_cast<float>(3 + 2 * i); }));

  const Tensor turned = tensor({1, 2, 3, 4}).reshape({2, 2}).t();
  const Tensor gathered = group.all_gather(turned);
  EXPECT_EQ(gathered.shape(), (Shape{2 * group.size(), 2}));
  const float rows[] = {1, 3, 2, 4};
  EXPECT_TRUE(holds<float>(gathered, [&](int64_t i) { return rows[i % 4]; }));

  // Every second column of a matrix; what lies between stays.
  const Tensor matrix = zeros({50, 40});
  const Tensor columns = matrix.slice(1, 0, 40, 2);
  columns.fill_(group.rank() + 1);
  group.all_reduce(columns).wait();
  const float sum = static_cast<float>(group.size() * (group.size() + 1) / 2);
  EXPECT_TRUE(holds<float>(matrix, [&](int64_t i) { return i % 2 == 0 ? sum : 0.0f; }));
  columns.fill_(group.rank());
  group.broadcast(columns, group.size() - 1).wait();
  EXPECT_TRUE(
      holds<float>(matrix, [&](int64_t i) { return i % 2 == 0 ? static_cast<float>(group.size() - 1) : 0.0f; }));
  const uint32_t version = matrix.version();
  group.all_reduce(matrix).wait();
  EXPECT_GT(matrix.version(), version);
}

// C101: bool and exact int64. C104: a root-only reduction leaves the others' buffers. Mean of integers: an error.
void dtypes_with_rules(const ProcessGroup& group) {
  const Tensor flags = zeros({3}, boolean);
  flags.data<bool>()[0] = true;
  flags.data<bool>()[1] = group.rank() == 0;
  const Tensor all = group.all_gather(flags);
  EXPECT_TRUE(holds<bool>(all, [](int64_t i) { return i % 3 == 0 || i == 1; }));
  group.all_reduce(flags).wait();
  EXPECT_TRUE(holds<bool>(flags, [](int64_t i) { return i < 2; })) << "sum of bool is logical or";

  const Tensor big = empty({2}, i64);
  big.data<int64_t>()[0] = (int64_t{1} << 40) + 1;
  big.data<int64_t>()[1] = std::numeric_limits<int64_t>::max();
  group.all_reduce(big).wait();
  EXPECT_EQ(big.data<int64_t>()[0], group.size() * ((int64_t{1} << 40) + 1));

  const Tensor x = ones({2, 2});
  group.reduce(x, 0).wait();
  EXPECT_TRUE(holds<float>(x, [&](int64_t) { return group.rank() == 0 ? static_cast<float>(group.size()) : 1.0f; }));

  EXPECT_THROW(group.all_reduce(big, Reduce::mean), Error);
  EXPECT_THROW(group.broadcast(x, group.size()), Error);
  EXPECT_THROW(group.all_gather(ones({5}), zeros({5}, i32)), Error);
  EXPECT_THROW(group.all_reduce(Tensor()), Error);

  const Tensor special = tensor({1, 2});
  if (group.rank() == 0) special.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  for (const Reduce reduce : {Reduce::min, Reduce::max}) {
    const Tensor y = special.clone();
    group.all_reduce(y, reduce).wait();
    EXPECT_TRUE(std::isnan(y.data<float>()[0]));
    EXPECT_EQ(y.data<float>()[1], 2.0f);
  }
}

// Whatever ranks disagree about, all of them hear of both sides, and the group works on. C103: no hang either.
void mismatches(const ProcessGroup& group) {
  if (group.size() == 1) return;
  const bool odd_one = group.rank() == 1;
  const auto expect = [&](const Work& work, const std::string& one, const std::string& other) {
    try {
      work.wait();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::mismatch) << error.what();
      EXPECT_NE(std::string(error.what()).find("rank 0 calls " + one), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("rank 1 calls " + other), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("process_group_cases.cpp:"), std::string::npos) << error.what();
    }
    const Tensor check = ones({3});
    group.all_reduce(check).wait();
    EXPECT_EQ(check.data<float>()[0], static_cast<float>(group.size()));
  };
  for (const int64_t count : {int64_t{5}, int64_t{100000}}) {
    const Tensor x = ones({count});
    expect(group.all_reduce(odd_one ? ones({count + 1}) : x), "all_reduce sum", "all_reduce sum");
    expect(group.all_reduce(odd_one ? ones({count}, f64) : x), "all_reduce sum", "all_reduce sum");
    expect(group.all_reduce(x, odd_one ? Reduce::max : Reduce::sum), "all_reduce sum", "all_reduce max");
    expect(odd_one ? group.broadcast(x) : group.all_reduce(x), "all_reduce sum", "broadcast");
    expect(group.broadcast(x, odd_one ? 1 : 0), "broadcast", "broadcast");
    expect(odd_one ? group.barrier() : group.all_reduce(x), "all_reduce sum", "barrier");
    expect(group.all_reduce(x, Reduce::sum, CallSite().in_round(odd_one ? 8 : 7)), "all_reduce sum", "all_reduce sum");
  }
  const Tensor uneven = ones({odd_one ? 3 : 0});
  EXPECT_THROW(group.all_gather(uneven), Error);
  EXPECT_THROW(group.empty_shared({odd_one ? 3 : 4}), Error);
  group.barrier().wait();
}

}  // namespace

const std::map<std::string, GroupCase>& process_group_cases() {
  static const std::map<std::string, GroupCase> cases = {
      {"all_reduce", all_reduce_bits},
      {"reduce", reduce_to_root},
      {"reduce_scatter", reduce_scatter_bits},
      {"all_gather", all_gather_bits},
      {"gather_and_scatter", gather_and_scatter},
      {"broadcast", broadcast_bits},
      {"all_to_all", all_to_all_bits},
      {"send_and_recv", send_and_recv},
      {"chunks_do_not_matter", chunks_do_not_matter},
      {"many_in_flight", many_in_flight},
      {"dropped_work", dropped_work},
      {"sub_groups", sub_groups},
      {"bytes", bytes},
      {"shapes_and_strides", shapes_and_strides},
      {"dtypes_with_rules", dtypes_with_rules},
      {"mismatches", mismatches},
  };
  return cases;
}

}  // namespace weft::testing
