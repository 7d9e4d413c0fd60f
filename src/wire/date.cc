#include "wire/date.h"

#include <algorithm>
#include <chrono>
#include <ctime>

namespace weir::wire {

// Not strftime(): its names of days and months are the locale's.
void HttpDate::renew() {
  using std::chrono::seconds;
  constexpr std::string_view kDays = "SunMonTueWedThuFriSat", kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  base::WallTime wall = env_.wall();
  auto second = std::chrono::floor<seconds>(wall);
  until_ = env_.now() + (second + seconds(1) - wall);
  std::time_t time = second.time_since_epoch().count();
  std::tm tm{};
  ::gmtime_r(&time, &tm);

  char* at = text_.data();
  auto put = [&](std::string_view text) { at = std::copy(text.begin(), text.end(), at); };
  auto digits = [&](int n, int places) {
    for (int i = places; i-- > 0; n /= 10) at[i] = char('0' + n % 10);
    at += places;
  };
  put("date: ");
  put(kDays.substr(size_t(tm.tm_wday) * 3, 3));
  put(", ");
  digits(tm.tm_mday, 2);
  put(" ");
  put(kMonths.substr(size_t(tm.tm_mon) * 3, 3));
  put(" ");
  digits(tm.tm_year + 1900, 4);
  put(" ");
  digits(tm.tm_hour, 2);
  put(":");
  digits(tm.tm_min, 2);
  put(":");
  digits(tm.tm_sec, 2);
  put(" GMT\r\n");
}

}  // namespace weir::wire
