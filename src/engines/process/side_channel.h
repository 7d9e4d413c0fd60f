// SideChannel: what a child asks of the server apart from batches (protocol.h, descriptor 5): metrics of its own, and
// to load and unload models. At any time, and from any of its threads.
//
// The thread that watches the child serves it. A thread that has received answers with kCounted calls serve(), too, so
// that what the model has counted is there before its answer is. Loads take their time: they are answered later, by the
// repository.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/memory_ledger.h"
#include "base/status.h"
#include "engines/process/child_readiness.h"
#include "engines/process/custom_metrics.h"
#include "engines/process/document.h"
#include "engines/process/engine.h"
#include "engines/process/protocol.h"

namespace weir::process {

class SideChannel {
 public:
  static constexpr size_t kMostLoads = 16;      // of one child, that have not ended
  static constexpr size_t kMostQuestions = 64;  // of one child, whether other models are ready, that it waits for
  struct Options {
    std::string model;
    uint64_t most_request = 0;  // bytes of a request to load, with the files in it
    std::shared_ptr<CustomMetrics> metrics{};
    ModelControl control{};
    FindModel find{};
    base::MemoryLedger* ledger = nullptr;
    base::Duration patience = std::chrono::seconds(30);  // of a question: the child waits no longer (PATIENCE)
  };
  // Errors: RESOURCE_EXHAUSTED without descriptors.
  static base::Result<std::unique_ptr<SideChannel>> open(Options options);
  ~SideChannel();

  // The child's end, which close_child_end() closes once the child has it.
  int child_end() const { return theirs_; }
  void close_child_end();
  int fd() const { return replies_->fd; }

  // Takes what has come, some hundred packets at most. False: nothing will come any more, or the child broke the
  // protocol. Any thread.
  bool serve();
  // The child has ended: its metrics go.
  void ended();
  // Whether the model is ready, where the child says so (kSaysReady).
  const std::shared_ptr<ChildReadiness>& readiness() const { return readiness_; }

 private:
  // Outlives this in those who load.
  struct Replies {
    std::mutex mutex;
    int fd = -1;                               // under mutex, as the rest; -1: the channel is gone
    size_t loads = 0;                          // that have not ended
    std::map<uint64_t, base::Time> questions;  // by number, since when: those without an answer
    void send(uint64_t number, const base::Status& status, const Writer& result);
    bool ask(uint64_t number);  // kIsReady
  };
  SideChannel(Options options, int ours, int theirs);
  bool take(const Message& message, std::string_view bytes);
  bool count(const Message& message, std::string_view bytes);
  bool take_readiness(const Message& message, DocumentReader& in);
  bool answer(const Message& message, DocumentReader& in);
  base::Status make_family(DocumentReader& in, Writer& out);
  base::Status make_metric(DocumentReader& in, Writer& out);
  base::Status read_value(DocumentReader& in, Writer& out) const;
  bool control_models(const Message& message, std::string_view bytes);
  base::Status begin(const Message& message, DocumentReader& in);
  base::Status ask_other(const Message& message, DocumentReader& in);

  const Options options_;
  const std::shared_ptr<Replies> replies_;
  const std::shared_ptr<ChildReadiness> readiness_;
  int theirs_;
  std::mutex mutex_;
  ModelMetrics metrics_;
  std::string parts_;          // under mutex_: of a request to load whose last part has not come
  base::MemoryCharge charge_;  // for parts_
};

}  // namespace weir::process
