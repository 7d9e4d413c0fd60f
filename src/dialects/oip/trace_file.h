// TraceFile: traces in the form of Triton's trace file, for the tools that read it (trace_summary.py).
//
//   file      = "[", elements with "," between them, "]" (once the server has ended)
//   request   = {"id":1,"model_name":"m","model_version":1,"request_id":"r"}
//   times     = {"id":1,"timestamps":[{"name":"REQUEST_START","ns":123},…]}     ns of the steady clock
//   tensor    =
//   {"id":1,"activity":"TENSOR_QUEUE_INPUT","tensor":{"name":"x","data":"1,2","shape":"1,2","dtype":"INT32"}}
//               with "whole":"1,1000" behind the type where the tensor has more elements than `data`
//   lost      = {"id":0,"dropped":3}     traces that could not be written, before the next one that was or "]"
// The elements of a trace are one line: they are written together or not at all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/line_file.h"
#include "base/metrics.h"
#include "base/status.h"
#include "dialects/oip/traced_tensors.h"
#include "msg/call.h"

namespace weir::oip {

// A request that is traced, when it is over.
struct FinishedTrace {
  uint64_t id = 0;  // of the trace
  std::string_view model, version, request_id, protocol;
  const msg::Timeline* times = nullptr;    // null: the level has no TIMESTAMPS
  const TracedTensors* tensors = nullptr;  // null: none
};
// Its elements, in a line that begins with a comma.
std::string trace_elements(const FinishedTrace& trace);

class TraceFile {
 public:
  // Begins the file anew, which no other process may write to, or writes to a pipe. Of more than `most` bytes of a file
  // nothing is written. Errors: INVALID_ARGUMENT.
  static base::Result<std::unique_ptr<TraceFile>> open(const std::string& where, uint64_t most, base::Metrics& metrics);
  const std::string& where() const { return where_; }
  // After the file was moved away: it ends there, and another one of its name begins. Any thread, as put().
  void reopen() { file_->reopen(); }
  void put(const FinishedTrace& trace) { file_->put(trace_elements(trace), 1); }

 private:
  TraceFile(std::string where, std::unique_ptr<base::LineFile> file)
      : where_(std::move(where)), file_(std::move(file)) {}

  const std::string where_;
  const std::unique_ptr<base::LineFile> file_;
};

}  // namespace weir::oip
