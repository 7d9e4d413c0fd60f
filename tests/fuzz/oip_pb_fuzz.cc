// Any bytes as a ModelInferRequest: read as libprotobuf reads them, and served only if it accepts them; what is written
// back is a ModelInferResponse for libprotobuf.
#include <cstdint>
#include <string>

#include "dialects/oip/pb_infer.h"
#include "inference.pb.h"
#include "marshal/check.h"
#include "require.h"

namespace {

using namespace weir;  // NOLINT: a program of one file

std::string joined(const std::vector<base::Bytes>& pieces) {
  std::string out;
  for (const auto& piece : pieces) out += piece.view();
  return out;
}

void require_same(const msg::Call& call, const inference::ModelInferRequest& expected) {
  require(call.model == expected.model_name() && call.version == expected.model_version() && call.id == expected.id(),
          "names are the same");
  require(call.inputs.size() == size_t(expected.inputs_size()), "inputs are the same");
  require(call.outputs.size() == size_t(expected.outputs_size()), "outputs are the same");
  for (int i = 0; i < expected.inputs_size(); ++i) {
    const auto& tensor = call.inputs[size_t(i)];
    require(tensor.name == expected.inputs(i).name(), "an input's name");
    require(tensor.shape.rank() == size_t(expected.inputs(i).shape_size()), "an input's rank");
    if (i < expected.raw_input_contents_size())
      require(tensor.data.view() == expected.raw_input_contents(i), "raw contents");
  }
}

void require_reply(const msg::Call& call) {
  oip::InferReply reply{call.model, call.version, call.id, call.parameters, call.inputs};
  inference::ModelInferResponse response;
  require(response.ParseFromString(joined(oip::write_infer(reply, oip::Envelope::kBare))), "a reply can be read");
  require(response.raw_output_contents_size() == int(call.inputs.size()), "and has its tensors");
  inference::ModelStreamInferResponse streamed;
  require(streamed.ParseFromString(joined(oip::write_infer(reply, oip::Envelope::kStream))), "in a stream too");
  require(streamed.infer_response().ByteSizeLong() == response.ByteSizeLong(), "as the same");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  msg::Call call;
  oip::InferOptions options;
  auto status = oip::read_infer(base::Bytes::copy_of(bytes), base::heap(), call, options);
  if (!status.ok()) return 0;
  inference::ModelInferRequest expected;
  bool accepted = expected.ParseFromString(bytes);
  if (accepted) require_same(call, expected);
  msg::ModelSpec any;
  any.any_tensors = true;
  if (!marshal::check_call(any, call).ok()) return 0;  // a cut element of packed floats is found here
  require(accepted, "libprotobuf accepts it too");
  require_reply(call);
  return 0;
}
