#include "base/thread_number.h"

#include <bitset>
#include <mutex>

namespace weir::base::threads {
namespace {

constinit std::mutex mutex;
constinit std::bitset<kNumberedThreads> taken;  // under mutex

// Made with the thread's number, and gone with the thread.
struct GivesBack {
  ~GivesBack() {
    std::lock_guard lock(mutex);
    if (number < kNumberedThreads) taken.reset(number);
    number = kNumberedThreads;  // whatever else the thread does on its way
  }
};

}  // namespace

constinit thread_local uint32_t number = kNone;

uint32_t take_number() {
  thread_local GivesBack at_end;
  (void)&at_end;
  std::lock_guard lock(mutex);
  for (number = 0; number < kNumberedThreads && taken.test(number);) ++number;
  if (number < kNumberedThreads) taken.set(number);
  return number;
}

}  // namespace weir::base::threads
