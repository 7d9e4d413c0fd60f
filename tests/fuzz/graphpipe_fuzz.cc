// Any bytes as a GraphPipe message: what verify() takes, flatbuffers' own verifier takes too, as long as every string
// ends in the zero that Go's client leaves out; what then becomes tensors lies inside the message or costs no more than
// the budget; and what is written back verifies and reads as the same.
#include <cstdint>
#include <string>

#include "dialects/graphpipe/infer_request.h"
#include "dialects/graphpipe/reply.h"
#include "dialects/graphpipe/verify.h"
#include "marshal/check.h"
#include "require.h"

namespace {

using namespace weir;  // NOLINT: a program of one file
namespace fb = graphpipe_fb;

constexpr uint64_t kBudget = 1 << 20;

void require_round_trip(const std::vector<msg::Tensor>& tensors) {
  auto pieces = graphpipe::write_tensors(tensors);
  require(bool(pieces), "what came in can go out");
  std::string whole;
  for (const auto& piece : *pieces) whole += piece.view();
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(whole.data()), whole.size());
  require(verifier.VerifyBuffer<fb::InferResponse>(nullptr), "a reply verifies");
  auto* read = flatbuffers::GetRoot<fb::InferResponse>(whole.data())->output_tensors();
  require(read && read->size() == tensors.size(), "all tensors are there");
  for (unsigned i = 0; i < read->size(); ++i) {
    std::string data;
    if (auto* strings = read->Get(i)->string_val())
      for (auto* s : *strings) msg::append_string(data, {s->c_str(), s->size()});
    if (auto* bytes = read->Get(i)->data()) data.assign(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    require(data == tensors[i].data.view(), "a tensor reads as it was");
    require(read->Get(i)->shape()->size() == tensors[i].shape.rank(), "and has its shape");
  }
}

using Strings = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;

bool ends_in_zero(const flatbuffers::String* s, std::string_view body) {
  return !s || (s->c_str() + s->size() < body.data() + body.size() && s->c_str()[s->size()] == 0);
}

bool end_in_zeros(const Strings* all, std::string_view body) {
  for (unsigned i = 0; all && i < all->size(); ++i)
    if (!ends_in_zero(all->Get(i), body)) return false;
  return true;
}

bool strings_end_in_zeros(const fb::Request& request, std::string_view body) {
  auto* infer = request.req() ? request.req_as_InferRequest() : nullptr;
  if (!infer) return true;
  for (unsigned i = 0; infer->input_tensors() && i < infer->input_tensors()->size(); ++i)
    if (!end_in_zeros(infer->input_tensors()->Get(i)->string_val(), body)) return false;
  return ends_in_zero(infer->config(), body) && end_in_zeros(infer->input_names(), body) &&
         end_in_zeros(infer->output_names(), body);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto body = base::Bytes::copy_of({reinterpret_cast<const char*>(data), size});
  auto request = graphpipe::verify(body, kBudget);
  if (!request) return 0;
  flatbuffers::Verifier second(reinterpret_cast<const uint8_t*>(body.data()), body.size(), 64, 100'000);
  bool unread = (*request)->req_type() > fb::Req_MAX;  // a union that a later edition may add
  if (!unread && strings_end_in_zeros(**request, body.view()))
    require(second.VerifyBuffer<fb::Request>(nullptr), "the library's verifier takes it too");
  auto* infer = (*request)->req() ? (*request)->req_as_InferRequest() : nullptr;
  if (!infer) return 0;
  msg::Call call;
  msg::ModelSpec any;
  any.any_tensors = true;
  if (infer->config()) (void)graphpipe::read_config({infer->config()->c_str(), infer->config()->size()}, call);
  if (!graphpipe::read_tensors(*infer, body, any, base::heap(), call).ok()) return 0;
  uint64_t total = 0;
  for (const auto& tensor : call.inputs) {
    total += tensor.data.size();
    if (tensor.dtype != msg::DType::kBytes && !tensor.data.empty())
      require(tensor.data.slab() == body.slab(), "numbers alias the message");
  }
  require(total <= kBudget, "no more than the budget");
  if (marshal::check_call(any, call).ok()) require_round_trip(call.inputs);
  return 0;
}
