#include "dialects/graphpipe/graphpipe.h"

#include "base/overload.h"
#include "dialects/graphpipe/state.h"

namespace weir::graphpipe {
namespace {

// The answer to a request that reaches no page and no model, below the prefix.
void respond_refusal(wire::Exchange& exchange, int status, std::string_view text) {
  if (exchange.request().method != "POST") return wire::respond_error(exchange, status, text);
  respond_failure(exchange, base::failure(base::code_from_http(status), std::string(text)));
}

using Serve = void (*)(GraphPipeState&, wire::Exchange&, const wire::PathArgs&);

class Endpoint final : public wire::Service {
 public:
  Endpoint(GraphPipeState& state, Serve serve) : state_(state), serve_(serve) {}
  void serve(wire::Exchange& exchange, const wire::PathArgs& args) override { serve_(state_, exchange, args); }
  bool refuse(wire::Exchange& exchange, const base::Status& why) override {
    exchange.record().code = why.code;
    if (exchange.request().method != "POST")
      wire::respond_error(exchange, why);
    else
      exchange.respond(base::http_status(why), kBinary, write_error(why));
    return true;
  }

 private:
  GraphPipeState& state_;
  Serve serve_;
};

}  // namespace

void respond_failure(wire::Exchange& exchange, const base::Status& status) {
  exchange.record().set_outcome(status);
  exchange.respond(400, kBinary, write_error(status));
}

struct GraphPipe::Parts {
  GraphPipeState state;
  Endpoint post{state, graphpipe::post};
  Endpoint model{state, model_page};
  Endpoint list{state, list_page};
  Endpoint ready{state, is_ready};
  Endpoint alive{state, is_alive};
};

GraphPipe::GraphPipe(bus::Bus& bus, wire::Router& router, base::SlabSource& slabs, GraphPipeOptions options)
    : parts_(new Parts{GraphPipeState{bus, slabs, std::move(options)}}) {
  using wire::Permission;
  Parts& p = *parts_;
  const GraphPipeOptions& o = p.state.options;
  wire::Plan whole{wire::BodyPlan::kWhole, o.max_body, "limits.body"}, none{wire::BodyPlan::kIgnore};
  if (o.root_post == GraphPipeOptions::RootPost::kOn)
    router.add({"POST", "/", &p.post, kProtocol, whole, Permission::kInfer});
  auto control = [&](const std::string& prefix) {
    router.add({"GET", prefix + "/control/is_ready", &p.ready, "health", none, Permission::kHealth});
    router.add({"GET", prefix + "/control/is_alive", &p.alive, "health", none, Permission::kHealth});
  };
  control("");
  for (std::string_view tail : {"", "/{model}", "/{model}/versions/{version}"}) {
    std::string uri = o.prefix + std::string(tail);
    router.add({"POST", uri, &p.post, kProtocol, whole, Permission::kInfer});
    router.add({"GET", uri, tail.empty() ? &p.list : &p.model, kProtocol, none, Permission::kRead});
    control(uri);
  }
  router.error_form(o.prefix, respond_refusal);
}

GraphPipe::~GraphPipe() = default;

}  // namespace weir::graphpipe
