#include "kernels/base/simd.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace weft::cpu {

SimdLevel simd_level() {
#if defined(__x86_64__)
  // What Highway compiles its targets for. The compiler's own question knows what the operating system saves, but not
  // every compiler lets it ask for F16C.
  static const SimdLevel level = [] {
    __builtin_cpu_init();
    unsigned a = 0, b = 0, c = 0, d = 0;
    const bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
    if (!(f16c && __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul") &&
          __builtin_cpu_supports("aes") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
          __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma")))
      return SimdLevel::baseline;
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
    return avx512 ? SimdLevel::avx3 : SimdLevel::avx2;
  }();
  return level;
#else
  return SimdLevel::baseline;
#endif
}

}  // namespace weft::cpu
