// Evergreen on one fake shard: fake Exchanges in front, models behind it that answer as a test says.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "dialects/evergreen/evergreen.h"
#include "evergreen.pb.h"
#include "evergreen_config.pb.h"
#include "marshal/proto_json.h"
#include "support/rpc_wire.h"
#include "support/scripted_models.h"
#include "text/processor.h"
#include "tiny_tokenizers.h"

namespace weir::evergreen {

// ECHO of a, as x, to e; and as JSON, of in to out.
inline const char* const kEcho = "actions { name: 'ECHO' inputs { name: 'x' id: 'a' } outputs { name: 'x' id: 'e' } }";
inline const std::string kEchoJson =
    R"({"actions":[{"name":"ECHO","inputs":[{"name":"x","id":"in"}],"outputs":[{"name":"x","id":"out"}]}]})";

namespace pb = ::evergreen::v2;

// Keeps every Call until the test answers it.
class TextInbox final : public msg::Inbox {
 public:
  std::vector<msg::Call*> held;
  int pokes = 0;
  void put(msg::Call* call) override { held.push_back(call); }
  void poke() override { ++pokes; }
  void emit(msg::Call* call, msg::Event event) {
    if (event.last()) std::erase(held, call);
    call->home->post_here({call, std::move(event)});
  }
};

inline std::shared_ptr<const tokenizers::Tokenizer> bytes_tokenizer() {
  static auto tokenizer = tokenizers::tokenizer_of(tokenizers::byte_level_file({"l l", "o w"}));
  return tokenizer;
}
constexpr uint32_t kEnd = 258;  // <|end|>, behind 256 bytes and two merges

class Bench {
 public:
  support::RpcBench rpc;
  std::shared_ptr<bus::Catalog> catalog = std::make_shared<bus::Catalog>();
  bus::Bus bus{rpc.env, base::ShardId{0}, [] {}};
  marshal::ProtoJson json{size_t(64) << 20, marshal::ProtoJson::Names::kCamel};
  support::ScriptedModels tensors;
  TextInbox* chat = nullptr;
  std::unique_ptr<Evergreen> evergreen;

  explicit Bench(Options options = {}, wire::Fetcher* fetcher = nullptr, session::ByteQuota* byte_quota = nullptr) {
    evergreen = std::make_unique<Evergreen>(bus, rpc.router, rpc.server(), rpc.slabs, json, std::move(options), fetcher,
                                            byte_quota);
    msg::ModelSpec add;
    add.name = "add", add.version = "1";
    add.inputs = {{"a", msg::DType::kInt32, {2}, false, {}}, {"b", msg::DType::kInt32, {2}, false, {}}};
    add.outputs = {{"y", msg::DType::kInt32, {2}, false, {}}, {"z", msg::DType::kBytes, {1}, false, {}}};
    tensors.add(add);
    catalog = tensors.catalog;
    add_chat();
    bus.publish(catalog);
  }
  ~Bench() {
    while (!chat->held.empty()) chat->emit(chat->held.back(), {msg::Done{}});
    tensors.finish_all();
    bus.turn();
    EXPECT_EQ(bus.in_flight(), 0u);
    rpc.env.advance(std::chrono::milliseconds(1));  // graphs of ended sessions are freed in later turns
    EXPECT_EQ(rpc.env.armed(), 0u);
  }

  using Opened = support::RpcBench::Opened;
  Opened open() { return rpc.open("/evergreen.v2.EvergreenService/StartSession"); }
  // A request of another kind than a call.
  Opened open_http(std::string method, const support::RpcBench::Headers& headers,
                   wire::Version version = wire::Version::kHttp11) {
    Opened x(new support::FakeExchange(std::move(method), "/evergreen/v2/session"), {&rpc.router});
    x->mutable_request().version = version;
    for (const auto& [n, v] : headers) x->mutable_request().fields.add(n, v);
    x->time = rpc.env.now();
    rpc.router.begin(*x);
    return x;
  }

  static pb::SessionMessage parse(const std::string& text) {
    pb::SessionMessage m;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &m)) << text;
    return m;
  }
  void send(support::FakeExchange& x, const std::string& text) { send(x, parse(text)); }
  void send(support::FakeExchange& x, const pb::SessionMessage& m) {
    rpc.data(x, support::grpc_frame(m.SerializeAsString()));
    turn();
  }
  // A turn at a later time: lines and messages that had their part of the one before go on.
  void later_turn() {
    rpc.env.advance(std::chrono::milliseconds(1));
    turn();
  }
  // Everything is delivered, also what follows from it.
  void turn() {
    bus.turn();
    rpc.env.advance(base::Duration(0));
    bus.turn();
  }

  static std::vector<pb::NodeFragment> fragments(const support::FakeExchange& x) {
    std::vector<pb::NodeFragment> out;
    for (const auto& frame : support::grpc_frames(x.sent)) {
      pb::SessionMessage m;
      EXPECT_TRUE(m.ParseFromString(frame.payload));
      for (const auto& f : m.node_fragments()) out.push_back(f);
    }
    return out;
  }
  // The bytes of a leaf as far as they have come; "!" where fragments are out of order, "…" while it is open.
  static std::string leaf(const support::FakeExchange& x, std::string_view id) {
    std::string out;
    bool open = true;
    int next = 0;
    for (const auto& f : fragments(x)) {
      if (f.id() != id) continue;
      if (f.seq() != next++ || !open) out += '!';
      out += f.chunk_fragment().data();
      open = f.continued();
    }
    return out + (open ? "…" : "");
  }
  // The client's end, and what the session says to it: "" for OK.
  static std::string status(const support::FakeExchange& x) {
    if (!x.ended) return "open";
    int code = support::grpc_status(x);
    return code == 0 ? "" : std::string(base::name(base::Code(code))) + ": " + support::grpc_message(x);
  }

  // The model's answer to the one Call that it has: a token per byte, then the end.
  void answer(const std::string& text, uint32_t cached = 0) {
    ASSERT_EQ(chat->held.size(), 1u);
    msg::Call* call = chat->held[0];
    uint32_t at = uint32_t(call->generation->length());
    msg::Done done{at, cached, uint32_t(text.size()) + 1, msg::Finish::kEos, kEnd};
    for (char c : text) chat->emit(call, {msg::Token{uint8_t(c), at++, false, nullptr}});
    chat->emit(call, {msg::Token{kEnd, at, false, nullptr}});
    chat->emit(call, {done});
    turn();
  }
  std::string prompt() const {
    if (chat->held.size() != 1) return "(no call)";
    return bytes_tokenizer()->decode(chat->held[0]->generation->append, tokenizers::SkipSpecial::kNo);
  }

 private:
  void add_chat() {
    auto processor = std::make_shared<text::Processor>();
    processor->tokenizer = bytes_tokenizer();
    auto chat_template = jinja::Template::parse(
        "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}");
    EXPECT_TRUE(chat_template);
    processor->chat = *chat_template;
    auto text = std::make_shared<msg::TextSpec>();
    text->max_length = 1000;
    text->vocabulary = 259;
    text->hidden_size = 2;
    text->eos_ids = {kEnd};
    text->concepts = {"digit"};
    text->readout_layers = {1};
    text->codec = processor;
    msg::ModelSpec spec;
    spec.name = "chat", spec.version = "1";
    spec.text = text;
    auto served = std::make_shared<bus::Served>();
    served->spec = std::move(spec);
    auto inbox = std::make_unique<TextInbox>();
    chat = inbox.get();
    served->inbox = std::move(inbox);
    auto& model = catalog->models["chat"];
    model.versions["1"] = served;
    model.preferred = served.get();
  }
};

inline std::string text_leaf(std::string_view id, std::string_view text) {
  return "node_fragments { id: '" + std::string(id) + "' chunk_fragment { metadata { mimetype: 'text/plain' } data: '" +
         std::string(text) + "' } }";
}
inline std::string generate(std::string_view prompt, std::string_view response, std::string_view more = "") {
  return "actions { name: 'GENERATE' inputs { name: 'prompt' id: '" + std::string(prompt) +
         "' } outputs { name: 'response' id: '" + std::string(response) + "' } target_spec { id: 'chat' } " +
         std::string(more) + " }";
}
template <class Config>
void add_config(pb::SessionMessage& m, const Config& config) {
  m.mutable_actions(0)->add_configs()->PackFrom(config);
}
inline std::string frame(int first, std::string_view payload) {
  std::string out{char(first)};
  if (payload.size() < 126) {
    out += char(0x80 | char(payload.size()));
  } else {
    out += char(0xfe);
    out += char(payload.size() >> 8), out += char(payload.size());
  }
  return out.append("\0\0\0\0", 4).append(payload);
}
inline const support::RpcBench::Headers kUpgrade{{"upgrade", "websocket"},
                                                 {"connection", "Upgrade"},
                                                 {"sec-websocket-version", "13"},
                                                 {"sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="}};

}  // namespace weir::evergreen
