// AccessLog: one JSON object per line for every Exchange that ended, and for every request that never became one.
//
//   {"time":"2024-01-02T03:04:05.678901Z","request_id":"…","peer":"127.0.0.1:5000","protocol":"oip-rest","http":"2",
//    "method":"POST","route":"/v2/models/{model}/infer","model":"digits","status":200,"code":"OK","bytes_in":12,
//    "bytes_out":34,"seconds":0.000812,"queue_seconds":0.000101,"compute_seconds":0.000511,"trace_id":"…"}
//
// Lines are made on the shards and written by one thread; a shard waits for nothing but a brief lock per turn. When the
// writer cannot keep up or cannot write (a full disk, a stopped reader), lines are dropped and counted, and a line
// before the next one that is written says how many ("dropped"). The server's log says when it cannot write, and why,
// and when it can again.
#pragma once

#include <memory>
#include <string>

#include "base/env.h"
#include "base/metrics.h"
#include "base/status.h"
#include "wire/router.h"

namespace weir::ops {

class AccessLog {
 public:
  static constexpr size_t kMostWaiting = 4 << 20;  // bytes between shards and the writer

  // `where`: "-" for standard output, or a file to append to. Errors: the file cannot be opened.
  static base::Result<std::unique_ptr<AccessLog>> open(const std::string& where, base::Metrics& metrics);
  ~AccessLog();   // writes what is waiting
  void reopen();  // after the file was moved away; any thread

  // One shard's way in, on its thread.
  class ShardLog final : public wire::Observer {
   public:
    ShardLog(AccessLog& log, base::Env& env) : log_(log), env_(env) {}
    void finished(const wire::Exchange& exchange) override;
    void rejected(std::string_view reason, const wire::PeerInfo& peer) override;
    // At the end of each turn: hands over what this turn wrote.
    void flush();

   private:
    void begin();
    AccessLog& log_;
    base::Env& env_;
    std::string lines_;
    uint64_t count_ = 0;
  };

 private:
  AccessLog();
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace weir::ops
