// Any bytes as an infer request over HTTP: accepted only if a second parser accepts the JSON too, every tensor that is
// accepted has the bytes that its shape asks for, what is written back reads as the same, and a template of the text
// changes nothing.
//
// Input: two bytes say how much of the body is JSON (0xffff: all of it; 0: a raw body), the rest is the body.
#include <cstdint>
#include <string>
#include <string_view>

#include "dialects/oip/json_infer.h"
#include "marshal/check.h"
#include "marshal/json_tensor.h"
#include "require.h"
#include "second_parser.h"

namespace {

using namespace weir;  // NOLINT: a program of one file

std::string text_of(const msg::Tensor& tensor) {
  std::string out;
  marshal::write_data(out, tensor, marshal::bytes_text(tensor));
  return out;
}

void require_round_trip(const msg::Tensor& tensor) {
  std::string text = text_of(tensor);
  msg::Tensor again{tensor.name, tensor.dtype, tensor.shape, {}};
  marshal::JsonCursor json(text);
  auto status = marshal::read_data(json, again, base::heap(), marshal::bytes_text(tensor));
  require(status.ok() && json.finish(), "what is written can be read");
  require(text_of(again) == text, "and reads as the same");
}

// A template that has been learned from this text, or from the one of the run before, reads what is read without it.
void require_same_by_template(const base::Bytes& body, const base::Status& status, const msg::Call& call,
                              const oip::InferOptions& options) {
  static oip::RequestTemplate others;
  oip::RequestTemplate own;  // learned by the first reading, used by the second
  for (oip::RequestTemplate* known : {&others, &own, &own}) {
    msg::Call again;
    oip::InferOptions more;
    auto verdict = oip::read_infer(body, body.size(), base::heap(), again, more, known);
    require(verdict.ok() == status.ok() && verdict.text == status.text, "a template changes no verdict");
    if (!status.ok()) continue;
    require(again.id == call.id && again.outputs == call.outputs && again.parameters == call.parameters &&
                again.inputs.size() == call.inputs.size() && more.outputs.size() == options.outputs.size(),
            "nor what a request says");
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      const auto &a = again.inputs[i], &b = call.inputs[i];
      require(a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && a.data.view() == b.data.view(),
              "nor its tensors");
    }
  }
}

void run_json(const base::Bytes& body, size_t json_size) {
  msg::Call call;
  oip::InferOptions options;
  auto status = oip::read_infer(body, json_size, base::heap(), call, options);
  if (json_size == body.size()) require_same_by_template(body, status, call, options);
  if (!status.ok()) return;
  require(accepted_again(body.view().substr(0, json_size)), "a second parser accepts it too");
  msg::ModelSpec any;
  any.any_tensors = true;
  if (!marshal::check_call(any, call).ok()) return;
  for (const auto& tensor : call.inputs) require_round_trip(tensor);
  oip::OutputForms forms(call.inputs.size(), oip::OutputForm::kJson);
  std::string reply = oip::write_infer({"m", "1", call.id, call.parameters, call.inputs}, forms).json;
  require(is_json(reply), "a reply is JSON");
}

void run_raw(const base::Bytes& body) {
  msg::ModelSpec spec;
  spec.max_batch = 8;
  spec.inputs = {{"x", msg::DType::kFp32, {2, -1}, false, {}}};
  msg::Call call;
  oip::InferOptions options;
  if (oip::read_raw_infer(body, spec, base::heap(), call, options).ok()) (void)marshal::check_call(spec, call);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  size_t split = size_t(data[0]) << 8 | data[1];
  auto body = base::Bytes::copy_of({reinterpret_cast<const char*>(data + 2), size - 2});
  if (split == 0)
    run_raw(body);
  else
    run_json(body, split > body.size() ? body.size() : split);
  return 0;
}
