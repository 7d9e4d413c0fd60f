#include "dialects/ops/health.h"

#include <list>
#include <utility>

#include "health.pb.h"
#include "marshal/small_message.h"

namespace weir::ops {
namespace {

namespace health_v1 = grpc::health::v1;
using base::Bytes;
using base::Code;

health_v1::HealthCheckResponse response_of(Serving serving) {
  health_v1::HealthCheckResponse response;
  response.set_status(health_v1::HealthCheckResponse::ServingStatus(serving));
  return response;
}

// The source, unless the server drains.
class Answers {
 public:
  explicit Answers(const HealthSource& source) : source_(source) {}
  Serving serving(std::string_view name) const {
    Serving now = source_.serving(name);
    return draining_ && now != Serving::kServiceUnknown ? Serving::kNotServing : now;
  }
  std::string own_name(std::string_view name) const { return source_.own_name(name); }
  std::vector<std::string> names() const { return source_.names(); }
  void drain() { draining_ = true; }

 private:
  const HealthSource& source_;
  bool draining_ = false;
};

// True if the caller may see models of that name. Everybody may see the server itself and its services.
bool may_hear_of(wire::Rpc& rpc, std::string_view name) {
  constexpr std::string_view kModel = "model:";
  const wire::Identity* who = rpc.exchange().request().identity;
  if (!who || !name.starts_with(kModel) || !who->models) return true;
  return who->models->allows(name.substr(kModel.size()));
}
// All names of models are for those who may see models, and not for every probe.
bool may_list(wire::Rpc& rpc, std::string_view name) {
  const wire::Identity* who = rpc.exchange().request().identity;
  const bool sees = !who || who->roles.has(wire::Role::kInfer) || who->roles.has(wire::Role::kAdmin);
  return may_hear_of(rpc, name) && (sees || !name.starts_with("model:"));
}

// Ends the call when the message is none.
bool parse(wire::Rpc& rpc, const Bytes& message, health_v1::HealthCheckRequest& request) {
  base::Status s = marshal::parse_small(message, request);
  if (!s.ok()) rpc.finish(s);
  return s.ok();
}

class Check final : public wire::RpcMethod {
 public:
  explicit Check(const Answers& answers) : answers_(answers) {}
  void call(wire::Rpc& rpc, Bytes message) override {
    health_v1::HealthCheckRequest request;
    if (!parse(rpc, message, request)) return;
    Serving now = answers_.serving(request.service());
    if (now == Serving::kServiceUnknown || !may_hear_of(rpc, answers_.own_name(request.service())))
      return rpc.finish(base::failure(Code::kNotFound, "unknown service"));
    rpc.send(Bytes::adopt(response_of(now).SerializeAsString()));
    rpc.finish({});
  }

 private:
  const Answers& answers_;
};

class List final : public wire::RpcMethod {
 public:
  explicit List(const Answers& answers) : answers_(answers) {}
  void call(wire::Rpc& rpc, Bytes) override {
    health_v1::HealthListResponse response;
    std::vector<std::string> names = answers_.names();
    std::erase_if(names, [&](const std::string& name) { return !may_list(rpc, name); });
    if (names.size() > Health::kMaxListed)
      return rpc.finish(base::failure(Code::kResourceExhausted, "too many names to list; use Check"));
    for (const std::string& name : names) (*response.mutable_statuses())[name] = response_of(answers_.serving(name));
    rpc.send(Bytes::adopt(response.SerializeAsString()));
    rpc.finish({});
  }

 private:
  const Answers& answers_;
};

// One open Watch.
class Watcher {
 public:
  Watcher(wire::Rpc& rpc, std::string name, const Answers& answers)
      : rpc_(rpc), name_(std::move(name)), answers_(answers) {}
  // Tells the peer what is new. One that does not read gets only the latest, once it reads again.
  void refresh() {
    Serving now = may_hear_of(rpc_, answers_.own_name(name_)) ? answers_.serving(name_) : Serving::kServiceUnknown;
    if (now == told_ || rpc_.backlog() > wire::Exchange::kHighWater) return;
    told_ = now;
    rpc_.send(Bytes::adopt(response_of(now).SerializeAsString()));
  }

 private:
  wire::Rpc& rpc_;
  std::string name_;
  const Answers& answers_;
  Serving told_ = Serving::kUnknown;  // never an answer of ours, so that the first refresh() speaks
};

using Watchers = std::list<Watcher>;

class WatchReader final : public wire::RpcListener {
 public:
  WatchReader(Watchers& all, Watchers::iterator self) : all_(all), self_(self) {}
  void on_message(wire::Rpc&, Bytes) override {}
  void on_drain(wire::Rpc&) override { self_->refresh(); }
  void on_close(wire::Rpc&) override { all_.erase(self_); }

 private:
  Watchers& all_;
  Watchers::iterator self_;
};

class Watch final : public wire::RpcMethod {
 public:
  Watch(const Answers& answers, Watchers& watchers) : answers_(answers), watchers_(watchers) {}
  void call(wire::Rpc& rpc, Bytes message) override {
    health_v1::HealthCheckRequest request;
    if (!parse(rpc, message, request)) return;
    auto self = watchers_.emplace(watchers_.end(), rpc, request.service(), answers_);
    rpc.attach(std::make_unique<WatchReader>(watchers_, self));
    self->refresh();
  }

 private:
  const Answers& answers_;
  Watchers& watchers_;
};

}  // namespace

struct Health::Parts {
  explicit Parts(const HealthSource& source) : answers(source) {}
  Answers answers;
  Watchers watchers;
  Check check{answers};
  List list{answers};
  Watch watch{answers, watchers};
};

Health::Health(const HealthSource& source) : parts_(std::make_unique<Parts>(source)) {}
Health::~Health() = default;

void Health::add_to(wire::RpcServer& server) {
  auto route = [&](std::string method, wire::RpcKind kind, wire::RpcMethod& target, std::string in, std::string out) {
    server.add({std::string(kService), std::move(method), kind, &target, "grpc.health.v1." + in,
                "grpc.health.v1." + out, "health", wire::Permission::kHealth});
  };
  route("Check", wire::RpcKind::kUnary, parts_->check, "HealthCheckRequest", "HealthCheckResponse");
  route("List", wire::RpcKind::kUnary, parts_->list, "HealthListRequest", "HealthListResponse");
  route("Watch", wire::RpcKind::kServerStream, parts_->watch, "HealthCheckRequest", "HealthCheckResponse");
}

void Health::changed() {
  // A send may close its call, and with it erase its watcher.
  for (auto it = parts_->watchers.begin(); it != parts_->watchers.end();) (it++)->refresh();
}

void Health::drain() {
  parts_->answers.drain();
  changed();
}

size_t Health::watchers() const { return parts_->watchers.size(); }

}  // namespace weir::ops
