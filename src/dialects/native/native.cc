#include "dialects/native/native.h"

#include <utility>

#include "dialects/native/generate.h"
#include "dialects/native/messages.h"
#include "forward.pb.h"
#include "marshal/small_message.h"
#include "marshal/tenant.h"

namespace weir::native {
namespace {

namespace pb = ::weir::forward::v1;

constexpr std::string_view kProtocol = "native";

// One whose images take as many pads as their size asks for cannot be described, nor one whose images another server
// reads.
void describe_vision(const msg::TextSpec& text, pb::ModelDescription& out) {
  const uint32_t pads = text.vision && !text.remote_chat ? pads_of_any(*text.vision) : 0;
  if (pads == 0) return;
  pb::Vision& vision = *out.mutable_vision();
  vision.set_start_id(text.vision->start_id);
  vision.set_pad_id(text.vision->pad_id);
  vision.set_end_id(text.vision->end_id);
  vision.set_pads(pads);
}

std::string describe(const msg::ModelSpec& spec) {
  pb::ModelDescription out;
  out.set_version(spec.version);
  out.set_platform(spec.platform);
  if (spec.text) {
    const msg::TextSpec& text = *spec.text;
    out.set_makes_tokens(true);
    out.set_max_length(text.max_length);
    out.set_vocabulary(text.vocabulary);
    out.set_hidden_size(text.hidden_size);
    out.set_normalized(text.normalized);
    out.mutable_eos_ids()->Add(text.eos_ids.begin(), text.eos_ids.end());
    for (const auto& name : text.concepts) out.add_concepts(name);
    out.mutable_readout_layers()->Add(text.readout_layers.begin(), text.readout_layers.end());
    out.set_readout_dtype(text.readout_dtype);
    describe_vision(text, out);
  }
  return out.SerializeAsString();
}

class DescribeModel final : public wire::RpcMethod {
 public:
  DescribeModel(bus::Bus& bus, std::function<bool()> accepting) : bus_(bus), accepting_(std::move(accepting)) {}

  void call(wire::Rpc& rpc, base::Bytes message) override {
    pb::ModelName name;
    if (message.size() > marshal::kSmallMessage || !name.ParseFromArray(message.data(), int(message.size())))
      return rpc.finish(base::invalid("the message cannot be decoded as a ModelName"));
    if (!accepting_()) return rpc.finish(base::failure(base::Code::kUnavailable, "the server is not ready"));
    auto found = bus_.catalog(marshal::models_of(rpc.exchange().request())).resolve(name.model(), name.version());
    if (!found) return rpc.finish(found.error());
    rpc.exchange().record().model = (*found)->spec.name;
    rpc.send(base::Bytes::adopt(describe((*found)->spec)));
    rpc.finish({});
  }

 private:
  bus::Bus& bus_;
  const std::function<bool()> accepting_;
};

}  // namespace

struct Native::Parts {
  DescribeModel describe;
  Generate generate;
};

Native::Native(bus::Bus& bus, wire::RpcServer& rpcs, std::function<bool()> accepting)
    : parts_(new Parts{{bus, std::move(accepting)}, Generate(bus)}) {
  using wire::Permission;
  const std::string service(kService);
  rpcs.add({service, "DescribeModel", wire::RpcKind::kUnary, &parts_->describe,
            pb::ModelName::descriptor()->full_name(), pb::ModelDescription::descriptor()->full_name(), kProtocol,
            Permission::kRead});
  rpcs.add({service, "Generate", wire::RpcKind::kServerStream, &parts_->generate,
            pb::Sequence::descriptor()->full_name(), pb::SequenceEvent::descriptor()->full_name(), kProtocol,
            Permission::kInfer});
  rpcs.add({service, "GenerateFromImages", wire::RpcKind::kServerStream, &parts_->generate,
            pb::Sequence::descriptor()->full_name(), pb::SequenceEvent::descriptor()->full_name(), kProtocol,
            Permission::kInfer});
}

Native::~Native() = default;

}  // namespace weir::native
