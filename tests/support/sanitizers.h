// WEIR_ASAN, WEIR_TSAN: this is compiled with AddressSanitizer or ThreadSanitizer, by gcc or clang.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define WEIR_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define WEIR_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEIR_ASAN 1
#elif __has_feature(thread_sanitizer)
#define WEIR_TSAN 1
#endif
#endif
