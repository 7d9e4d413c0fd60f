// Methods of a made-up service, one of each kind, and a made-up JSON form, for tests of the wire forms of calls.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wire/rpc.h"

namespace weir::support {

// "x" ⇄ x: a message is its bytes, its JSON a string without escapes.
class QuoteJson final : public wire::JsonForm {
 public:
  base::Result<std::string> to_binary(std::string_view type, std::string_view json) override {
    types.emplace_back(type);
    if (json == "{}") return std::string();
    if (json.size() < 2 || json.front() != '"' || json.back() != '"') return base::invalid("not a string");
    return std::string(json.substr(1, json.size() - 2));
  }
  base::Result<std::string> to_json(std::string_view type, std::string_view binary) override {
    types.emplace_back(type);
    if (binary == "unprintable") return base::invalid("no JSON for this");
    return "\"" + std::string(binary) + "\"";
  }
  std::vector<std::string> types;
};

// The events at the methods below, in order: "unary:x", "message:x", "half-close", "drain", "close".
struct Seen {
  std::vector<std::string> log;
  wire::Rpc* rpc = nullptr;  // of the latest call; null once closed
};

class SeenListener : public wire::RpcListener {
 public:
  explicit SeenListener(Seen& seen) : seen_(seen) {}
  void on_message(wire::Rpc&, base::Bytes m) override { seen_.log.push_back("message:" + std::string(m.view())); }
  void on_half_close(wire::Rpc&) override { seen_.log.push_back("half-close"); }
  void on_drain(wire::Rpc&) override { seen_.log.push_back("drain"); }
  void on_close(wire::Rpc&) override {
    seen_.log.push_back("close");
    seen_.rpc = nullptr;
  }

 protected:
  Seen& seen_;
};

// Echoes its request and ends with OK.
class EchoUnary final : public wire::RpcMethod {
 public:
  void call(wire::Rpc& rpc, base::Bytes m) override {
    ++calls;
    deadline = rpc.deadline();
    rpc.send(std::move(m));
    rpc.finish({});
  }
  int calls = 0;
  base::Time deadline = base::kNever;
};

// Only records; the test answers through seen.rpc.
class Open final : public wire::RpcMethod {
 public:
  void call(wire::Rpc& rpc, base::Bytes m) override {
    seen.log.push_back("unary:" + std::string(m.view()));
    seen.rpc = &rpc;
    rpc.attach(std::make_unique<SeenListener>(seen));
  }
  void open(wire::Rpc& rpc) override {
    seen.log.push_back("open");
    seen.rpc = &rpc;
    rpc.attach(std::make_unique<SeenListener>(seen));
  }
  Seen seen;
};

// Answers every message with itself; ends with OK at the half-close.
class EchoStream final : public wire::RpcMethod {
 public:
  void open(wire::Rpc& rpc) override { rpc.attach(std::make_unique<ExchangeListener>(seen)); }
  Seen seen;

 private:
  class ExchangeListener final : public SeenListener {
   public:
    using SeenListener::SeenListener;
    void on_message(wire::Rpc& rpc, base::Bytes m) override {
      SeenListener::on_message(rpc, m);
      rpc.send(std::move(m));
    }
    void on_half_close(wire::Rpc& rpc) override {
      SeenListener::on_half_close(rpc);
      rpc.finish({});
    }
  };
};

// Sends the request's bytes one message each, then ends with OK.
class Spell final : public wire::RpcMethod {
 public:
  void call(wire::Rpc& rpc, base::Bytes m) override {
    for (char c : m.view()) rpc.send(base::Bytes::copy_of({&c, 1}));
    rpc.finish({});
  }
};

struct TestService {
  EchoUnary echo;
  Open slow, watch, collect, chat;
  EchoStream stream;
  Spell spell;

  explicit TestService(wire::RpcServer& server) {
    auto add = [&](const char* name, wire::RpcKind kind, wire::RpcMethod& m) {
      server.add({"test.Service", name, kind, &m, "test.In", "test.Out", "test"});
    };
    add("Echo", wire::RpcKind::kUnary, echo);
    server.add(
        {"test.Service", "Read", wire::RpcKind::kUnary, &echo, "test.In", "test.Out", "test", wire::Permission::kRead});
    add("Slow", wire::RpcKind::kUnary, slow);
    add("Watch", wire::RpcKind::kServerStream, watch);
    add("Spell", wire::RpcKind::kServerStream, spell);
    add("Collect", wire::RpcKind::kClientStream, collect);
    add("Chat", wire::RpcKind::kBidi, chat);
    add("Stream", wire::RpcKind::kBidi, stream);
  }
};

}  // namespace weir::support
