// TraceFile: traces in the form of Triton's trace file, for the tools that read it (trace_summary.py).
//
//   file      = "[", elements with "," between them, "]" (once the server has ended)
//   request   = {"id":1,"model_name":"m","model_version":1,"request_id":"r"}
//   times     = {"id":1,"timestamps":[{"name":"REQUEST_START","ns":123},…]}     ns of the steady clock
//   tensor    =
//   {"id":1,"activity":"TENSOR_QUEUE_INPUT","tensor":{"name":"x","data":"1,2","shape":"1,2","dtype":"INT32"}}
//               with "whole":"1,1000" behind the type where the tensor has more elements than `data`
//   lost      = {"id":0,"dropped":3}     traces that could not be written, before the next one that was
// The elements of a trace are one line: they are written together or not at all.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

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
  // Begins the file anew. Of more than `most` bytes nothing is written. Errors: INVALID_ARGUMENT.
  static base::Result<std::unique_ptr<TraceFile>> open(const std::string& where, uint64_t most, base::Metrics& metrics);
  const std::string& where() const { return where_; }
  // Any thread.
  void put(const FinishedTrace& trace);

 private:
  TraceFile(std::string where, uint64_t most, std::unique_ptr<base::LineFile> file);

  const std::string where_;
  const std::unique_ptr<base::LineFile> file_;
  std::mutex mutex_;  // over what follows, and the order of what is written
  uint64_t left_;
  bool full_ = false;
};

}  // namespace weir::oip
