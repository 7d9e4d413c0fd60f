// Any bytes as a GrpsMessage over gRPC: what is accepted is what libprotobuf accepts, costs no more than a few times
// its size, and reads as libprotobuf reads it.

#include "dialects/grps/mapping.h"
#include "grps.pb.h"
#include "marshal/check.h"
#include "require.h"

namespace {

using namespace weir;  // NOLINT: a program of one file
namespace pb = ::grps::protos::v1;

size_t cost(const weir::grps::Message& message) {
  size_t n = message.data.size();
  for (const auto& t : message.tensors) n += t.data.size();
  return n;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto bytes = base::Bytes::copy_of({reinterpret_cast<const char*>(data), size});
  weir::grps::Message message;
  if (!weir::grps::read_pb(bytes, base::heap(), message).ok()) return 0;
  require(cost(message) <= 8 * size + 64, "a message stays near its size");
  msg::ModelSpec any;
  any.any_tensors = true;
  weir::grps::RequestForm form;
  msg::Call call;
  bool sound = weir::grps::payload_to_inputs(std::move(message), any, base::heap(), call, form).ok() &&
               marshal::check_call(any, call).ok();
  if (!sound) return 0;
  auto reply = weir::grps::outputs_to_payload({std::move(form)}, std::move(call.inputs), base::heap());
  if (!reply) return 0;
  std::string out;
  for (const auto& piece : weir::grps::write_pb({}, *reply)) out += piece.view();
  pb::GrpsMessage theirs, ours;
  require(ours.ParseFromString(out), "a reply is protobuf");
  // libprotobuf refuses what ours passes over: a group that never ends, text in a field that is skipped.
  if (!theirs.ParseFromArray(data, int(size))) return 0;
  require(theirs.gtensors().tensors_size() == ours.gtensors().tensors_size(), "as many tensors");
  for (int i = 0; i < ours.gtensors().tensors_size(); ++i) {
    const auto &a = theirs.gtensors().tensors(i), &b = ours.gtensors().tensors(i);
    if (a.dtype() == pb::DT_FLOAT16) continue;  // rounded
    require(a.dtype() == b.dtype() && (a.name() == b.name() || a.name().empty()), "of the same name and type");
    require(a.flat_float32_size() == b.flat_float32_size() && a.flat_int64_size() == b.flat_int64_size() &&
                a.flat_string_size() == b.flat_string_size(),
            "and as many elements");
  }
  require(theirs.str_data() == ours.str_data(), "the same text");
  return 0;
}
