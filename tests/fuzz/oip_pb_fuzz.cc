// Any bytes as a ModelInferRequest: read as libprotobuf reads them, and served only if it accepts them; what is written
// back is a ModelInferResponse for libprotobuf.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

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

void require_same(const msg::Call& call, const oip::InferOptions& options,
                  const inference::ModelInferRequest& expected) {
  int raw = 0;
  require(call.model == expected.model_name() && call.version == expected.model_version() && call.id == expected.id(),
          "names are the same");
  require(call.inputs.size() == size_t(expected.inputs_size()), "inputs are the same");
  require(call.outputs.size() == size_t(expected.outputs_size()), "outputs are the same");
  for (int i = 0; i < expected.inputs_size(); ++i) {
    const auto& tensor = call.inputs[size_t(i)];
    require(tensor.name == expected.inputs(i).name(), "an input's name");
    require(tensor.shape.rank() == size_t(expected.inputs(i).shape_size()), "an input's rank");
    if (options.is_shared(size_t(i))) {
      require(tensor.data.empty(), "an input in shared memory brings nothing else");
    } else if (raw < expected.raw_input_contents_size()) {
      require(tensor.data.view() == expected.raw_input_contents(raw++), "raw contents");
    }
  }
}

// A region that the request may name anything, and that has all that it asks for.
class AnyRegion final : public oip::SharedRegion {
 public:
  AnyRegion() : SharedRegion({}) {}
  base::Result<std::optional<base::Bytes>> alias(uint64_t, uint64_t) override { return std::nullopt; }
  base::Status read(uint64_t, std::span<std::byte>) override { return {}; }
  base::Status write(uint64_t, std::span<const std::byte> from) override {
    written += from.size();
    return {};
  }
  base::Status intact() const override { return {}; }

  size_t written = 0;
};

// Outputs that lie in shared memory: one tensor each, as long as the request allows.
void require_shared(const msg::Call& call, oip::InferOptions& options) {
  auto region = std::make_shared<AnyRegion>();
  std::vector<msg::Tensor> tensors;
  size_t expected = 0;
  bool fits = true;
  for (size_t i = 0; i < options.outputs.size(); ++i) {
    tensors.push_back({call.outputs[i], msg::DType::kUint8, {3}, base::Bytes::constant("abc")});
    options.outputs[i].classes = 0;
    auto& shared = options.outputs[i].shared;
    if (!shared) continue;
    shared->memory = region;
    fits = fits && shared->bytes >= 3;
    if (fits) expected += 3;
  }
  require(oip::finish_outputs({}, options.outputs, tensors).ok() == fits, "what fits is written");
  require(region->written == expected, "to its region");
  oip::InferReply reply{call.model, call.version, call.id, call.parameters, tensors, &options.outputs};
  inference::ModelInferResponse response;
  require(response.ParseFromString(joined(oip::write_infer(reply, oip::Envelope::kBare))), "a reply can be read");
  for (size_t i = 0; i < tensors.size(); ++i)
    require(response.raw_output_contents(int(i)).empty() == options.outputs[i].shared.has_value(), "and says so");
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
  if (accepted) require_same(call, options, expected);
  if (accepted && !options.outputs.empty()) require_shared(call, options);
  msg::ModelSpec any;
  any.any_tensors = true;
  if (!marshal::check_call(any, call).ok()) return 0;  // a cut element of packed floats is found here
  require(accepted, "libprotobuf accepts it too");
  require_reply(call);
  return 0;
}
