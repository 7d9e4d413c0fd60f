#include "base/log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <iterator>
#include <mutex>

#include "base/log_writer.h"
#include "base/recent_warnings.h"

namespace weir::base::log {
namespace {

constexpr size_t kLongest = 256;
constexpr auto kAtEnd = std::chrono::seconds(1);
constexpr std::array<std::string_view, 4> kNames{"verbose", "info", "warning", "error"};

std::array<std::atomic<bool>, 4> on{false, true, true, true};
std::atomic<uint32_t> verbose_level{0};
std::atomic<Format> line_format{Format::kText};
std::atomic<bool> ending{false};

bool plain(unsigned char c) { return c >= 0x20 && c != '"' && c != '\\' && c < 0x7f; }

// JSON string escaping; bytes that are not printable ASCII become \u00XX, so that no client can forge or garble a line.
void quote(std::string& out, std::string_view text) {
  out += '"';
  for (unsigned char c : text.substr(0, kLongest)) {
    if (plain(c))
      out += char(c);
    else if (c == '"' || c == '\\')
      out += '\\', out += char(c);
    else
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", c);
  }
  if (text.size() > kLongest) out += "…";
  out += '"';
}

struct ValueWriter {
  std::string& out;
  Format format;
  void operator()(std::string_view v) const {
    bool bare = format == Format::kText && !v.empty() && v.size() <= kLongest;
    for (unsigned char c : v) bare = bare && plain(c) && c != ' ' && c != '=';
    if (bare)
      out += v;
    else
      quote(out, v);
  }
  void operator()(bool v) const { out += v ? "true" : "false"; }
  void operator()(double v) const { out += fmt::format("{:.6g}", v); }
  void operator()(int64_t v) const { out += fmt::format_int(v).str(); }
  void operator()(uint64_t v) const { out += fmt::format_int(v).str(); }
};

std::string line(Level level, std::string_view event, LogFields fields, Format format) {
  std::string out;
  if (format == Format::kJson) {
    out += ",\"level\":\"" + std::string(kNames[size_t(level)]) + "\",\"event\":";
    quote(out, event);
    for (const auto& f : fields) {
      out += ',';
      quote(out, f.key);
      out += ':';
      std::visit(ValueWriter{out, format}, f.value);
    }
    return out + "}";
  }
  out += fmt::format("{:<7} {}", kNames[size_t(level)], event);
  for (const auto& f : fields) {
    out += ' ';
    out += f.key;
    out += '=';
    std::visit(ValueWriter{out, format}, f.value);
  }
  return out;
}

std::string stamped(Level level, std::string_view event, LogFields fields) {
  Format format = line_format.load(std::memory_order_relaxed);
  auto now = std::chrono::system_clock::now();
  auto seconds = std::chrono::time_point_cast<std::chrono::seconds>(now);
  auto micros = std::chrono::duration_cast<std::chrono::microseconds>(now - seconds).count();
  std::tm utc = fmt::gmtime(std::chrono::system_clock::to_time_t(now));
  auto time = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                          utc.tm_hour, utc.tm_min, utc.tm_sec, micros);
  std::string text = format == Format::kJson ? "{\"time\":\"" + time + '"' : time + ' ';
  text += line(level, event, fields, format);
  return text += '\n';
}

// Never destroyed: whoever logs while the process ends finds it there.
LogWriter& writer() {
  static LogWriter* instance = [] {
    auto* made = new LogWriter(STDERR_FILENO, [](uint64_t lost) {
      return stamped(Level::kWarning, "log lines were lost", {{"lines", lost}});
    });
    std::atexit([] {
      ending.store(true);
      flush(kAtEnd);
    });
    return made;
  }();
  return *instance;
}

struct WarningList {
  std::mutex mutex;
  Warnings kept;  // under mutex

  void put(std::string_view line) {
    std::lock_guard lock(mutex);
    ++kept.count;
    if (kept.lines.size() == kMostWarnings) kept.lines.erase(kept.lines.begin());
    kept.lines.emplace_back(line.substr(0, line.find_last_not_of('\n') + 1));
  }
};

// Never destroyed, as the writer.
WarningList& warning_list() {
  static auto* instance = new WarningList;
  return *instance;
}

}  // namespace

void enable(Level level, bool enabled) {
  if (level != Level::kOff) on[size_t(level)].store(enabled, std::memory_order_relaxed);
}
bool enabled(Level level) { return level != Level::kOff && on[size_t(level)].load(std::memory_order_relaxed); }

void set_verbosity(uint32_t level) {
  verbose_level.store(level, std::memory_order_relaxed);
  enable(Level::kVerbose, level > 0);
}
uint32_t verbosity() { return verbose_level.load(std::memory_order_relaxed); }

void set_format(Format format) { line_format.store(format, std::memory_order_relaxed); }
Format format() { return line_format.load(std::memory_order_relaxed); }

void write(Level level, std::string_view event, LogFields fields) {
  const std::string text = stamped(level, event, fields);
  if (level >= Level::kWarning) warning_list().put(text);
  writer().put(text);
  if (ending.load(std::memory_order_relaxed)) flush(kAtEnd);
}
bool flush(Duration most) { return writer().flush(most); }
uint64_t dropped() { return writer().dropped(); }

Warnings recent_warnings() {
  std::lock_guard lock(warning_list().mutex);
  return warning_list().kept;
}

}  // namespace weir::base::log
