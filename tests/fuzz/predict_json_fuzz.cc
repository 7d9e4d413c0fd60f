// Any bytes as a predict request: accepted only if a second parser accepts the JSON too; what is accepted and sound is
// an answer that reads back as the same tensors.
#include "dialects/predict/predict_reply.h"
#include "dialects/predict/predict_request.h"
#include "marshal/check.h"
#include "require.h"
#include "second_parser.h"

namespace {

using namespace weir;  // NOLINT: a program of one file

// Reads an answer as a request of the same form, and compares.
void read_back(predict::PredictLayout form, const std::vector<msg::Tensor>& sent, std::string answer) {
  const bool rows = form == predict::PredictLayout::kRows;
  const std::string_view told = rows ? "{\"predictions\":" : "{\"outputs\":",
                         asked = rows ? "{\"instances\":" : "{\"inputs\":";
  require(answer.starts_with(told), "an answer names its form");
  answer.replace(0, told.size(), asked);
  msg::ModelSpec same;
  for (const auto& tensor : sent) same.inputs.push_back({tensor.name, tensor.dtype, tensor.shape});
  msg::Call again;
  auto read = predict::read_predict(answer, same, base::heap(), again);
  require(bool(read), "an answer is a request of the same form");
  require(again.inputs.size() == sent.size(), "it has as many tensors");
  for (const auto& tensor : again.inputs)
    for (const auto& before : sent)
      if (before.name == tensor.name) require(before.data.view() == tensor.data.view(), "and the same elements");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view body(reinterpret_cast<const char*>(data), size);
  msg::ModelSpec any;
  any.any_tensors = true;
  msg::Call call;
  auto form = predict::read_predict(body, any, base::heap(), call);
  if (!form) return 0;
  require(accepted_again(body), "a second parser accepts it too");
  if (!marshal::check_call(any, call).ok()) return 0;
  auto text = predict::write_predict(*form, call.inputs);
  if (!text) return 0;
  require(text->size() <= predict::most_text(*form, call.inputs), "the bound of an answer holds");
  require(is_json(*text), "an answer is JSON");
  bool empty = false;  // an empty array says nothing of its inner dimensions
  for (const auto& tensor : call.inputs) empty = empty || tensor.shape.elements() == 0u;
  if (!empty) read_back(*form, call.inputs, *text);
  return 0;
}
