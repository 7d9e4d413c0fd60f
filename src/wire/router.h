// Router: from a request head to the service that answers it, and what every answer has in common.
//
// Exact paths are one hash look-up; patterns ("/v2/models/{model}/infer", "/v1/models/{model}:predict") are matched by
// segment, each segment percent-decoded on its own. An unknown path is a 404 that names the nearest known one; a known
// path with another method is a 405 with Allow. What wire/access.h or the Authenticator denies never reaches a service.
// The Router also takes in and gives out request ids (`x-request-id`) and answers CORS preflights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "wire/access.h"
#include "wire/exchange.h"

namespace weir::wire {

class Authenticator;
class Tracer;

// Values of a pattern's {names}, decoded, in the pattern's order.
class PathArgs {
 public:
  std::string_view operator[](std::string_view name) const;
  void add(std::string_view name, std::string value) { args_.emplace_back(name, std::move(value)); }
  void clear() { args_.clear(); }

 private:
  std::vector<std::pair<std::string_view, std::string>> args_;
};

struct Route;
class Router;
// The Router's record of an Exchange from begin() to closed().
struct RouteMatch {
  const Router* router = nullptr;
  const Route* route = nullptr;
  PathArgs args;
  std::string_view pattern;      // of the path
  bool asked_for_admin = false;  // Router::permit()
  // A request with the same head from the same peer finds the same: the head has no request id and no trace of its own,
  // and is neither a browser's nor refused.
  bool same_for_head = false;
  bool tells_id = true;  // the answer has the request's id: gRPC's do with an error alone
};

// Answers requests of one or more routes.
class Service {
 public:
  // kWhole: the request is complete. kStream and kIgnore: its head is; kStream: attach an ExchangeListener before
  // returning.
  virtual void serve(Exchange& exchange, const PathArgs& args) = 0;
  // Instead of serve(): the request may not come in, and `why` names the setting. Answers it in the protocol's own form
  // from its head alone; an ExchangeListener is attached only if the answer needs one. False: nothing is answered, the
  // Router words it (Router::error_form).
  virtual bool refuse(Exchange&, const base::Status& /*why*/) { return false; }

 protected:
  ~Service() = default;
};

// Whether a route's service answers the opening handshake of a WebSocket. HTTP/2's extended CONNECT, which looks like a
// GET (wire/websocket.h), reaches no other service: each 2xx would say that a tunnel is open (RFC 8441 §5).
enum class Upgrade : uint8_t { kNone, kWebSocket };

struct Route {
  std::string method;   // "GET", "POST"; GET routes answer HEAD too
  std::string pattern;  // "/v2/models/{model}/versions/{version}/infer"
  Service* service = nullptr;
  std::string_view protocol;  // for the request's record: a literal
  Plan plan;
  Permission permission = Permission::kAdmin;  // of a GET, too: what only reads says so
  Upgrade upgrade = Upgrade::kNone;
  // "application/json": it takes bodies of this media type alone, and other types go to the same path's and method's
  // other route; empty: it takes all that no such route does.
  std::string_view content_type{};
};

// Is told of every finished Exchange: the access log, the counters.
class Observer {
 public:
  virtual void finished(const Exchange& exchange) = 0;
  virtual void rejected(std::string_view reason, const PeerInfo& peer) = 0;

 protected:
  ~Observer() = default;
};

// One per shard (it keeps no locks); all shards' Routers are built by the same function.
class Router final : public Intake {
 public:
  Router(base::Env& env, Cors cors = {}, TrustedHosts hosts = {});
  ~Router();

  // Before the first Exchange: what is found for one may be kept with it.
  void add(Route route);
  // All routes that were added, in no particular order. What was added again for a method and media type is the later
  // one.
  std::vector<const Route*> routes() const;
  // From now on requests may be traced; borrowed, outlives this.
  void trace(Tracer& tracer);
  void observe(Observer& observer) { observers_.push_back(&observer); }
  // Every request but a preflight has to authenticate, also one for which there is no route. Borrowed; call this before
  // the first Exchange. Without it no request has to.
  void authenticate(Authenticator& authenticator) { authenticator_ = &authenticator; }
  // How a 404, a 405, what the codec refuses or what a service has thrown is worded under a path prefix; the default is
  // `{"error":"…"}`. The longest prefix wins.
  using ErrorForm = void (*)(Exchange&, int status, std::string_view text);
  void error_form(std::string prefix, ErrorForm form);
  // Answers with the error in the form of the request's path.
  void word_error(Exchange& exchange, int status, std::string_view text) const;
  // Where a path matches no route and `claims` says yes, `service` answers instead of a 404, under `plan`. One at most;
  // it only reads.
  using Claims = bool (*)(const Request&);
  void fallback(Service& service, Claims claims, std::string_view protocol, Plan plan);
  // How what is refused on a route of this protocol is worded, in place of the form of the path's prefix. `protocol` is
  // a literal.
  void error_form_of(std::string_view protocol, ErrorForm form);

  // A request turns out to need more than its route's permission says: one that reads on a route where others change.
  // Asks what begin() asks, save the limits. Errors: PERMISSION_DENIED, UNAUTHENTICATED; the record has the reason.
  base::Status permit(Exchange& exchange, Permission permission);
  // The same question for a page that shows what its user may do: nothing is recorded, in no log.
  base::Status may(const Exchange& exchange, Permission permission) const;
  // Whether permit() has been asked for kAdmin, granted or not.
  static bool asked_for_admin(const Exchange& exchange);
  // The route that serves it; null: none does, as of a request that may not come in.
  static const Route* route_of(const Exchange& exchange);

  Plan begin(Exchange& exchange) override;
  void whole(Exchange& exchange) override;
  void refuse(Exchange& exchange, int status, std::string_view text) override;
  void closed(Exchange& exchange) override;
  void rejected(std::string_view reason, const PeerInfo& peer) override;

 private:
  struct Table;
  Plan begin_again(Exchange& exchange);

  std::unique_ptr<Table> table_;
  std::vector<Observer*> observers_;
  Authenticator* authenticator_ = nullptr;
};

// Whether an answer of that status must say when to come again, and nothing else has said so.
bool wants_retry_after(const Exchange& exchange, int status);
// `{"error":"<text>"}` as application/json: how the Open Inference Protocol and the router say no.
void respond_error(Exchange& exchange, int status, std::string_view text);
// The same from a Status, which also goes into the request's record.
void respond_error(Exchange& exchange, const base::Status& status);

}  // namespace weir::wire
