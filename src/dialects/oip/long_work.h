// Long work of a request or its answer, as offload tasks for the bus's workers: reading 40 MiB of JSON takes 0.4
// s, writing as much takes longer.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bus/offload_task.h"
#include "dialects/oip/json_infer.h"

namespace weir::oip {

// JSON of so many bytes, or protobuf to be converted, is read where it came in: 10 ms at most.
inline constexpr size_t kLongRequest = size_t(1) << 20;
// So many bytes of tensors are classified or become JSON where they came in: 2 to 5 ms.
inline constexpr size_t kLongAnswer = size_t(64) << 10;

class ReadRequest final : public bus::OffloadTask {
 public:
  // Fills the Call and the options. Touches nothing of the shard's.
  using Read = std::function<base::Status(msg::Call&, InferOptions&)>;
  explicit ReadRequest(Read read) : read_(std::move(read)) {}
  void run() override;
  // Moves what has been read.
  void hand_over(msg::Call& call, InferOptions& options);

  base::Status status;  // after run()

 private:
  const Read read_;
  msg::Call call_;
  InferOptions options_;
};

class WriteAnswer final : public bus::OffloadTask {
 public:
  using Write = JsonReply (*)(const InferReply&, const OutputForms&);
  // `outputs` have been selected. `spec` must live until this has run: the sender sees to that. `write`: null if the
  // shard writes the answer. `bytes`: of the tensors that have to be worked on (work_on()).
  WriteAnswer(const msg::ModelSpec& spec, const msg::Call& call, const InferOptions& options, msg::Outputs&& outputs,
              OutputForms forms, Write write, size_t bytes);
  // An error in the place of an answer, which the shard writes.
  WriteAnswer(const msg::ModelSpec& spec, const msg::Call& call, const InferOptions& options, base::Status failure);
  size_t bytes() const { return bytes_; }
  bool is_long() const { return bytes_ > kLongAnswer; }
  // Classifies, checks, and writes.
  void run() override;
  InferReply reply() const {
    return {model_, version_, id_, outputs_.parameters, outputs_.tensors, &options_, error.ok() ? nullptr : &error};
  }
  const OutputForms& forms() const { return forms_; }
  bool empty() const { return outputs_.tensors.empty(); }

  bool last = false;   // no other answer follows
  base::Status error;  // the answer is this

  base::Status status;  // after run(), as the rest
  JsonReply written;

 private:
  void work();

  const msg::ModelSpec& spec_;
  const std::vector<OutputOptions> options_;
  const std::string model_, version_, id_;
  msg::Outputs outputs_;
  const OutputForms forms_;
  const Write write_ = nullptr;
  const size_t bytes_ = 0;
};

}  // namespace weir::oip
