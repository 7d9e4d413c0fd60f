#include "engines/process/child_log.h"

#include <algorithm>
#include <chrono>

namespace weir::process {
namespace {

using base::log::Level;

// Takes the level off the line.
Level level_of(std::string_view& line) {
  if (line.size() < 3 || line[0] != '<' || line[2] != '>' || line[1] < '0' || line[1] > '7') return Level::kInfo;
  const char digit = line[1];
  line.remove_prefix(3);
  if (digit <= '3') return Level::kError;
  if (digit == '4') return Level::kWarning;
  return digit == '7' ? Level::kVerbose : Level::kInfo;
}

}  // namespace

void ChildLog::feed(std::string_view bytes, base::Time now) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const auto part = bytes.substr(0, end);
    line_.append(part.substr(0, kLongest - line_.size()));
    if (end == std::string_view::npos) return;
    line(now);
    bytes.remove_prefix(end + 1);
  }
}

void ChildLog::finish(base::Time now) {
  if (!line_.empty()) line(now);
  tell_dropped();
}

void ChildLog::report_dropped_when_quiet(base::Time now) {
  if (now - filled_ >= kQuiet) tell_dropped();
}

void ChildLog::line(base::Time now) {
  if (filled_ != base::Time::min())
    tokens_ = std::min<double>(kBurst, tokens_ + kRate * std::chrono::duration<double>(now - filled_).count());
  filled_ = now;
  std::string_view text = line_;
  const Level level = level_of(text);
  if (!text.empty()) last_ = text;
  if (tokens_ < 1) {
    ++dropped_;
  } else if (!text.empty()) {
    if (tokens_ >= kRate) tell_dropped();  // the flood is over
    tokens_ -= 1;
    if (dropped_ == 0 || level == Level::kError) write_(level, text);
  }
  line_.clear();
}

void ChildLog::tell_dropped() {
  if (dropped_ == 0) return;
  write_(Level::kWarning, std::to_string(dropped_) + " lines were dropped: more than " + std::to_string(kRate) +
                              " a second are not kept");
  dropped_ = 0;
}

}  // namespace weir::process
