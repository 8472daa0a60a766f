// Per-thread scratch memory for kernels: it grows to the largest size asked for and is kept, so a hot path allocates
// once. Give each purpose a tag type of its own: two live buffers of one thread must never share a tag.
//
//   struct PackedKeys;                                        // the tag
//   float* keys = scratch<PackedKeys, float>(depth * width);  // aligned to 64 bytes, contents undefined
//
// A buffer stays valid until the same thread asks for the same tag again; tiles on other threads may use a pointer the
// caller handed them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace weft {

template <class Tag, class T>
T* scratch(int64_t count) {
  struct Delete {
    void operator()(void* memory) const { ::operator delete (memory, std::align_val_t{64}); }
  };
  thread_local std::unique_ptr<void, Delete> memory;
  thread_local int64_t capacity = 0;
  if (count > capacity) {
    capacity = 0;
    memory.reset();
    memory.reset(::operator new (static_cast<size_t>(count) * sizeof(T), std::align_val_t{64}));
    capacity = count;
  }
  return static_cast<T*>(memory.get());
}

}  // namespace weft
