// What AddressSanitizer is told about the emulator's memory; nothing in other builds.
#pragma once
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define WEFT_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEFT_ADDRESS_SANITIZER 1
#endif
#endif
#ifdef WEFT_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace weft::emulator {

#ifdef WEFT_ADDRESS_SANITIZER
inline constexpr bool kAddressSanitizer = true;
inline void forbid_access(const void* memory, size_t bytes) { __asan_poison_memory_region(memory, bytes); }
inline void allow_access(const void* memory, size_t bytes) { __asan_unpoison_memory_region(memory, bytes); }
#else
inline constexpr bool kAddressSanitizer = false;
inline void forbid_access(const void*, size_t) {}
inline void allow_access(const void*, size_t) {}
#endif

}  // namespace weft::emulator
