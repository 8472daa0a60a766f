// Attention against the textbook formula in f64, over shapes, strides, masks and groups.
#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/base/parallel.h"

namespace weft {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A [batch, heads, time, dim] operand stored as [batch, time, heads, dim] with a gap behind every vector.
struct Operand {
  int64_t heads, time, dim;
  std::vector<double> data;
  Operand(int64_t batch, int64_t heads, int64_t time, int64_t dim)
      : heads(heads), time(time), dim(dim), data(static_cast<size_t>(batch * time * heads * (dim + 3)), 777.0) {}
  int64_t offset(int64_t b, int64_t h, int64_t t) const { return ((b * time + t) * heads + h) * (dim + 3); }
  double* at(int64_t b, int64_t h, int64_t t) { return data.data() + offset(b, h, t); }
  const double* at(int64_t b, int64_t h, int64_t t) const { return data.data() + offset(b, h, t); }
  void randomize(std::mt19937& generator, double scale) {
    std::normal_distribution<double> normal(0, scale);
    for (size_t i = 0; i < data.size(); ++i)
      if (static_cast<int64_t>(i) % (dim + 3) < dim) data[i] = static_cast<float>(normal(generator));
  }
  AttentionInput input(const void* storage) const {
    return {storage, time * heads * (dim + 3), dim + 3, heads * (dim + 3)};
  }
  AttentionOutput output(void* storage) const {
    return {storage, time * heads * (dim + 3), dim + 3, heads * (dim + 3)};
  }
};

struct Case {
  AttentionShape shape;
  bool bool_mask = false, float_mask = false;
  double magnitude = 1;
};

class Problem {
 public:
  Case c;
  Operand q, k, v, grad_o;
  std::vector<double> bias;  // [batch, 1, queries, keys], -inf where nothing is seen

  explicit Problem(const Case& given)
      : c(given),
        q(c.shape.batch, c.shape.heads, c.shape.queries, c.shape.head_dim),
        k(c.shape.batch, c.shape.kv_heads, c.shape.keys, c.shape.head_dim),
        v(c.shape.batch, c.shape.kv_heads, c.shape.keys, c.shape.value_dim),
        grad_o(c.shape.batch, c.shape.heads, c.shape.queries, c.shape.value_dim) {
    std::mt19937 generator(17);
    q.randomize(generator, c.magnitude);
    k.randomize(generator, c.magnitude);
    v.randomize(generator, 1);
    grad_o.randomize(generator, 1);
    const size_t entries = static_cast<size_t>(c.shape.batch * c.shape.queries * c.shape.keys);
    if (c.bool_mask || c.float_mask) {
      std::uniform_real_distribution<double> uniform(-1, 1);
      bias.resize(entries);
      for (size_t i = 0; i < entries; ++i) {
        const double u = uniform(generator);
        bias[i] = u < -0.4 ? -kInfinity : (c.float_mask ? static_cast<float>(u) : 0.0);
      }
      // The first query sees nothing.
      for (int64_t j = 0; j < c.shape.keys; ++j) bias[static_cast<size_t>(j)] = -kInfinity;
    }
  }

  // p[j] of one query, empty sum: all zero.
  std::vector<double> probabilities(int64_t b, int64_t h, int64_t i, double* logsumexp) const {
    const AttentionShape& s = c.shape;
    std::vector<double> p(static_cast<size_t>(s.keys), -kInfinity);
    double largest = -kInfinity, sum = 0;
    for (int64_t j = 0; j < s.keys; ++j) {
      if (s.causal && j > i) continue;
      double dot = 0;
      for (int64_t d = 0; d < s.head_dim; ++d) dot += q.at(b, h, i)[d] * k.at(b, h / (s.heads / s.kv_heads), j)[d];
      p[static_cast<size_t>(j)] = dot * s.scale;
      if (!bias.empty()) p[static_cast<size_t>(j)] += bias[static_cast<size_t>((b * s.queries + i) * s.keys + j)];
      largest = std::max(largest, p[static_cast<size_t>(j)]);
    }
    if (largest == -kInfinity) largest = 0;
    for (double& x : p) sum += x = std::exp(x - largest);
    for (double& x : p) x = sum == 0 ? 0 : x / sum;
    *logsumexp = sum == 0 ? -kInfinity : largest + std::log(sum);
    return p;
  }
};

template <class T>
std::vector<T> converted(const std::vector<double>& from) {
  return std::vector<T>(from.begin(), from.end());
}

template <class T>
struct Result {
  std::vector<T> o, logsumexp, dq, dk, dv;
};

template <class T>
Result<T> run(const Problem& p) {
  AttentionShape s = p.c.shape;
  const auto q = converted<T>(p.q.data), k = converted<T>(p.k.data), v = converted<T>(p.v.data),
             grad_o = converted<T>(p.grad_o.data), bias = converted<T>(p.bias);
  const std::unique_ptr<bool[]> visible(new bool[p.bias.size() + 1]);
  for (size_t i = 0; i < p.bias.size(); ++i) visible[i] = p.bias[i] != -kInfinity;
  if (p.c.bool_mask) s.mask = {visible.get(), DType::boolean, s.queries * s.keys, 0, s.keys, 1};
  if (p.c.float_mask) s.mask = {bias.data(), dtype_of<T>, s.queries * s.keys, 0, s.keys, 1};
  Result<T> r{std::vector<T>(grad_o.size(), T(5)),
              std::vector<T>(static_cast<size_t>(s.batch * s.heads * s.queries), T(5)), std::vector<T>(q.size(), T(5)),
              std::vector<T>(k.size(), T(5)), std::vector<T>(v.size(), T(5))};
  const Stream stream{};
  cpu::attention_kernels.forward(stream, dtype_of<T>, s, p.q.input(q.data()), p.k.input(k.data()), p.v.input(v.data()),
                                 p.grad_o.output(r.o.data()), r.logsumexp.data());
  cpu::attention_kernels.backward(stream, dtype_of<T>, s, p.q.input(q.data()), p.k.input(k.data()), p.v.input(v.data()),
                                  p.grad_o.input(r.o.data()), r.logsumexp.data(), p.grad_o.input(grad_o.data()),
                                  p.q.output(r.dq.data()), p.k.output(r.dk.data()), p.v.output(r.dv.data()));
  return r;
}

template <class T>
void compare(const Operand& expected, const std::vector<T>& got, double tolerance, const char* what) {
  for (size_t i = 0; i < got.size(); ++i) {
    if (static_cast<int64_t>(i) % (expected.dim + 3) >= expected.dim)
      ASSERT_EQ(got[i], T(5)) << what << ": wrote behind a vector, at " << i;
    else
      ASSERT_NEAR(got[i], expected.data[i], tolerance * (1 + std::abs(expected.data[i]))) << what << " at " << i;
  }
}

template <class T>
void check(const Case& c, double tolerance) {
  const Problem p(c);
  const AttentionShape& s = c.shape;
  Operand o(s.batch, s.heads, s.queries, s.value_dim), dq(s.batch, s.heads, s.queries, s.head_dim),
      dk(s.batch, s.kv_heads, s.keys, s.head_dim), dv(s.batch, s.kv_heads, s.keys, s.value_dim);
  for (Operand* x : {&o, &dq, &dk, &dv}) std::fill(x->data.begin(), x->data.end(), 0.0);
  const Result<T> result = run<T>(p);
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t kv = h / (s.heads / s.kv_heads);
      for (int64_t i = 0; i < s.queries; ++i) {
        double logsumexp = 0, delta = 0;
        const std::vector<double> prob = p.probabilities(b, h, i, &logsumexp);
        const double got = result.logsumexp[static_cast<size_t>((b * s.heads + h) * s.queries + i)];
        if (logsumexp == -kInfinity)
          ASSERT_EQ(got, logsumexp);
        else
          ASSERT_NEAR(got, logsumexp, tolerance * (1 + std::abs(logsumexp)));
        std::vector<double> dp(prob.size());
        for (size_t j = 0; j < prob.size(); ++j) {
          for (int64_t d = 0; d < s.value_dim; ++d) {
            const double value = p.v.at(b, kv, static_cast<int64_t>(j))[d];
            o.at(b, h, i)[d] += prob[j] * value;
            dp[j] += p.grad_o.at(b, h, i)[d] * value;
            dv.at(b, kv, static_cast<int64_t>(j))[d] += prob[j] * p.grad_o.at(b, h, i)[d];
          }
          delta += prob[j] * dp[j];
        }
        for (size_t j = 0; j < prob.size(); ++j) {
          const double ds = prob[j] * (dp[j] - delta) * s.scale;
          for (int64_t d = 0; d < s.head_dim; ++d) {
            dq.at(b, h, i)[d] += ds * p.k.at(b, kv, static_cast<int64_t>(j))[d];
            dk.at(b, kv, static_cast<int64_t>(j))[d] += ds * p.q.at(b, h, i)[d];
          }
        }
      }
    }
  }
  compare(o, result.o, tolerance, "o");
  compare(dq, result.dq, tolerance, "dq");
  compare(dk, result.dk, tolerance, "dk");
  compare(dv, result.dv, tolerance, "dv");
}

AttentionShape make_shape(int64_t batch, int64_t heads, int64_t kv_heads, int64_t queries, int64_t keys,
                          int64_t head_dim, int64_t value_dim, bool causal) {
  AttentionShape s;
  s.batch = batch;
  s.heads = heads;
  s.kv_heads = kv_heads;
  s.queries = queries;
  s.keys = keys;
  s.head_dim = head_dim;
  s.value_dim = value_dim;
  s.scale = 1 / std::sqrt(static_cast<double>(head_dim));
  s.causal = causal;
  return s;
}

TEST(Attention, AgreesWithTheFormula) {
  for (const bool causal : {false, true}) {
    for (const AttentionShape& s :
         {make_shape(1, 1, 1, 1, 1, 1, 1, causal), make_shape(2, 2, 2, 3, 3, 8, 8, causal),
          make_shape(2, 3, 3, 17, 17, 17, 5, causal), make_shape(1, 4, 2, 33, 33, 32, 32, causal),
          make_shape(1, 6, 1, 31, 131, 24, 40, causal), make_shape(1, 2, 2, 130, 7, 3, 16, causal),
          make_shape(1, 2, 1, 300, 290, 64, 64, causal), make_shape(1, 1, 1, 1, 257, 16, 16, causal)}) {
      SCOPED_TRACE(testing::Message() << s.queries << " queries, " << s.keys << " keys, causal " << causal);
      check<float>({s}, 5e-5);
      check<double>({s}, 1e-12);
    }
  }
}

TEST(Attention, MasksAndQueriesThatSeeNothing) {
  for (const bool causal : {false, true}) {
    for (const AttentionShape& s :
         {make_shape(2, 2, 1, 5, 9, 4, 4, causal), make_shape(2, 2, 2, 40, 150, 16, 20, causal)}) {
      check<float>({s, true, false}, 5e-5);
      check<float>({s, false, true}, 5e-5);
      check<double>({s, true, false}, 1e-12);
      check<double>({s, false, true}, 1e-12);
    }
  }
}

TEST(Attention, LargeScoresStayFinite) {
  check<float>({make_shape(1, 1, 1, 20, 200, 16, 16, true), false, false, 30}, 5e-3);
}

TEST(Attention, BroadcastMask) {
  // A key padding mask [keys], the same for every batch, head and query, equals the same keys left out.
  const float q[] = {1, 2}, k[] = {0.5f, 1, 7}, v[] = {1, 2, 100};
  const bool visible[] = {true, true, false};
  AttentionShape s = make_shape(1, 1, 1, 2, 3, 1, 1, false);
  float with_mask[2], without[2], logsumexp[2];
  s.mask = {visible, DType::boolean, 0, 0, 0, 1};
  cpu::attention_kernels.forward({}, f32, s, {q, 0, 0, 1}, {k, 0, 0, 1}, {v, 0, 0, 1}, {with_mask, 0, 0, 1}, logsumexp);
  s.mask = {};
  s.keys = 2;
  cpu::attention_kernels.forward({}, f32, s, {q, 0, 0, 1}, {k, 0, 0, 1}, {v, 0, 0, 1}, {without, 0, 0, 1}, logsumexp);
  EXPECT_EQ(with_mask[0], without[0]);
  EXPECT_EQ(with_mask[1], without[1]);
}

TEST(Attention, DoesNotDependOnTheNumberOfThreads) {
  const Problem p({make_shape(3, 4, 2, 70, 140, 16, 16, true)});
  const int before = num_threads();
  set_num_threads(1);
  const Result<float> one = run<float>(p);
  set_num_threads(3);
  const Result<float> three = run<float>(p);
  set_num_threads(before);
  EXPECT_EQ(one.o, three.o);
  EXPECT_EQ(one.dq, three.dq);
  EXPECT_EQ(one.dk, three.dk);
  EXPECT_EQ(one.dv, three.dv);
}

TEST(Attention, NoKeysAndErrors) {
  AttentionShape s = make_shape(1, 1, 1, 2, 0, 4, 4, false);
  float o[8], dq[8], q[8] = {}, logsumexp[2];
  std::fill(o, o + 8, 3.0f);
  std::fill(dq, dq + 8, 3.0f);
  cpu::attention_kernels.forward({}, f32, s, {q, 0, 0, 4}, {}, {}, {o, 0, 0, 4}, logsumexp);
  cpu::attention_kernels.backward({}, f32, s, {q, 0, 0, 4}, {}, {}, {o, 0, 0, 4}, logsumexp, {q, 0, 0, 4},
                                  {dq, 0, 0, 4}, {}, {});
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(o[i], 0.0f);
    EXPECT_EQ(dq[i], 0.0f);
  }
  s.heads = 3;
  s.kv_heads = 2;
  EXPECT_THROW(cpu::attention_kernels.forward({}, f32, s, {}, {}, {}, {}, nullptr), Error);
  s.kv_heads = 3;
  EXPECT_THROW(cpu::attention_kernels.forward({}, f16, s, {}, {}, {}, {}, nullptr), Error);
}

}  // namespace
}  // namespace weft
