// BatchEngine: a model in a child that answers each request once. A step lays the calls' inputs into shared memory,
// waits for the answers, and copies them out.
//
// A model with code of its own gets each call as a request. An engine of the server's own gets the rows of all calls as
// one: they are gathered in the shared memory, so that nothing is copied twice.
#pragma once

#include <memory>

#include "engines/process/host.h"
#include "engines/process/nested.h"
#include "msg/readiness_probe.h"
#include "sched/engine.h"

namespace weir::process {

enum class Requests : uint8_t { kOfEachCall, kOfTheBatch };

class BatchEngine final : public sched::Engine, public msg::HasReadinessProbe {
 public:
  // `wake`: an eventfd, which this closes.
  BatchEngine(std::unique_ptr<Host> host, Requests form, FindModel find, int wake)
      : host_(std::move(host)), form_(form), wake_(wake), nested_(std::move(find), *host_, wake) {}
  ~BatchEngine() override;

  const msg::ModelSpec& spec() const override { return host_->spec(); }
  bool reads_calls() const override { return true; }
  Health health() const override { return host_->child().over() ? Health::kLost : Health::kAlive; }
  base::Status step(sched::Batch& batch) override;

 private:
  void add_rows(const sched::Batch& batch);
  base::Result<std::vector<Answer>> wait(const sched::Batch& batch);
  base::Result<std::optional<Message>> receive(std::chrono::steady_clock::time_point deadline);
  base::Result<std::vector<Answer>> read(const Message& message);
  void tell_cancelled(const sched::Batch& batch);
  base::Result<msg::Outputs> choose(const msg::Call& call, Answer& answer) const;
  base::Status give_outputs(sched::Batch& batch, Answer& answer) const;

  const std::unique_ptr<Host> host_;
  const Requests form_;
  const int wake_;
  Nested nested_;
  uint64_t number_ = 0;
  std::vector<Request> requests_;
  std::vector<bool> told_;  // of the calls: that they are cancelled
};

}  // namespace weir::process
