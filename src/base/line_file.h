// LineFile: lines of JSON on their way to a file, written by one thread, so that a shard waits for nothing but a brief
// lock. When the writer cannot keep up or cannot write (a full disk, a stopped reader), lines are dropped and counted,
// and a line before the next one that is written says how many ({"dropped":3}). The server's log says when it cannot
// write, and why, and when it can again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/metrics.h"
#include "base/status.h"

namespace weir::base {

class LineFile {
 public:
  static constexpr size_t kMostWaiting = 4 << 20;  // bytes that wait for the writer

  // kElements: the file is a JSON array, whose "[" is there already. Each line begins with a comma, which the first one
  // loses; a line that was cut short is continued by the next write; "]" ends the file.
  enum class Form : uint8_t { kLines, kElements };
  struct Names {
    const char* log;      // for people: "the access log"
    const char* setting;  // "access_log"
    const char* counter;  // of lines that were lost: "weir_access_log_dropped_total"
    Form form = Form::kLines;
    const char* note = "{\"dropped\":";  // what stands before the number of lost lines and "}"
  };
  // `where`: "-" for standard output, or a file to append to, made with `mode`. Errors: the file cannot be opened.
  static Result<std::unique_ptr<LineFile>> open(const Names& names, const std::string& where, unsigned mode,
                                                Metrics& metrics);
  ~LineFile();    // writes what is waiting
  void reopen();  // after the file was moved away; any thread
  // `count` whole lines. False: too many wait, and they are lost. Any thread.
  bool put(std::string_view lines, uint64_t count);

 private:
  LineFile();
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace weir::base
