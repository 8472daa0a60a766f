// Collectives over Trees: what Accelerator's gather, reduce, broadcast and the like do, for any process group.
//
//   Tree all = gather(group, Tree::map({{"loss", loss}, {"ids", ids}}));   // every tensor, concatenated over ranks
//
// All are collective, wait, and leave their argument as it is. Every rank passes the same structure.
#pragma once
#include <string>

#include "distributed/comm/process_group.h"
#include "tensor/tree.h"

namespace weft {

// How Accelerator::reduce combines; none gives back what it got.
enum class TreeReduce { sum, mean, max, none };

// Whether every leaf is a tensor.
bool all_tensors(const Tree& tree);
// Concatenates each tensor along dimension 0, in rank order; scalars give one element a rank (on one rank they stay
// scalars). Sizes must agree. On several ranks anything but a tensor is an error.
Tree gather(const ProcessGroup& group, const Tree& tree);
// Every rank's object, in rank order; lists are joined (the first level only).
Tree gather_object(const ProcessGroup& group, const Tree& object);
// The mean of integers is an error (on one rank there is nothing to reduce).
Tree reduce(const ProcessGroup& group, const Tree& tree, TreeReduce reduction);
Tree broadcast(const ProcessGroup& group, const Tree& tree, int from);
// Any object, from one rank to all; the others' is not looked at.
Tree broadcast_object(const ProcessGroup& group, const Tree& object, int from);
// Makes dimension `dim` of each tensor as large as the largest among the ranks, filled with pad_index behind (or before)
// the values. A tensor without that dimension stays as it is.
Tree pad_across_processes(const ProcessGroup& group, const Tree& tree, int64_t dim, double pad_index, bool pad_first);
// The part of `tree` (a list, a tensor's rows, or a map of them with one length) for rank number `rank` of `size`; the first
// ranks have one more where it does not divide. With padding all parts have one length: the last element is repeated.
// Anything else, a string for example, cannot be split: every rank gets it whole. Of a map in a map the length is, as in
// Accelerate, the number of its entries; keep maps one level deep.
Tree split_between(const Tree& tree, int rank, int size, bool apply_padding);
// Pads dimension `dim` of each tensor up to the next multiple of `multiple` by repeating its last entry.
Tree pad_to_multiple(const Tree& tree, int64_t multiple, int64_t dim);

}  // namespace weft
