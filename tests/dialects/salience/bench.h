// Salience on fake shards: each a Bus, Sessions, an RpcServer with fake Exchanges in front; a model behind them that
// says what the test makes it say. Posts between shards wait until run().
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "dialects/salience/salience.h"
#include "salience.pb.h"
#include "session/session_id.h"
#include "status.pb.h"
#include "support/rpc_wire.h"
#include "wire/authenticator.h"
#include "wire/text.h"

namespace weir::salience {

namespace pb = ::salience::v1;

// Keeps every Call until the test answers it.
class TextInbox final : public msg::Inbox {
 public:
  std::vector<msg::Call*> held;
  std::vector<base::SessionId> released;
  int pokes = 0;

  void put(msg::Call* call) override {
    if (call->generation->aim == msg::Aim::kRelease) {
      released.push_back(call->session);
      return call->home->post_here({call, {msg::Done{}}});
    }
    held.push_back(call);
  }
  void poke() override { ++pokes; }
  void emit(msg::Call* call, msg::Event event) {
    if (event.last()) std::erase(held, call);
    call->home->post_here({call, std::move(event)});
  }
};

// vocabulary 1000, context 100; vision 900, 901, 902: an image has as many features as its bytes say ("4").
inline std::shared_ptr<msg::TextSpec> text_spec() {
  auto text = std::make_shared<msg::TextSpec>();
  text->max_length = 100;
  text->vocabulary = 1000;
  text->hidden_size = 64;
  text->concepts = {"digit", "verb"};
  text->readout_layers = {1, 3};
  text->readout_dtype = "float32";
  text->vision =
      msg::TextSpec::Vision{900, 901, 902, [](std::string_view data, std::string_view) -> base::Result<uint32_t> {
                              if (data == "broken") return base::invalid("not a PNG");
                              return uint32_t(std::stoul(std::string(data)));
                            }};
  return text;
}

// Each of `secrets` is a tenant of its own; without any, nobody is asked who it is.
class BearerSecrets final : public wire::Authenticator {
 public:
  explicit BearerSecrets(const std::vector<std::string>& secrets) {
    for (const auto& secret : secrets) {
      auto identity = std::make_shared<wire::Identity>();
      identity->tenant = secret;
      identity->tenant_number = 2 * (identities_.size() + 1);
      identity->roles = {wire::Role::kInfer, wire::Role::kHealth};
      identities_.emplace_back(secret, std::move(identity));
    }
  }
  base::Result<wire::Caller> admit(const wire::Request& request, wire::Permission, std::string_view) override {
    if (identities_.empty()) return wire::Caller();
    for (const auto& [secret, identity] : identities_)
      if (bearer_of(request) == secret) return wire::Caller::enter(identity, base::Time());
    return base::failure(base::Code::kUnauthenticated, "no such secret");
  }
  base::Status permit(const wire::Request&, wire::Permission) override { return {}; }
  std::string name_of(const wire::Request&) override { return {}; }

 private:
  static std::string_view bearer_of(const wire::Request& request) {
    constexpr std::string_view kScheme = "bearer ";
    std::string_view shown = request.fields.find("authorization");
    return wire::same_text(shown.substr(0, kScheme.size()), kScheme) ? shown.substr(kScheme.size()) : "";
  }

  std::vector<std::pair<std::string, std::shared_ptr<const wire::Identity>>> identities_;
};

class Bench {
 public:
  struct Shard {
    Shard(Bench& bench, uint16_t number, Options options)
        : bus(wire.env, base::ShardId(number), [] {}),
          sessions(bus, base::ShardId(number), bench.homes, bench.quota, bench.limits, bench.metrics),
          salience(bus, wire.server(), sessions, std::move(options)) {
      wire.router.authenticate(bench.secrets);
    }
    support::RpcBench wire;
    bus::Bus bus;
    session::Sessions sessions;
    Salience salience;
  };
  using Headers = support::RpcBench::Headers;
  using Opened = support::RpcBench::Opened;

  explicit Bench(Options options = {}, uint16_t count = 1, const std::vector<std::string>& bearer_secrets = {})
      : secrets(bearer_secrets),
        homes(count, [this](base::ShardId, std::function<void()> work) { posts.push_back(std::move(work)); }),
        quota(1, nullptr, bearer_secrets.size()) {
    options.quota = &quota;
    add("chat", text_spec());
    add("tensors", nullptr);
    for (uint16_t i = 0; i < count; ++i) shards.push_back(std::make_unique<Shard>(*this, i, options));
    publish();
  }
  ~Bench() {
    while (!chat().held.empty()) chat().emit(chat().held.back(), {msg::Done{}});
    run();
  }

  TextInbox& add(const std::string& name, std::shared_ptr<const msg::TextSpec> text) {
    auto served = std::make_shared<bus::Served>();
    served->spec.name = name, served->spec.version = "1", served->spec.text = std::move(text);
    auto inbox = std::make_unique<TextInbox>();
    TextInbox& out = *inbox;
    if (name == "chat") chat_ = inbox.get();
    served->inbox = std::move(inbox);
    catalog->models[name].preferred = served.get();
    catalog->models[name].versions["1"] = served;
    kept.push_back(served);
    return out;
  }
  void publish() {
    for (auto& shard : shards) shard->bus.publish(std::make_shared<bus::Catalog>(*catalog));
  }
  TextInbox& chat() { return *chat_; }
  msg::Call& call() { return *chat().held.at(0); }

  void run() {
    do {
      for (auto& shard : shards) shard->bus.turn();
      while (!posts.empty()) {
        auto work = std::move(posts.front());
        posts.pop_front();
        work();
      }
      for (auto& shard : shards) shard->bus.turn();
    } while (!posts.empty());
  }

  template <class Response>
  struct Answer {
    int status = -1;
    std::string text;
    Response response;
  };
  template <class Response, class Request>
  Answer<Response> ask(const std::string& method, const Request& request, size_t shard = 0,
                       const Headers& headers = {}) {
    auto x = shards[shard]->wire.run("/salience.v1.Salience/" + method,
                                     support::grpc_frame(request.SerializeAsString()), "application/grpc", headers);
    run();
    Answer<Response> out{support::grpc_status(*x), support::grpc_message(*x), {}};
    for (const auto& frame : support::grpc_frames(x->sent)) out.response.ParseFromString(frame.payload);
    return out;
  }
  std::string open(const std::string& model = "chat", size_t shard = 0) {
    pb::OpenSessionRequest request;
    request.set_model(model);
    return ask<pb::OpenSessionResponse>("OpenSession", request, shard).response.session_id();
  }
  std::vector<uint32_t> dump(const std::string& id, size_t shard = 0) {
    pb::DumpSessionRequest request;
    request.set_session_id(id);
    auto tokens = ask<pb::DumpSessionResponse>("DumpSession", request, shard).response.tokens();
    return {tokens.begin(), tokens.end()};
  }

  static pb::GenerateRequest request(const std::string& id, uint32_t offset, const std::vector<uint32_t>& append,
                                     uint32_t max_tokens) {
    pb::GenerateRequest r;
    r.set_session_id(id);
    r.set_offset(offset);
    r.mutable_append_tokens()->Assign(append.begin(), append.end());
    r.set_max_tokens(max_tokens);
    return r;
  }
  Opened generate(const pb::GenerateRequest& request, size_t shard = 0, const Headers& headers = {}) {
    auto x = shards[shard]->wire.run("/salience.v1.Salience/Generate", support::grpc_frame(request.SerializeAsString()),
                                     "application/grpc", headers);
    run();
    return x;
  }
  void token(uint32_t id, uint32_t position, bool prefill = false,
             std::shared_ptr<const msg::TokenDetails> details = {}) {
    chat().emit(&call(), {msg::Token{id, position, prefill, std::move(details)}});
    run();
  }
  void finish(msg::Event event = {msg::Done{0, 0, 0, msg::Finish::kEos, 0}}) {
    chat().emit(&call(), std::move(event));
    run();
  }
  // A Generate that goes well and makes `made`.
  void grow(const std::string& id, uint32_t offset, const std::vector<uint32_t>& append,
            const std::vector<uint32_t>& made = {}) {
    auto x = generate(request(id, offset, append, uint32_t(made.size())));
    auto position = uint32_t(offset + append.size());
    for (uint32_t t : made) token(t, position++);
    finish();
  }
  // A Generate that is refused: its status, text and the reason and metadata of its details.
  struct RefusedRequest {
    int code;
    std::string text, reason;
    std::map<std::string, std::string> metadata;
  };
  RefusedRequest refused(const pb::GenerateRequest& r, size_t shard = 0) {
    auto x = generate(r, shard);
    RefusedRequest out{support::grpc_status(*x), support::grpc_message(*x), {}, {}};
    auto& fields = x->response.fields.has("grpc-status") ? x->response.fields : x->trailers;
    google::rpc::Status status;
    google::rpc::ErrorInfo info;
    if (auto bytes = wire::metadata_bin(fields, "grpc-status-details-bin"))
      if (status.ParseFromString(*bytes) && status.details(0).UnpackTo(&info)) {
        out.reason = info.reason();
        out.metadata.insert(info.metadata().begin(), info.metadata().end());
      }
    return out;
  }
  static std::vector<pb::GenerateEvent> events(const support::FakeExchange& x) {
    std::vector<pb::GenerateEvent> out;
    for (const auto& frame : support::grpc_frames(x.sent)) out.emplace_back().ParseFromString(frame.payload);
    return out;
  }

  session::SessionLimits limits;
  base::Metrics metrics;
  std::deque<std::function<void()>> posts;
  BearerSecrets secrets;
  session::Homes homes;
  session::Quota quota;
  std::shared_ptr<bus::Catalog> catalog = std::make_shared<bus::Catalog>();
  std::vector<std::shared_ptr<bus::Served>> kept;
  std::vector<std::unique_ptr<Shard>> shards;

 private:
  TextInbox* chat_ = nullptr;
};

using Ids = std::vector<uint32_t>;

inline int number(base::Code code) { return int(code); }
inline std::string show(const Bench::Opened& x) {
  std::string out;
  for (const auto& event : Bench::events(*x)) out += event.ShortDebugString() + "\n";
  return out;
}
inline Ids appended(const msg::Call& call) { return call.generation->append; }
inline Ids history(const msg::Call& call) { return {call.generation->history.begin(), call.generation->history.end()}; }

}  // namespace weir::salience
