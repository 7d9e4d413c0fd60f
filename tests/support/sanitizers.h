// WEIR_ASAN: this is compiled with AddressSanitizer, by gcc or clang.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define WEIR_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEIR_ASAN 1
#endif
#endif
