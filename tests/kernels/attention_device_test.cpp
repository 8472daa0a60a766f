// The device's attention against the CPU's: f32 and f64 as they are, bf16 and f16 against f64 on the rounded inputs.
#include "kernels/attention/attention.h"

#include <memory>

#include "tests/kernels/device_test.h"

namespace weft {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum class MaskKind { none, boolean, additive };

struct Case {
  AttentionShape shape;
  MaskKind mask = MaskKind::none;
  bool packed = false;   // q, k and v are parts of one [batch, time, (heads + 2 kv_heads) · dim] array
  size_t shift = 0;      // elements that everything begins after a 16-byte boundary
  double magnitude = 1;  // of q and k
};

AttentionShape shape_of(int64_t batch, int64_t heads, int64_t kv_heads, int64_t queries, int64_t keys, int64_t head_dim,
                        int64_t value_dim, bool causal) {
  return {.batch = batch,
          .heads = heads,
          .kv_heads = kv_heads,
          .queries = queries,
          .keys = keys,
          .head_dim = head_dim,
          .value_dim = value_dim,
          .scale = 1 / std::sqrt(static_cast<double>(head_dim)),
          .causal = causal};
}

// Where an operand lies in its array: [batch, time, heads, dim], `gap` elements behind the heads of a time.
struct Layout {
  int64_t batch, heads, time, dim, gap = 0, begin = 0;
  int64_t row() const { return heads * dim + gap; }
  size_t size() const { return static_cast<size_t>(batch * time * row()); }
  template <class T>
  AttentionInput input(const T* data) const {
    return {data + begin, time * row(), dim, row()};
  }
  template <class T>
  AttentionOutput output(T* data) const {
    return {data + begin, time * row(), dim, row()};
  }
};

struct Layouts {
  Layout q, k, v, o;
  explicit Layouts(const Case& c)
      : q{c.shape.batch, c.shape.heads, c.shape.queries, c.shape.head_dim},
        k{c.shape.batch, c.shape.kv_heads, c.shape.keys, c.shape.head_dim},
        v{c.shape.batch, c.shape.kv_heads, c.shape.keys, c.shape.value_dim},
        o{c.shape.batch, c.shape.heads, c.shape.queries, c.shape.value_dim} {
    if (!c.packed) return;
    q.gap = 2 * k.heads * k.dim;
    k.gap = v.gap = q.heads * q.dim + k.heads * k.dim;
    k.begin = q.heads * q.dim;
    v.begin = k.begin + k.heads * k.dim;
  }
};

// What the CPU makes of the same numbers in f64.
struct Expected {
  std::vector<double> o, logsumexp, dq, dk, dv;
};

template <class T>
struct Inputs {
  std::vector<T> q, k, v, grad_o, bias;
  std::unique_ptr<bool[]> visible;
};

template <class T>
Inputs<T> inputs_of(const Case& c, const Layouts& layouts) {
  Inputs<T> inputs{random_values<T>(layouts.q.size(), c.magnitude, 1),
                   random_values<T>(layouts.k.size(), c.magnitude, 2),
                   random_values<T>(layouts.v.size(), 1, 3),
                   random_values<T>(layouts.o.size(), 1, 4),
                   {},
                   {}};
  if (c.packed) {
    inputs.k = inputs.v = inputs.q;
    inputs.q.clear();
    inputs.q = inputs.k;
  }
  // [batch, 1, queries, keys]; the first query sees nothing.
  const auto size = static_cast<size_t>(c.shape.batch * c.shape.queries * c.shape.keys);
  if (c.mask != MaskKind::none) {
    inputs.bias = random_values<T>(size, 1, 5);
    inputs.visible = std::make_unique<bool[]>(size);
    for (size_t i = 0; i < size; ++i) {
      const bool first_query = static_cast<int64_t>(i) % (c.shape.queries * c.shape.keys) < c.shape.keys;
      inputs.visible[i] = !first_query && static_cast<float>(inputs.bias[i]) > -0.5f;
      if (!inputs.visible[i]) inputs.bias[i] = T(static_cast<float>(-kInfinity));
    }
  }
  return inputs;
}

AttentionMask mask_of(const Case& c, DType dtype, const void* bias, const void* visible) {
  const AttentionMask strides{nullptr, DType::boolean, c.shape.queries * c.shape.keys, 0, c.shape.keys, 1};
  AttentionMask mask = c.mask == MaskKind::none ? AttentionMask{} : strides;
  if (c.mask == MaskKind::boolean) mask.data = visible;
  if (c.mask == MaskKind::additive) mask.data = bias;
  if (c.mask == MaskKind::additive) mask.dtype = dtype;
  return mask;
}

template <class T>
Expected expected_of(const Case& c, const Layouts& layouts, const Inputs<T>& inputs) {
  const auto q = converted<double>(inputs.q), k = converted<double>(inputs.k), v = converted<double>(inputs.v),
             grad_o = converted<double>(inputs.grad_o), bias = converted<double>(inputs.bias);
  Expected e{std::vector<double>(layouts.o.size()),
             std::vector<double>(static_cast<size_t>(c.shape.batch * c.shape.heads * c.shape.queries)),
             std::vector<double>(layouts.q.size()), std::vector<double>(layouts.k.size()),
             std::vector<double>(layouts.v.size())};
  AttentionShape shape = c.shape;
  shape.mask = mask_of(c, f64, bias.data(), inputs.visible.get());
  const AttentionKernels& cpu = cpu::attention_kernels;
  cpu.forward({}, f64, shape, layouts.q.input(q.data()), layouts.k.input(k.data()), layouts.v.input(v.data()),
              layouts.o.output(e.o.data()), e.logsumexp.data());
  cpu.backward({}, f64, shape, layouts.q.input(q.data()), layouts.k.input(k.data()), layouts.v.input(v.data()),
               layouts.o.input(e.o.data()), e.logsumexp.data(), layouts.o.input(grad_o.data()),
               layouts.q.output(e.dq.data()), layouts.k.output(e.dk.data()), layouts.v.output(e.dv.data()));
  return e;
}

// The elements of an operand, without what lies between them.
template <class T>
std::vector<T> elements(const std::vector<T>& array, const Layout& layout) {
  std::vector<T> result;
  for (int64_t row = 0; row < layout.batch * layout.time; ++row) {
    const auto from = array.begin() + row * layout.row() + layout.begin;
    result.insert(result.end(), from, from + layout.heads * layout.dim);
  }
  return result;
}

// The error, measured against the largest element: rounding of 16-bit P and dS is relative to those.
template <class T>
void expect_near(const char* what, const std::vector<T>& actual, const std::vector<double>& expected,
                 const Layout& layout, double tolerance) {
  SCOPED_TRACE(what);
  const std::vector<double> wanted = elements(expected, layout);
  double largest = 0;
  for (const double x : wanted) largest = std::max(largest, std::abs(x));
  expect_close(elements(actual, layout), wanted, tolerance * std::max(1.0, largest));
}

template <class T>
void check(const TestDevice& device, const Case& c) {
  const AttentionShape& s = c.shape;
  SCOPED_TRACE(testing::Message() << name(dtype_of<T>) << ", batch " << s.batch << ", heads " << s.heads << "/"
                                  << s.kv_heads << ", " << s.queries << " x " << s.keys << ", dims " << s.head_dim
                                  << " and " << s.value_dim << (s.causal ? ", causal" : "")
                                  << (c.packed ? ", packed" : "") << ", mask " << static_cast<int>(c.mask) << ", shift "
                                  << c.shift);
  const Layouts layouts(c);
  const Inputs<T> inputs = inputs_of<T>(c, layouts);
  const Expected expected = expected_of(c, layouts, inputs);

  using C = StatisticType<T>;
  const size_t statistics = expected.logsumexp.size();
  DeviceArray<T> q(device, inputs.q, c.shift), k(device, inputs.k, c.shift), v(device, inputs.v, c.shift),
      grad_o(device, inputs.grad_o, c.shift), bias(device, inputs.bias);
  DeviceArray<T> o(device, layouts.o.size(), c.shift), dq(device, layouts.q.size(), c.shift),
      dk(device, layouts.k.size(), c.shift), dv(device, layouts.v.size(), c.shift);
  DeviceArray<C> logsumexp(device, statistics);
  std::vector<uint8_t> bytes;
  if (inputs.visible) bytes.assign(inputs.visible.get(), inputs.visible.get() + inputs.bias.size());
  DeviceArray<uint8_t> visible(device, bytes);
  AttentionShape shape = s;
  shape.mask = mask_of(c, dtype_of<T>, bias.data(), visible.data());

  const AttentionKernels& attention = device.kernels().attention;
  attention.forward(device.stream(), dtype_of<T>, shape, layouts.q.input(q.data()), layouts.k.input(k.data()),
                    layouts.v.input(v.data()), layouts.o.output(o.data()), logsumexp.data());
  attention.backward(device.stream(), dtype_of<T>, shape, layouts.q.input(q.data()), layouts.k.input(k.data()),
                     layouts.v.input(v.data()), layouts.o.input(o.data()), logsumexp.data(),
                     layouts.o.input(grad_o.data()), layouts.q.output(dq.data()), layouts.k.output(dk.data()),
                     layouts.v.output(dv.data()));

  // f32 and f64: rounding of sums of a few hundred terms. bf16 and f16: P, dS and o are rounded to 16 bits, and o's
  // rounding enters delta.
  const double tolerance = (sizeof(T) == 2 ? 4 : 64) * kRounding<T>;
  const double statistic_tolerance = sizeof(T) == 2 ? 1e-4 : tolerance;
  expect_near("o", o.host(), expected.o, layouts.o, tolerance);
  expect_close(logsumexp.host(), expected.logsumexp, statistic_tolerance);
  expect_near("dq", dq.host(), expected.dq, layouts.q, tolerance);
  expect_near("dk", dk.host(), expected.dk, layouts.k, tolerance);
  expect_near("dv", dv.host(), expected.dv, layouts.v, tolerance);
}

template <class T>
void check_lengths(const TestDevice& device) {
  for (const int64_t length : {1, 17, 63, 65, 130}) {
    check<T>(device, {.shape = shape_of(1, 1, 1, length, length, 40, 40, true)});
    check<T>(device, {.shape = shape_of(1, 1, 1, 65, length, 16, 16, true)});
  }
  check<T>(device, {.shape = shape_of(1, 1, 1, 17, 130, 24, 24, true)});
  check<T>(device, {.shape = shape_of(2, 2, 2, 130, 65, 8, 8, false)});
}

template <class T>
void check_dims(const TestDevice& device) {
  for (const int64_t dim : {1, 8, 64, 80, 128, 200}) {
    check<T>(device, {.shape = shape_of(1, 1, 1, 20, 33, dim, dim, false)});
    check<T>(device, {.shape = shape_of(1, 1, 1, 20, 33, dim, dim, true), .shift = 1});
  }
  check<T>(device, {.shape = shape_of(1, 1, 1, 9, 11, 24, 72, false)});
  check<T>(device, {.shape = shape_of(1, 1, 1, 9, 11, 136, 6, true)});
}

template <class T>
void check_heads(const TestDevice& device) {
  check<T>(device, {.shape = shape_of(2, 4, 2, 40, 70, 16, 16, false)});
  check<T>(device, {.shape = shape_of(1, 3, 1, 70, 40, 16, 32, true)});
  for (const size_t shift : {size_t{0}, size_t{3}})
    check<T>(device, {.shape = shape_of(2, 2, 1, 33, 33, 16, 16, true), .packed = true, .shift = shift});
}

template <class T>
void check_masks(const TestDevice& device) {
  for (const MaskKind mask : {MaskKind::boolean, MaskKind::additive}) {
    for (const bool causal : {false, true})
      check<T>(device, {.shape = shape_of(2, 2, 1, 35, 67, 16, 16, causal), .mask = mask});
    check<T>(device, {.shape = shape_of(1, 1, 1, 5, 9, 136, 136, false), .mask = mask});
  }
  check<T>(device, {.shape = shape_of(1, 1, 1, 33, 65, 64, 64, false), .magnitude = 4});
}

TEST(AttentionDevice, Lengths) {
  on_devices([](const TestDevice& device) {
    check_lengths<float>(device);
    check_lengths<BFloat16>(device);
  });
}

TEST(AttentionDevice, Dims) {
  on_devices([](const TestDevice& device) {
    check_dims<float>(device);
    check_dims<double>(device);
    check_dims<Half>(device);
    check_dims<BFloat16>(device);
  });
}

TEST(AttentionDevice, GroupsAndStrides) {
  on_devices([](const TestDevice& device) {
    check_heads<float>(device);
    check_heads<double>(device);
    check_heads<BFloat16>(device);
  });
}

TEST(AttentionDevice, Masks) {
  on_devices([](const TestDevice& device) {
    check_masks<float>(device);
    check_masks<double>(device);
    check_masks<Half>(device);
  });
}

// Nothing is seen: no output and no gradient, whatever the engine.
template <class T>
void check_nothing(const TestDevice& device, int64_t keys, int64_t dim) {
  SCOPED_TRACE(testing::Message() << name(dtype_of<T>) << ", " << keys << " keys, dim " << dim);
  const Case c{.shape = shape_of(1, 1, 1, 19, keys, dim, dim, false)};
  const Layouts layouts(c);
  const Inputs<T> inputs = inputs_of<T>(c, layouts);
  using C = StatisticType<T>;
  DeviceArray<T> q(device, inputs.q), k(device, inputs.k), v(device, inputs.v), grad_o(device, inputs.grad_o),
      o(device, layouts.o.size()), dq(device, layouts.q.size()), dk(device, layouts.k.size()),
      dv(device, layouts.v.size());
  DeviceArray<C> logsumexp(device, 19);
  DeviceArray<uint8_t> never(device, std::vector<uint8_t>{0});
  AttentionShape shape = c.shape;
  shape.mask.data = never.data();  // broadcast along everything
  const AttentionKernels& attention = device.kernels().attention;
  attention.forward(device.stream(), dtype_of<T>, shape, layouts.q.input(q.data()), layouts.k.input(k.data()),
                    layouts.v.input(v.data()), layouts.o.output(o.data()), logsumexp.data());
  attention.backward(device.stream(), dtype_of<T>, shape, layouts.q.input(q.data()), layouts.k.input(k.data()),
                     layouts.v.input(v.data()), layouts.o.input(o.data()), logsumexp.data(),
                     layouts.o.input(grad_o.data()), layouts.q.output(dq.data()), layouts.k.output(dk.data()),
                     layouts.v.output(dv.data()));
  expect_close(o.host(), std::vector<double>(layouts.o.size()), 0);
  expect_close(logsumexp.host(), std::vector<double>(19, -kInfinity), 0);
  expect_close(dq.host(), std::vector<double>(layouts.q.size()), 0);
  expect_close(dk.host(), std::vector<double>(layouts.k.size()), 0);
  expect_close(dv.host(), std::vector<double>(layouts.v.size()), 0);
}

TEST(AttentionDevice, WhereNothingIsSeen) {
  on_devices([](const TestDevice& device) {
    for (const int64_t keys : {0, 70}) {
      check_nothing<float>(device, keys, 16);
      check_nothing<BFloat16>(device, keys, 16);
      check_nothing<Half>(device, keys, 136);
    }
  });
}

TEST(AttentionDevice, Errors) {
  on_devices([](const TestDevice& device) {
    const AttentionKernels& attention = device.kernels().attention;
    EXPECT_THROW(attention.forward(device.stream(), i64, shape_of(1, 1, 1, 1, 1, 8, 8, false), {}, {}, {}, {}, nullptr),
                 Error);
    EXPECT_THROW(attention.forward(device.stream(), f32, shape_of(1, 3, 2, 1, 1, 8, 8, false), {}, {}, {}, {}, nullptr),
                 Error);
  });
}

}  // namespace
}  // namespace weft
