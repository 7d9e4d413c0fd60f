#include "app/shortage.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <system_error>

#include "app/serve.h"

namespace weir::app {
namespace {

enum class Lack : uint8_t { kMemory, kThreads, kOther };

bool words_are_there = false;  // end_in_words() was called

Lack lack_of(const std::exception& why) {
  if (dynamic_cast<const std::bad_alloc*>(&why)) return Lack::kMemory;
  auto* error = dynamic_cast<const std::system_error*>(&why);
  if (error && error->code() == std::errc::resource_unavailable_try_again) return Lack::kThreads;
  if (error && error->code() == std::errc::not_enough_memory) return Lack::kMemory;
  return Lack::kOther;
}

// Into a buffer, since there may be no memory for a string.
void write_shortage(char* line, size_t room, const std::exception& why) {
  Lack lack = lack_of(why);
  if (lack == Lack::kOther) {
    std::snprintf(line, room, "weir: %s", why.what());
    return;
  }
  char limit[120] = "";
  rlimit space{};
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    std::snprintf(limit, sizeof limit, " within the address space of %llu MiB (ulimit -v)",
                  static_cast<unsigned long long>(space.rlim_cur >> 20));
  const char* what = lack == Lack::kMemory ? "there is not enough memory" : "no thread could be started";
  const char* also = lack == Lack::kThreads ? ", or the one on threads (ulimit -u, pids.max)" : "";
  std::snprintf(line, room, "weir: %s%s: raise the limit%s, use fewer shards, or serve fewer models", what, limit,
                also);
}

// A write for whatever there is left to end with; `line` has room for an end of line.
bool put_line(char* line) {
  size_t length = 0;
  while (line[length] != 0) ++length;
  line[length++] = '\n';
  return ::write(STDERR_FILENO, line, length) >= 0;
}

[[noreturn]] void end_with_a_line() {
  char line[400] = "weir: an error that nobody expected";
  bool ours = true;
  try {
    if (std::current_exception()) throw;
  } catch (const std::exception& e) {
    write_shortage(line, sizeof line - 1, e);
    ours = lack_of(e) == Lack::kOther;
  } catch (...) {
  }
  if (!put_line(line) || ours) std::abort();
  std::_Exit(int(Exit::kFailed));
}

}  // namespace

std::string shortage(const std::exception& why) {
  char line[400];
  write_shortage(line, sizeof line, why);
  return line;
}

void end_in_words() {
  std::set_terminate(end_with_a_line);
  words_are_there = true;
}

void end_before_words() {
  if (words_are_there) return;
  char line[400];
  write_shortage(line, sizeof line - 1, std::bad_alloc());
  put_line(line);
  std::_Exit(int(Exit::kFailed));
}

}  // namespace weir::app
