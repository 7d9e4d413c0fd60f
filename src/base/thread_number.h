// A small number of the calling thread, which no other living thread has: the place of what each thread has for itself.
#pragma once

#include <cstdint>

namespace weir::base {

inline constexpr uint32_t kNumberedThreads = 128;

namespace threads {
inline constexpr uint32_t kNone = UINT32_MAX;
extern constinit thread_local uint32_t number;
uint32_t take_number();
}  // namespace threads

// Below kNumberedThreads; or that very number, which all threads share that came when the others were given away. A
// number goes on to another thread when its own has ended, which sees then all that the first one wrote.
inline uint32_t thread_number() { return threads::number != threads::kNone ? threads::number : threads::take_number(); }

}  // namespace weir::base
