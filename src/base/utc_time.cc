#include "base/utc_time.h"

#include <chrono>
#include <ctime>

namespace weir::base {

void append_utc(std::string& out, WallTime at) {
  auto whole = std::chrono::floor<std::chrono::seconds>(at);
  std::time_t seconds = std::chrono::system_clock::to_time_t(whole);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char buffer[48];
  size_t n = std::strftime(buffer, sizeof buffer, "%Y-%m-%dT%H:%M:%S.", &utc);
  auto micros = uint64_t(std::chrono::duration_cast<std::chrono::microseconds>(at - whole).count());
  for (uint64_t scale = 100'000; scale > 0; scale /= 10) buffer[n++] = char('0' + micros / scale % 10);
  buffer[n++] = 'Z';
  out.append(buffer, n);
}

}  // namespace weir::base
