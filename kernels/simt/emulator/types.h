// CUDA's built-in vector types, for the host compiler.
#pragma once

// For what stands for one instruction: an examination asks for the line of the kernel, not for that of a helper.
#define WEFT_ALWAYS_INLINE inline __attribute__((always_inline))

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_size = 1, unsigned y_size = 1, unsigned z_size = 1) : x(x_size), y(y_size), z(z_size) {}
};

// A copy is one access, as on a GPU: the examination counts them, and compilers would copy member by member.
#define WEFT_VECTOR_COPY(Name, bytes)                                          \
  typedef unsigned Words __attribute__((vector_size(bytes), may_alias));       \
  Name() = default;                                                            \
  WEFT_ALWAYS_INLINE Name(const Name& other) {                                 \
    *reinterpret_cast<Words*>(this) = *reinterpret_cast<const Words*>(&other); \
  }                                                                            \
  WEFT_ALWAYS_INLINE Name& operator=(const Name& other) {                      \
    *reinterpret_cast<Words*>(this) = *reinterpret_cast<const Words*>(&other); \
    return *this;                                                              \
  }

#define WEFT_VECTOR_TYPES(Item, Name)                               \
  struct alignas(2 * sizeof(Item)) Name##2 {                        \
    Item x, y;                                                      \
    Name##2(Item x_value, Item y_value) : x(x_value), y(y_value) {} \
    WEFT_VECTOR_COPY(Name##2, 2 * sizeof(Item))                     \
  };                                                                \
  struct alignas(4 * sizeof(Item)) Name##4 {                        \
    Item x, y, z, w;                                                \
    Name##4(Item x_value, Item y_value, Item z_value, Item w_value) \
        : x(x_value), y(y_value), z(z_value), w(w_value) {}         \
    WEFT_VECTOR_COPY(Name##4, 4 * sizeof(Item))                     \
  };                                                                \
  inline Name##2 make_##Name##2(Item x, Item y) { return {x, y}; }  \
  inline Name##4 make_##Name##4(Item x, Item y, Item z, Item w) { return {x, y, z, w}; }

WEFT_VECTOR_TYPES(float, float)
WEFT_VECTOR_TYPES(int, int)
WEFT_VECTOR_TYPES(unsigned, uint)
#undef WEFT_VECTOR_TYPES

struct alignas(16) double2 {
  double x, y;
  double2(double x_value, double y_value) : x(x_value), y(y_value) {}
  WEFT_VECTOR_COPY(double2, 16)
};
inline double2 make_double2(double x, double y) { return {x, y}; }
#undef WEFT_VECTOR_COPY

struct float3 {
  float x, y, z;
};
inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
