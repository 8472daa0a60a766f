// Batch: a Tree that reads like a pair, and like a map that may not grow.
//
//   data::Batch batch{{"input", x}, {"target", y}};
//   auto [input, target] = batch;              // the first two entries, as tensors
//   Tensor mask = batch["mask"];               // any entry by its name; a missing one is an error that lists the names
//
// A Sample is the same thing for one element of a dataset: a batch of samples is one with a dimension more.
#pragma once
#include <initializer_list>
#include <tuple>

#include "tensor/tree.h"

namespace weft::data {

class Batch : public Tree {
 public:
  Batch() = default;
  Batch(Tree tree) : Tree(std::move(tree)) {}
  Batch(std::initializer_list<Map::value_type> entries) : Tree(Map(entries)) {}

  // An entry of a map, by name; throws not_found.
  const Tree& operator[](std::string_view key) const { return at(key); }
  // Element i of a list.
  const Tree& operator[](int64_t index) const { return std::as_const(static_cast<const Tree&>(*this))[index]; }
  const Tree& operator[](int index) const { return (*this)[static_cast<int64_t>(index)]; }
  // Adds or replaces an entry.
  void set(std::string_view key, Tree value) { Tree::operator[](key) = std::move(value); }

  // The I-th entry, whatever its name: what a structured binding reads.
  template <size_t I>
  const Tensor& get() const& {
    return entry(I).as_tensor();
  }
  template <size_t I>
  Tensor& get() & {
    return const_cast<Tensor&>(entry(I).as_tensor());
  }
  template <size_t I>
  Tensor get() && {
    return entry(I).as_tensor();
  }

 private:
  const Tree& entry(size_t i) const;
};

using Sample = Batch;

}  // namespace weft::data

template <>
struct std::tuple_size<weft::data::Batch> : std::integral_constant<size_t, 2> {};
template <size_t I>
struct std::tuple_element<I, weft::data::Batch> {
  using type = weft::Tensor;
};

template <>
struct fmt::formatter<weft::data::Batch> : fmt::formatter<weft::Tree> {};
