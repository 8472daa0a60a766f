// Barriers of a block: a thread waits until every thread of the block that has not returned is at one.
//
// Threads that wait on different lines are an error although a GPU may let it pass: CUDA leaves it undefined.
#pragma once
#include "kernels/simt/emulator/state.h"

namespace weft::emulator {

void sync_block(Location at);
int sync_block_count(bool predicate, Location at);
int sync_block_and(bool predicate, Location at);
int sync_block_or(bool predicate, Location at);

}  // namespace weft::emulator
