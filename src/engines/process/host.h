// Host: a child and the memory that it shares with the server: loads the model, hands it requests, and takes its
// answers after everything in them has been checked. What a child may not do ends it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "engines/process/child.h"
#include "engines/process/document.h"
#include "engines/process/shared_region.h"
#include "engines/process/side_channel.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::process {

struct HostOptions {
  ChildOptions child;
  std::string file;                          // told to the child: the model's file or folder
  std::chrono::nanoseconds load_timeout{0};  // until kReady
  std::chrono::nanoseconds timeout{0};       // of one kRun
  uint64_t most_answer = 0;                  // bytes of the output region
  uint32_t instance = 0;
  std::function<bool()> loading{};  // Place::loading
  SideChannel::Options side{};
  bool has_side = false;              // the child gets a SideChannel
  bool takes_many = false;            // a decoupled model: several requests in one kRun, with dynamic batching
  bool any_shape = false;             // outputs may have other shapes than the configuration gives them
  std::chrono::milliseconds rest{0};  // Place::rest
};

// A request as it is handed to the child.
struct Request {
  uint64_t call = 0;
  const msg::Call* of = nullptr;  // its id, parameters, outputs; null: none of them
  std::vector<const msg::Tensor*> inputs;
  uint32_t rows = 1;
  size_t parts = 1;  // each input is so many tensors in a row of `inputs`, whose rows follow each other
  const std::vector<bool>* wanted = nullptr;  // of the model's outputs, in place of the call's; empty: all
};

// One answer of the child, copied out of the shared memory.
struct Answer {
  uint64_t call = 0;
  AnswerKind kind = AnswerKind::kError;
  base::Status error;
  bool refused = false;  // the error is the server's own: the child has sent tensors
  msg::Outputs outputs;
};

// A request that the child makes to another model.
struct ChildCall {
  std::string model, version, id;
  msg::Parameters parameters;
  std::vector<std::string> outputs;
  std::vector<msg::Tensor> inputs;
};

class Host {
 public:
  // Starts the child and loads the model. Its spec is what was wanted, with what the child adds to it. Errors: the
  // child's words, or UNAVAILABLE.
  static base::Result<std::unique_ptr<Host>> load(const msg::ModelSpec& wanted, HostOptions options,
                                                  base::SlabSource& slabs);
  ~Host();

  const msg::ModelSpec& spec() const { return spec_; }
  Child& child() { return *child_; }
  // Null: the child does not say whether the model is ready.
  std::shared_ptr<ChildReadiness> readiness() const { return says_ready_ ? side_->readiness() : nullptr; }
  const HostOptions& options() const { return options_; }

  // Lays the requests into shared memory, which must be the server's (nothing runs), and sends them. Errors:
  // RESOURCE_EXHAUSTED without memory to share; UNAVAILABLE.
  base::Status run(uint64_t number, const std::vector<Request>& requests);
  // Handles the messages that both kinds of model may send; false for others.
  base::Result<bool> handle(const Message& message);
  // The document of kAnswers or kAnswer: never more than `most` answers. INTERNAL for what a child may not say; an
  // answer whose tensors are not the model's outputs, or for which there is no memory, is an error by itself.
  base::Result<std::vector<Answer>> read_answers(const Message& message, size_t most);
  // Whether the tensors have the shapes of the model's outputs, also where HostOptions::any_shape.
  base::Status check_shapes(const std::vector<msg::Tensor>& tensors) const;
  // The document of kExec. RESOURCE_EXHAUSTED without memory for its tensors; INTERNAL for what a child may not say.
  base::Result<ChildCall> read_call(const Message& message);
  // Answers kExec: with the outputs, where `kind` has any, or with the error that is not OK, for which there is always
  // room. Errors: RESOURCE_EXHAUSTED, and the child has been told nothing; UNAVAILABLE.
  base::Status send_reply(uint64_t number, AnswerKind kind, const msg::Outputs& outputs, const base::Status& error);
  // To be called with each answer. kKept: the inputs of the last run are still in use, so the next run gets another
  // region. kCounted: the counts that the model has made by itself are there when this returns.
  void note_flags(const Message& message) {
    if (message.type != Type::kAnswer) kept_ = kept_ || (message.flags & kKept) != 0;
    if (side_ && (message.flags & kCounted) != 0) (void)side_->serve();
  }

  // The regions stay as they are while this is held: else the watching thread of a child that is not decoupled replaces
  // those that are much larger than what was needed lately.
  std::unique_lock<std::mutex> hold() { return std::unique_lock(regions_); }
  // The same of a decoupled child's input region, by the thread that talks to it, while nothing runs.
  void shrink_input() { input_.shrink(*child_); }

  // Ends the child and returns why its calls fail.
  base::Status end(base::Status why);

 private:
  Host(HostOptions options, base::SlabSource& slabs) : options_(std::move(options)), slabs_(slabs) {}
  base::Status start_child();
  base::Status greet();
  base::Status take_ready(const Message& message);
  void put_request(const Request& request, uint64_t& at);
  void put_wanted(const Request& request);
  void copy_inputs(const Request& request, uint64_t& at) const;
  base::Status grow_output(uint64_t bytes);
  void shrink();
  base::Result<std::string> copy_document(const Message& message) const;
  base::Result<std::vector<msg::Tensor>> read_tensors(DocumentReader& in);
  base::Status check(const std::vector<msg::Tensor>& tensors) const;
  base::Status check(const msg::Tensor& tensor) const;
  base::Status lies(const std::string& what) const;

  const HostOptions options_;
  base::SlabSource& slabs_;
  msg::ModelSpec spec_;                // what was wanted; from take_ready() on with what the child adds
  std::unique_ptr<SideChannel> side_;  // or null; the child's watching thread uses it
  std::unique_ptr<Child> child_;
  std::mutex regions_;  // see hold()
  SharedRegion input_{Type::kInputRegion, slabs_.ledger()}, output_{Type::kOutputRegion, slabs_.ledger()};
  bool kept_ = false, says_ready_ = false;
  base::Status shortage_;  // why the child has got kNoRoom, until it has answered
  Writer writer_;
};

}  // namespace weir::process
