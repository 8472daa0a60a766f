// Attention, backward, without tensor cores: see attention_device.h for the algorithm, plain_tile.h for the tiles.
#include "kernels/attention/plain_tile.h"

namespace weft::WEFT_DEVICE {
namespace {

// A block owns 64 queries and 64 · kTiles columns of their dq.
template <class T, int kTiles>
__global__ void __launch_bounds__(PlainTile<T>::kThreads) query_gradient(BackwardProblem p, int64_t column_count) {
  using Tile = PlainTile<T>;
  using C = typename Tile::C;
  constexpr int size = Tile::kSize;
  WEFT_DYNAMIC_SHARED(C, shared);
  const Tile tile(shared);
  const AttentionShape& shape = p.shape;
  const TilePlace place =
      tile_place(blockIdx.x / column_count, attention_tiles(shape.queries, size), shape.heads, size, shape.causal);
  const int column = static_cast<int>(blockIdx.x % column_count) * size * kTiles;
  const int64_t kv_head = place.head / (shape.heads / shape.kv_heads);
  const ScoreMask<T> mask(shape, place.batch, place.head);
  const auto q = input_rows<T>(p.q, place.batch, place.head, place.first, shape.queries, shape.head_dim, p.aligned);
  const auto grad_o =
      input_rows<T>(p.grad_o, place.batch, place.head, place.first, shape.queries, shape.value_dim, p.aligned);
  const int64_t statistics = (place.batch * shape.heads + place.head) * p.padded_queries + place.first + 4 * tile.y;
  const Pack<C, 4> logsumexp2 = load_pack<4>(static_cast<const C*>(p.logsumexp2) + statistics);
  const Pack<C, 4> delta = load_pack<4>(static_cast<const C*>(p.delta) + statistics);

  C dq[4][4 * kTiles] = {};
  const int64_t keys = visible_keys(shape, place.first + size);
  for (int64_t first = 0; first < keys; first += size) {
    const auto k = input_rows<T>(p.k, place.batch, kv_head, first, shape.keys, shape.head_dim, p.aligned);
    const auto v = input_rows<T>(p.v, place.batch, kv_head, first, shape.keys, shape.value_dim, p.aligned);
    C scores[4][4] = {}, gradient[4][4] = {};
    tile.multiply_rows(scores, q, k);
    tile.multiply_rows(gradient, grad_o, v);
    const bool masked = mask.has_data() || mask.cuts(place.first, first + size - 1);
    WEFT_UNROLL
    for (int i = 0; i < 4; ++i) {
      WEFT_UNROLL
      for (int j = 0; j < 4; ++j) {
        C score = scores[i][j] * static_cast<C>(p.scale2);
        if (masked) score = mask(score, place.first + 4 * tile.y + i, first + 4 * tile.x + j);
        gradient[i][j] = power_of_two(score - logsumexp2[i]) * (gradient[i][j] - delta[i]);
      }
    }
    tile.keep(gradient);
    tile.template multiply_columns<kTiles>(dq, k, column);
  }
  tile.template store<kTiles>(
      output_rows<T>(p.dq, place.batch, place.head, place.first, shape.queries, shape.head_dim, p.aligned), column, dq,
      static_cast<C>(shape.scale));
}

// A block owns 64 keys and 64 · kTiles columns of their dk and dv. The tile is transposed: its rows are keys.
template <class T, int kTiles>
__global__ void __launch_bounds__(PlainTile<T>::kThreads) key_value_gradient(BackwardProblem p, int64_t column_count) {
  using Tile = PlainTile<T>;
  using C = typename Tile::C;
  constexpr int size = Tile::kSize;
  WEFT_DYNAMIC_SHARED(C, shared);
  const Tile tile(shared);
  const AttentionShape& shape = p.shape;
  const TilePlace place =
      tile_place(blockIdx.x / column_count, attention_tiles(shape.keys, size), shape.kv_heads, size, false);
  const int column = static_cast<int>(blockIdx.x % column_count) * size * kTiles;
  const auto k = input_rows<T>(p.k, place.batch, place.head, place.first, shape.keys, shape.head_dim, p.aligned);
  const auto v = input_rows<T>(p.v, place.batch, place.head, place.first, shape.keys, shape.value_dim, p.aligned);

  C dk[4][4 * kTiles] = {}, dv[4][4 * kTiles] = {};
  const int64_t group = shape.heads / shape.kv_heads;
  for (int64_t head = place.head * group; head < (place.head + 1) * group; ++head) {
    const ScoreMask<T> mask(shape, place.batch, head);
    const int64_t statistics = (place.batch * shape.heads + head) * p.padded_queries + 4 * tile.x;
    for (int64_t first = shape.causal ? place.first : 0; first < shape.queries; first += size) {
      const auto q = input_rows<T>(p.q, place.batch, head, first, shape.queries, shape.head_dim, p.aligned);
      const auto grad_o = input_rows<T>(p.grad_o, place.batch, head, first, shape.queries, shape.value_dim, p.aligned);
      const Pack<C, 4> logsumexp2 = load_pack<4>(static_cast<const C*>(p.logsumexp2) + statistics + first);
      const Pack<C, 4> delta = load_pack<4>(static_cast<const C*>(p.delta) + statistics + first);
      C scores[4][4] = {}, gradient[4][4] = {};
      tile.multiply_rows(scores, k, q);
      tile.multiply_rows(gradient, v, grad_o);
      const bool masked = mask.has_data() || mask.cuts(first, place.first + size - 1);
      WEFT_UNROLL
      for (int i = 0; i < 4; ++i) {
        WEFT_UNROLL
        for (int j = 0; j < 4; ++j) {
          C& score = scores[i][j];
          score *= static_cast<C>(p.scale2);
          if (masked) score = mask(score, first + 4 * tile.x + j, place.first + 4 * tile.y + i);
          score = power_of_two(score - logsumexp2[j]);
          gradient[i][j] = score * (gradient[i][j] - delta[j]);
        }
      }
      tile.keep(scores);
      tile.template multiply_columns<kTiles>(dv, grad_o, column);
      tile.keep(gradient);
      tile.template multiply_columns<kTiles>(dk, q, column);
    }
  }
  tile.template store<kTiles>(
      output_rows<T>(p.dv, place.batch, place.head, place.first, shape.keys, shape.value_dim, p.aligned), column, dv,
      C(1));
  tile.template store<kTiles>(
      output_rows<T>(p.dk, place.batch, place.head, place.first, shape.keys, shape.head_dim, p.aligned), column, dk,
      static_cast<C>(shape.scale));
}

}  // namespace

void attention_backward_plain(Stream stream, DType dtype, const BackwardProblem& problem) {
  const AttentionShape& shape = problem.shape;
  const int64_t widest = std::max(shape.head_dim, shape.value_dim);
  visit_plain(dtype, widest, [&](auto type, auto tiles) {
    using T = typename decltype(type)::type;
    using Tile = PlainTile<T>;
    const auto run = [&](auto kernel, int64_t heads, int64_t length, int64_t width) {
      const int64_t columns = column_blocks(width, tiles);
      const int64_t blocks = shape.batch * heads * attention_tiles(length, Tile::kSize) * columns;
      if (blocks == 0) return;
      launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(Tile::kThreads), Tile::kSharedBytes, stream, problem,
             columns);
    };
    run(query_gradient<T, tiles>, shape.heads, shape.queries, shape.head_dim);
    run(key_value_gradient<T, tiles>, shape.kv_heads, shape.keys, widest);
  });
}

}  // namespace weft::WEFT_DEVICE
