// until_done(): for answers that somebody waits for.
#pragma once

#include <chrono>
#include <string_view>
#include <thread>

#include "base/attempt.h"

namespace weir::base {

// Runs `work` again and again until it throws nothing, so until there is memory for it; what it has thrown must have
// changed nothing. Sleeps in between.
template <class Work>
void until_done(std::string_view where, Work&& work) {
  while (!base::attempt(where, work).ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace weir::base
