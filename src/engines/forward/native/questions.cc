#include "engines/forward/native/questions.h"

#include <utility>

#include "engines/forward/native/message.h"
#include "engines/forward/oip/message.h"
#include "engines/forward/oip/probe.h"
#include "images/image.h"

namespace weir::forward {
namespace {

using base::Bytes;
using base::Result;
using base::Status;

constexpr std::string_view kDescribeModel = "/weir.forward.v1.Forward/DescribeModel";

class NativeQuestions final : public Questions {
 public:
  NativeQuestions(net::Shard& shard, OriginConn& conn, const Options& options,
                  std::shared_ptr<const msg::TextSpec> text, std::unique_ptr<Questions> tensors)
      : conn_(conn), options_(options), text_(std::move(text)), tensors_(std::move(tensors)), probe_(shard, conn) {}

  void ask_ready(base::Duration timeout, OnReady then) override {
    probe_.ask(kDescribeModel, name(), timeout, [then = std::move(then)](Result<Bytes> answer) {
      if (!answer) return then(answer.error());
      then(true);
    });
  }
  void ask_signature(const msg::ModelSpec& wanted, base::Duration timeout, OnSignature then) override {
    wanted_ = wanted;
    timeout_ = timeout;
    then_ = std::move(then);
    probe_.ask(kDescribeModel, name(), timeout + options_.connect_timeout,
               [this](Result<Bytes> answer) { heard(std::move(answer)); });
  }

 private:
  Bytes name() const { return write_name(options_.model, options_.version); }
  void heard(Result<Bytes> answer);
  Result<msg::ModelSpec> signature(DescribedModel model);
  void tell(Result<msg::ModelSpec> spec) { std::exchange(then_, nullptr)(std::move(spec)); }

  OriginConn& conn_;
  const Options& options_;
  const std::shared_ptr<const msg::TextSpec> text_;
  const std::unique_ptr<Questions> tensors_;
  Probe probe_;
  msg::ModelSpec wanted_;
  base::Duration timeout_{0};
  OnSignature then_;
};

void NativeQuestions::heard(Result<Bytes> answer) {
  if (!answer) return tell(answer.error());
  auto model = read_description(answer->view());
  if (!model) {
    Status status = model.error();
    status.text = "origin " + conn_.origin().name() + ": " + status.text;
    return tell(std::move(status));
  }
  if (model->makes_tokens) return tell(signature(*std::move(model)));
  tensors_->ask_signature(wanted_, timeout_, [this](Result<msg::ModelSpec> spec) { tell(std::move(spec)); });
}

// An image is looked at here as the origin does.
msg::TextSpec::Vision vision_of(const DescribedModel::Vision& model) {
  return {model.start_id, model.pad_id, model.end_id,
          [pads = model.pads](std::string_view data, std::string_view) -> Result<uint32_t> {
            auto header = images::read_picture_header(data);
            if (!header) return header.error();
            return pads;
          }};
}

Result<msg::ModelSpec> NativeQuestions::signature(DescribedModel model) {
  if (!text_)
    return base::invalid("parameter 'tokenizer' is missing: it names the folder of the model's tokenizer.json");
  auto text = std::make_shared<msg::TextSpec>(*text_);
  text->max_length = options_.max_length > 0 ? options_.max_length : model.max_length;
  text->vocabulary = model.vocabulary;
  text->hidden_size = model.hidden_size, text->normalized = model.normalized;
  if (!model.eos_ids.empty()) text->eos_ids = std::move(model.eos_ids);
  text->concepts = std::move(model.concepts);
  text->readout_layers = std::move(model.readout_layers);
  text->readout_dtype = std::move(model.readout_dtype);
  if (model.vision) text->vision = vision_of(*model.vision);
  msg::ModelSpec spec = std::move(wanted_);
  spec.text = std::move(text);
  spec.max_batch = 0;
  if (spec.platform.empty()) spec.platform = model.platform.empty() ? "weir" : model.platform;
  return spec;
}

}  // namespace

std::unique_ptr<Questions> make_native_questions(net::Shard& shard, OriginConn& conn, const Options& options,
                                                 std::shared_ptr<const msg::TextSpec> text,
                                                 std::unique_ptr<Questions> tensors) {
  return std::make_unique<NativeQuestions>(shard, conn, options, std::move(text), std::move(tensors));
}

}  // namespace weir::forward
