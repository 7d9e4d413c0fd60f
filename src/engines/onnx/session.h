// Session: one model file loaded into ONNX Runtime. Immutable; any number of threads may run it at once, so all
// instances of a model share one session and its weights.
#pragma once

#include <memory>
#include <string_view>

#include "base/status.h"
#include "engines/onnx/external_data.h"
#include "engines/onnx/library.h"
#include "engines/onnx/onnx_file.h"
#include "engines/onnx/options.h"
#include "engines/onnx/signature.h"

namespace weir::onnx {

// Options of a run: what goes wrong is in its status alone. `stream`: whoever has given it to the session knows when
// its work is done; null: the library waits. `graph`: the number of the CUDA graph to capture or to replay, "-1" for
// none; null where the session has no graphs.
base::Result<Owned<OrtRunOptions>> make_run_options(const Library& library, const void* stream, const char* graph);

class Session {
 public:
  // `file` is the whole model, `summary` what it says of itself, `external` the other files that it names; none of them
  // is needed afterwards. `id` names the session in the library's log lines.
  static base::Result<std::shared_ptr<const Session>> make(std::shared_ptr<const Library> library,
                                                           const SessionOptions& options, std::string_view file,
                                                           const FileSummary& summary, const ExternalData& external,
                                                           const std::string& id);

  const Library& library() const { return *library_; }
  const Signature& signature() const { return signature_; }
  OrtSession* raw() const { return session_.get(); }  // for run(), which only reads it
  // For every run: what goes wrong is in run()'s status, so that no client can fill the log.
  const OrtRunOptions* run_options() const { return run_options_.get(); }

 private:
  Session(std::shared_ptr<const Library> library, Owned<OrtSession> session)
      : library_(std::move(library)), session_(std::move(session)) {}

  std::shared_ptr<const Library> library_;  // before session_: it must outlive it
  Owned<OrtSession> session_;
  Owned<OrtRunOptions> run_options_{nullptr, nullptr};
  Signature signature_;
};

}  // namespace weir::onnx
