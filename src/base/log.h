// Structured logging: an event in words and its fields, as text for people or one JSON object a line for machines.
//
//   log::info("model loaded", {{"model", name}, {"version", version}, {"seconds", took}});
//
// Any thread; lines are never mixed. A disabled level costs one relaxed load. Values are escaped and capped at 256
// bytes each, so a client's text cannot forge a line.
//
// Lines go to standard error by a thread of their own (base/log_writer.h): logging never waits for a reader; what
// cannot be kept for one is dropped, counted, and said. At exit() what is waiting is written, if that takes no longer
// than a second.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

#include "base/env.h"

namespace weir::base::log {

enum class Level : uint8_t { kVerbose, kInfo, kWarning, kError, kOff };
enum class Format : uint8_t { kText, kJson };

struct Field {
  std::string_view key;
  std::variant<std::string_view, int64_t, uint64_t, double, bool> value;

  Field(std::string_view k, std::string_view v) : key(k), value(v) {}
  Field(std::string_view k, const char* v) : key(k), value(std::string_view(v)) {}
  Field(std::string_view k, const std::string& v) : key(k), value(std::string_view(v)) {}
  Field(std::string_view k, bool v) : key(k), value(v) {}
  Field(std::string_view k, double v) : key(k), value(v) {}
  template <class T>
  requires std::is_integral_v<T> Field(std::string_view k, T v) : key(k) {
    if constexpr (std::is_signed_v<T>)
      value = int64_t(v);
    else
      value = uint64_t(v);
  }
};
using LogFields = std::initializer_list<Field>;

// Levels can be switched one by one at run time (the OIP log settings): kInfo off with kWarning on is allowed.
void enable(Level level, bool on);
bool enabled(Level level);
void set_verbosity(uint32_t level);  // 0 turns kVerbose off
uint32_t verbosity();
void set_format(Format format);
Format format();

void write(Level level, std::string_view event, LogFields fields = {});
// Waits until what was logged before is written, for those who are about to abort; false when that takes longer.
bool flush(Duration most);
// Lines lost so far.
uint64_t dropped();

inline void verbose(std::string_view event, LogFields fields = {}) {
  if (enabled(Level::kVerbose)) write(Level::kVerbose, event, fields);
}
inline void info(std::string_view event, LogFields fields = {}) {
  if (enabled(Level::kInfo)) write(Level::kInfo, event, fields);
}
inline void warning(std::string_view event, LogFields fields = {}) {
  if (enabled(Level::kWarning)) write(Level::kWarning, event, fields);
}
inline void error(std::string_view event, LogFields fields = {}) {
  if (enabled(Level::kError)) write(Level::kError, event, fields);
}

}  // namespace weir::base::log
