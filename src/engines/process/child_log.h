// ChildLog: what a child writes to its standard output and error, as lines of the server's log. Pure; time comes from
// the caller. A line that begins with <3>, <4>, <6> or <7> has that level of syslog; others are information. Lines
// beyond a rate are dropped and counted, and long ones are cut.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/log.h"

namespace weir::process {

class ChildLog {
 public:
  static constexpr size_t kLongest = 1024;              // bytes of a line
  static constexpr uint32_t kRate = 100, kBurst = 500;  // lines a second, and at once

  static constexpr base::Duration kQuiet = std::chrono::milliseconds(200);  // then a flood is over

  using Write = std::function<void(base::log::Level, std::string_view line)>;
  explicit ChildLog(Write write) : write_(std::move(write)) {}

  void feed(std::string_view bytes, base::Time now);
  // The last line, if it has no end; the dropped ones are told. At the child's end.
  void finish(base::Time now);
  // Says how many lines were dropped, once none has come for a while. To be called while flooded().
  void report_dropped_when_quiet(base::Time now);
  // True while lines are being dropped: whoever feeds this need not hurry.
  bool flooded() const { return dropped_ > 0; }
  // The last line, which may say why a child has ended.
  const std::string& last() const { return last_; }

 private:
  void line(base::Time now);
  void tell_dropped();

  const Write write_;
  std::string line_, last_;
  double tokens_ = kBurst;
  base::Time filled_ = base::Time::min();
  uint64_t dropped_ = 0;
};

}  // namespace weir::process
