// AccessLog: one JSON object per line for every Exchange that ended, and for every request that never became one.
//
//   {"time":"2024-01-02T03:04:05.678901Z","request_id":"…","who":"ci","peer":"127.0.0.1:5000","protocol":"oip-rest",
//    "http":"2","method":"POST","route":"/v2/models/{model}/infer","model":"digits","status":200,"code":"OK",
//    "bytes_in":12,"bytes_out":34,"seconds":0.000812,"queue_seconds":0.000101,"compute_seconds":0.000511,
//    "trace_id":"…"}
//
// `who` is the name of the key, the subject of the token or the name in the certificate that the request was let in
// with, never a secret. There is no `who` without authentication.
//
// Each shard makes its lines and hands them to a base::LineFile at the end of each turn of its loop.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/env.h"
#include "base/line_file.h"
#include "base/metrics.h"
#include "base/status.h"
#include "wire/router.h"

namespace weir::ops {

// Appends the line of an Exchange that has ended, or of a request that never became one.
void append_access_line(std::string& out, base::WallTime at, const wire::Exchange& exchange);
void append_rejected_line(std::string& out, base::WallTime at, std::string_view reason, const wire::PeerInfo& peer);

class AccessLog {
 public:
  // `where`: "-" for standard output, or a file to append to. Errors: the file cannot be opened.
  static base::Result<std::unique_ptr<AccessLog>> open(const std::string& where, base::Metrics& metrics);
  void reopen() { file_->reopen(); }  // call it after the file was moved away; any thread

  // The log of one shard, on its thread.
  class ShardLog final : public wire::Observer {
   public:
    ShardLog(AccessLog& log, base::Env& env) : log_(log), env_(env) {}
    void finished(const wire::Exchange& exchange) override;
    void rejected(std::string_view reason, const wire::PeerInfo& peer) override;
    // Hands the lines of this turn to the file. Called at the end of each turn.
    void flush();

   private:
    AccessLog& log_;
    base::Env& env_;
    std::string lines_;
    uint64_t count_ = 0;
  };

 private:
  explicit AccessLog(std::unique_ptr<base::LineFile> file) : file_(std::move(file)) {}

  std::unique_ptr<base::LineFile> file_;
};

}  // namespace weir::ops
