// Any bytes as a GrpsMessage over HTTP: accepted only if a second parser accepts the JSON too, and an accepted message
// that is sound is written back as JSON and as protobuf that say the same.
#include <google/protobuf/util/json_util.h>
#include "dialects/grps/mapping.h"
#include "grps.pb.h"
#include "marshal/check.h"
#include "require.h"
#include "second_parser.h"

namespace {

using namespace weir;  // NOLINT: a program of one file

std::string join(const std::vector<base::Bytes>& pieces) {
  std::string out;
  for (const auto& p : pieces) out += p.view();
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view body(reinterpret_cast<const char*>(data), size);
  weir::grps::Message message;
  if (!weir::grps::read_json(body, base::heap(), message).ok()) return 0;
  require(accepted_again(body), "a second parser accepts it too");
  msg::ModelSpec any;
  any.any_tensors = true;
  weir::grps::RequestForm form;
  msg::Call call;
  if (!weir::grps::payload_to_inputs(std::move(message), any, base::heap(), call, form).ok() ||
      !marshal::check_call(any, call).ok())
    return 0;
  auto reply = weir::grps::outputs_to_payload({std::move(form)}, std::move(call.inputs), base::heap());
  if (!reply) return 0;
  std::string json = weir::grps::write_json({}, *reply);
  require(is_json(json), "a reply is JSON");
  ::grps::protos::v1::GrpsMessage from_json, from_pb;
  require(google::protobuf::util::JsonStringToMessage(json, &from_json).ok(), "and protobuf's JSON");
  require(from_pb.ParseFromString(join(weir::grps::write_pb({}, *reply))), "a reply is protobuf");
  require(from_json.DebugString() == from_pb.DebugString(), "both say the same");
  return 0;
}
