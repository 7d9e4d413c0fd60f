// The whole server by transcript: three connections to one shard with the real codecs, router, dialects, bus and
// sessions, and models that answer when the script says. Sockets, threads and engines are left out.
//
// Input: byte 0 chooses how the bytes are cut. The rest goes to the current connection, but for 0xff: the byte behind
// it is a step (FuzzedServer::happen), where 0xff 0xff is the byte 0xff itself.
//
// Held to be true: every Exchange closes once, every Call comes back, nothing begins on a connection that has ended,
// and when all is over no session's bytes are held by anybody.
#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/fake_env.h"
#include "bus/bus.h"
#include "dialects/dialect.h"
#include "dialects/evergreen/evergreen.h"
#include "dialects/graphpipe/graphpipe.h"
#include "dialects/grps/grps.h"
#include "dialects/grps/monitor.h"
#include "dialects/oip/oip.h"
#include "dialects/oip/shared_memory/shared_regions.h"
#include "dialects/oip/trace.h"
#include "dialects/openai/openai.h"
#include "dialects/ops/front_page.h"
#include "dialects/ops/health.h"
#include "dialects/ops/metrics.h"
#include "dialects/ops/pages.h"
#include "dialects/ops/reflection.h"
#include "dialects/predict/predict.h"
#include "dialects/salience/salience.h"
#include "marshal/proto_json.h"
#include "require.h"
#include "session/sessions.h"
#include "support/fake_offload.h"
#include "support/fake_wire.h"
#include "support/split_feed.h"
#include "support/text_models.h"
#include "wire/sniff.h"

namespace {

using namespace weir;  // NOLINT: a program of one file
using namespace std::chrono_literals;

// Keeps Calls until the script answers them: tensors with the inputs that came, text with a token for each answer.
class Model final : public msg::Inbox {
 public:
  void put(msg::Call* call) override {
    if (call->generation && call->generation->aim == msg::Aim::kRelease) return post(call, {msg::Done{}});
    calls_.push_back({call});
  }

  enum class Answer : uint8_t { kNext, kLast, kFail };
  void answer(size_t which, Answer how) {
    if (calls_.empty()) return;
    auto at = calls_.begin() + ptrdiff_t(which % calls_.size());
    msg::Event event = next(*at, how);
    bool last = event.last();
    post(at->call, std::move(event));
    if (last) calls_.erase(at);
  }
  // Those whose clients have left go, as at an engine's next step.
  void sweep() {
    for (size_t i = calls_.size(); i-- > 0;)
      if (calls_[i].call->cancelled) answer(i, Answer::kFail);
  }
  void end() {
    while (!calls_.empty()) answer(0, Answer::kFail);
  }

 private:
  struct Running {
    msg::Call* call;
    uint32_t said = 0, read = 0;  // tokens: generated, and of the prompt
  };

  static void post(msg::Call* call, msg::Event event) { call->home->post_here({call, std::move(event)}); }

  static msg::Event next(Running& running, Answer how) {
    msg::Call& call = *running.call;
    if (call.cancelled) return {msg::Failed{base::failure(base::Code::kCancelled, "cancelled")}};
    if (how == Answer::kFail) return {msg::Failed{base::failure(base::Code::kInternal, "the engine broke")}};
    if (!call.generation) return {msg::Outputs{call.inputs, {}, true}};
    const auto& wanted = *call.generation;
    if (wanted.aim == msg::Aim::kEmbed) {
      std::array<float, 2> values{1, 2};
      auto bytes = base::Bytes::copy_of({reinterpret_cast<const char*>(values.data()), sizeof values});
      return {msg::Outputs{{{"embedding", msg::DType::kFp32, {1, 2}, bytes}}, {}, true}};
    }
    auto prompt = uint32_t(wanted.length());
    bool ends = how == Answer::kLast || call.credit <= 0;
    auto token = ends ? std::nullopt : of_prompt(wanted, running.read);
    ends = ends || (!token && running.said >= wanted.max_tokens);
    if (ends) return {msg::Done{prompt, 0, running.said, msg::Finish::kLength, 0}};
    call.credit.fetch_sub(1);
    if (token) return {*std::move(token)};
    constexpr std::string_view kText = "Hi \xe2\x82\xac!\n{\"a\":";
    const uint32_t id = uint8_t(kText[running.said % kText.size()]);
    const uint32_t position = prompt + running.said++;
    return {msg::Token{id, position, false, details_of(wanted, position, id)}};
  }
  // The next one of which the request asks for more than its id.
  static std::optional<msg::Token> of_prompt(const msg::Generation& wanted, uint32_t& read) {
    while (read < wanted.append.size()) {
      const uint32_t id = wanted.append[read], position = uint32_t(wanted.history.size()) + read++;
      if (auto details = details_of(wanted, position, id)) return msg::Token{id, position, true, std::move(details)};
    }
    return std::nullopt;
  }
  static std::shared_ptr<msg::TokenDetails> details_of(const msg::Generation& wanted, uint32_t position, uint32_t id) {
    const auto& ranges = wanted.logprobs;
    if (std::none_of(ranges.begin(), ranges.end(), [&](const auto& range) { return range.has(position); })) return {};
    auto out = std::make_shared<msg::TokenDetails>();
    out->has_logprob = position > 0, out->logprob = -0.5f;
    for (uint32_t i = 0; i < wanted.top_logprobs; ++i) out->top.push_back({(id + i) % 256, -float(i)});
    return out;
  }

  std::vector<Running> calls_;
};

// Objects that live as long as the process: they are made of constants, and are slow to make.
struct Constants {
  msg::ModelSpec chat = support::text_spec("chat");
  marshal::ProtoJson json{1 << 20};
  marshal::ProtoJson camel{1 << 20, marshal::ProtoJson::Names::kCamel};
  ops::Reflection reflection{{"inference.GRPCInferenceService", std::string(ops::Health::kService),
                              std::string(grps::Grps::kService), std::string(salience::Salience::kService),
                              std::string(evergreen::Evergreen::kService)}};
};
Constants& constants() {
  static Constants all;
  return all;
}

class FuzzedServer final : private wire::Intake, private dialects::ServerControl, private ops::HealthSource {
 public:
  FuzzedServer() {
    models_[0] = add(constants().chat);
    msg::ModelSpec sum;
    sum.name = "add", sum.version = "1", sum.max_batch = 4;
    sum.inputs = {{"a", msg::DType::kInt32, {2}, false, {}}, {"b", msg::DType::kInt32, {2}, true, {}}};
    sum.outputs = {{"a", msg::DType::kInt32, {2}, false, {}}, {"b", msg::DType::kInt32, {2}, false, {}}};
    models_[1] = add(sum);
    msg::ModelSpec any;
    any.name = "any", any.version = "1", any.any_tensors = true;
    models_[2] = add(any);
    bus_.publish(catalog_);
    constants().reflection.add_to(rpcs_);
    health_.add_to(rpcs_);
    router_.observe(request_metrics_);
    for (auto& conn : conns_) open(conn);
  }

  void play(std::string_view script, size_t piece) {
    piece_ = piece;
    for (size_t at = 0; at < script.size();) {
      size_t mark = std::min(script.find('\xff', at), script.size());
      feed(script.substr(at, mark - at));
      if (mark + 1 < script.size()) happen(uint8_t(script[mark + 1]));
      at = mark + 2;
    }
    end();
  }

 private:
  struct Conn {
    std::unique_ptr<wire::Codec> codec;
    bool gone = false;
  };

  Model* add(const msg::ModelSpec& spec) {
    auto served = std::make_shared<bus::Served>();
    served->spec = spec;
    if (spec.text) served->stats.tokens = std::make_unique<bus::TokenStats>();
    auto model = std::make_unique<Model>();
    auto* borrowed = model.get();
    served->inbox = std::move(model);
    catalog_->index.push_back({spec.name, spec.version, bus::ModelState::kReady, ""});
    catalog_->models[spec.name] = {{{spec.version, served}}, served.get()};
    return borrowed;
  }

  void open(Conn& conn) {
    conn.codec = wire::make_sniff(env_, wire_, peer_);
    conn.gone = false;
  }
  Conn& now() { return conns_[current_]; }

  void feed(std::string_view bytes) {
    if (now().gone) return;
    support::feed_in_pieces(bytes, piece_, [this](auto piece) {
      auto& codec = now().codec;
      codec->feed(piece);
      if (auto next = codec->successor()) codec = std::move(next);
      turn();
    });
  }
  void turn() {
    for (auto* model : models_) model->sweep();
    offload_.work();
    bus_.turn();
  }
  void pass(base::Duration time) {
    wire_.env.advance(time);
    for (auto& conn : conns_)
      if (!conn.gone) conn.codec->tick(wire_.env.now());
  }
  void close(Conn& conn) {
    if (conn.gone) return;
    conn.codec->closed();
    conn.gone = true;
  }

  void happen(uint8_t what) {
    const uint8_t more = what >> 4;
    switch (what & 15) {
      case 0: pass(std::array{1ms, 100ms, 1000ms, 11'000ms, 80'000ms, 310'000ms, 1'900'000ms, 10ms}[more % 8]); break;
      case 1: current_ = more % conns_.size(); break;
      case 2: close(now()), open(now()); break;
      case 3: now().gone ? void() : now().codec->eof(); break;
      case 4:
        if (!now().gone) support::take_output(*now().codec, more);
        break;
      case 5:
      case 6:
      case 7: models_[what % 3]->answer(more, Model::Answer::kNext); break;
      case 8: models_[more % 3]->answer(more / 3, Model::Answer::kLast); break;
      case 9: models_[more % 3]->answer(more / 3, Model::Answer::kFail); break;
      case 10: slabs_.empty = more & 1, slabs_.is_scarce = more & 2, slabs_.is_hopeless = more & 4; break;
      case 11:
        for (auto& conn : conns_)
          if (!conn.gone) conn.codec->drain(more & 1 ? wire::Drain::kRefuse : wire::Drain::kAnnounce);
        break;
      case 12: health_.changed(); break;
      case 13: evergreen_.drain(5s); break;
      case 14: bus_.publish(more & 1 ? catalog_ : std::make_shared<bus::Catalog>()); break;
      default: what == 0xff ? feed("\xff") : turn();
    }
    turn();
  }

  void end() {
    slabs_.empty = false;
    for (auto& conn : conns_) {
      if (!conn.gone) support::take_output(*conn.codec);
      close(conn);
    }
    for (int i = 0; i < 100 && bus_.in_flight() > 0; ++i) {
      for (auto* model : models_) model->end();
      bus_.turn();
      pass(1s);
    }
    require(bus_.in_flight() == 0, "every Call comes back");
    require(begun_ == closes_, "every Exchange closes once");
    pass(11min);
    for (int i = 0; i < 100 && bus_.in_flight() > 0; ++i) bus_.turn();
    require(quota_.bytes() == 0 && byte_quota_.held() == 0, "nobody holds the bytes of sessions that are over");
    bus_.close();
  }

  static session::SessionLimits session_limits() {
    session::SessionLimits limits;
    limits.idle = 1min, limits.lifetime = 10min;
    return limits;
  }

  // wire::Intake, in front of the router's
  wire::Plan begin(wire::Exchange& x) override {
    ++begun_;
    return router_.begin(x);
  }
  void whole(wire::Exchange& x) override { router_.whole(x); }
  void closed(wire::Exchange& x) override {
    ++closes_;
    router_.closed(x);
  }
  void rejected(std::string_view reason, const wire::PeerInfo& peer) override { router_.rejected(reason, peer); }

  // dialects::ServerControl: a model is loaded when the loop turns
  bool accepting() const override { return true; }
  std::string why_not_ready() const override { return ""; }
  void load(const std::string&, LoadParameters, Done done) override {
    wire_.env.at(wire_.env.now() + 10ms, [done] { done({}); });
  }
  void unload(const std::string&, Dependents, Done done) override {
    wire_.env.at(wire_.env.now() + 10ms, [done] { done(base::failure(base::Code::kNotFound, "no such model")); });
  }
  void settings_changed(const wire::Exchange&, std::string) override {}
  // ops::HealthSource
  ops::Serving serving(std::string_view name) const override {
    return name.size() % 2 ? ops::Serving::kServiceUnknown : ops::Serving::kServing;
  }
  std::vector<std::string> names() const override { return {"", "model:chat"}; }

  size_t begun_ = 0, closes_ = 0, current_ = 0, piece_ = 1;
  support::FakeWire wire_;
  support::FakeSlabs slabs_;
  wire::Limits limits_;
  wire::PeerInfo peer_{"127.0.0.1:5000", wire::Security::kCleartext};
  const wire::CodecEnv env_{*this, slabs_, limits_};
  base::Metrics metrics_;
  std::shared_ptr<bus::Catalog> catalog_ = std::make_shared<bus::Catalog>();
  bus::Bus bus_{wire_.env, base::ShardId(0), [] {}, {64}};
  std::array<Model*, 3> models_{};
  wire::Router router_{wire_.env, wire::Cors{{"https://friend.example"}}};
  wire::RpcServer rpcs_{router_, wire_.env, slabs_, &constants().json};
  oip::Traces traces_;
  const oip::Sharing sharing_ = oip::Sharing::kNobody;
  const uint64_t shared_bytes_ = 0;
  oip::SharedRegions regions_{sharing_, shared_bytes_};
  oip::Oip oip_{bus_, router_, rpcs_, slabs_, *this, traces_, regions_, {}};
  graphpipe::GraphPipe graphpipe_{bus_, router_, slabs_, {"weir", "1", "/graphpipe", {}, 1 << 20, [] { return true; }}};
  grps::Presence presence_;
  grps::Monitor monitor_{metrics_, [] { return grps::Monitor::Usage{0, 1 << 20, 1 << 28, {}}; }};
  grps::Grps grps_{bus_, router_, rpcs_, slabs_, presence_, monitor_, [] { return true; }, {}};
  session::Homes homes_{
      1, [this](base::ShardId, std::function<void()> work) { wire_.env.at(wire_.env.now(), std::move(work)); }};
  session::Quota quota_{1};
  session::ByteQuota byte_quota_{1 << 20, 1 << 21};
  session::Sessions sessions_{bus_, base::ShardId(0), homes_, quota_, session_limits(), metrics_};
  salience::Salience salience_{bus_, rpcs_, sessions_, {}};
  predict::Predict predict_{bus_, router_, slabs_, {1 << 20, [] { return true; }}};
  openai::LoadCounters load_;
  openai::Openai openai_{bus_, router_, load_, {"1", {"/v1"}, 1 << 20, [] { return true; }}};
  evergreen::Evergreen evergreen_{bus_, router_, rpcs_, slabs_, constants().camel, {}, nullptr, &byte_quota_};
  ops::Health health_{*this};
  support::FakeOffload offload_;
  ops::Pages pages_{router_, metrics_, offload_, {[] { return std::string(); }}};
  ops::FrontPage front_page_{router_, "1", {}, {}};
  ops::RequestMetrics request_metrics_{metrics_};
  std::array<Conn, 3> conns_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  std::string_view script(reinterpret_cast<const char*>(data) + 1, size - 1);
  FuzzedServer state;
  state.play(script, data[0] & 1 ? size_t(data[0]) / 2 + 1 : script.size());
  return 0;
}
