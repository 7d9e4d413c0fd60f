// LineFile: lines of JSON on their way to a file, written by one thread, so that a shard waits for nothing but a brief
// lock. When the writer cannot keep up or cannot write (a full disk, a stopped reader), lines are dropped and counted,
// and a line before the next one that is written says how many ({"dropped":3}). The server's log says when it cannot
// write, and why, and when it can again.
//
// A write ends with a line wherever it can, so that processes that append to one file or pipe do not cut each other's
// lines: to a file it is all that waits, up to 1 MiB, to a pipe PIPE_BUF bytes.
#pragma once

#include <chrono>
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
  // The end waits so long for a write that does not return; what the file does not have by then is lost.
  static constexpr std::chrono::seconds kPatience{5};

  // kElements: the file is a JSON array, begun anew: "[", lines that begin with a comma, which the first one loses, and
  // "]" at the end. A line that was cut short is continued by the next write. No other process may write to it.
  enum class Form : uint8_t { kLines, kElements };
  struct Names {
    const char* log;      // for people: "the access log"
    const char* setting;  // "access_log"
    const char* counter;  // of lines that were lost: "weir_access_log_dropped_total"
    Form form = Form::kLines;
    const char* note = "{\"dropped\":";  // what stands before the number of lost lines and "}"
    uint64_t most = UINT64_MAX;          // bytes of the file: lines beyond are lost. No bound of a pipe
  };
  // `where`: "-" for standard output, or a file or pipe to append to, made with `mode`. Errors: the file cannot be
  // opened, or of kElements another process has it.
  static Result<std::unique_ptr<LineFile>> open(const Names& names, const std::string& where, unsigned mode,
                                                Metrics& metrics);
  ~LineFile();  // writes what is waiting
  // After the file was moved away: lines from here on go to a file of its former name. Nothing happens where the name
  // is still that file's. Any thread.
  void reopen();
  // `count` whole lines. False: too many wait, and they are lost. Any thread.
  bool put(std::string_view lines, uint64_t count);

 private:
  LineFile();
  struct Parts;
  std::shared_ptr<Parts> parts_;  // the writer's, too: it may outlive this
};

}  // namespace weir::base
