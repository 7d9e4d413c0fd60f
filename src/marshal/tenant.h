// The tenant of a request: the number by which schedulers, caches and sessions tell clients apart (msg::Call::tenant).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/sip_hash.h"
#include "msg/call.h"
#include "msg/tenant.h"
#include "wire/exchange.h"
#include "wire/hops.h"
#include "wire/trace_context.h"

namespace weir::marshal {

// The host of the client, by which tenants without a key are told apart: its address without the port, its /64 network
// (IPv6), the client that a trusted proxy names, or "unix". No other code decides what a client is.
inline std::string_view client_of(const wire::Request& request) {
  return request.peer ? request.peer->host() : std::string_view();
}

// Whether the request may be any of many clients': its peer is a proxy that has not named the client, or a unix socket.
inline bool asks_for_many(const wire::Request& request) {
  const wire::PeerInfo* peer = request.peer;
  return peer && (peer->client ? !peer->client->limited() : peer->address == "unix");
}

// The number of a tenant that is known by its name.
inline uint64_t number_of_tenant(std::string_view name) {
  const uint64_t hash = base::hash64(base::process_key(), name) & ~uint64_t(1);
  return hash != 0 ? hash : 2;
}
// The number of a host. kMany: it stands for many clients that cannot be told apart. `hash`: hash64() of the host, with
// the key of this process.
enum class Clients : uint8_t { kOne, kMany };
inline uint64_t number_of_host(uint64_t hash, Clients clients) {
  hash |= 1;
  return clients == Clients::kMany ? hash | msg::kManyClients : hash & ~msg::kManyClients;
}
inline uint64_t number_of_host(std::string_view host, Clients clients) {
  return number_of_host(base::hash64(base::process_key(), host), clients);
}

// The tenant of a request: of the key that it has shown, or else of its host. The number is a keyed hash, so that no
// client can choose another one's. It is even or odd as msg::is_anonymous() says, and has a mark if it stands for many
// clients (msg/tenant.h). It is never 0, and differs with each process.
inline uint64_t tenant_of(const wire::Request& request) {
  if (request.identity && request.identity->tenant_number != 0) return request.identity->tenant_number;
  const Clients clients = asks_for_many(request) ? Clients::kMany : Clients::kOne;
  if (request.peer && request.peer->client) return number_of_host(request.peer->client->name_hash(), clients);
  return number_of_host(client_of(request), clients);
}

// The models that the request may see and use, for bus::Bus::catalog(); null: all.
inline const base::ModelScope* models_of(const wire::Request& request) {
  return request.identity ? request.identity->models.get() : nullptr;
}

// The trace context and the number of hops of a request, as they are passed on to other servers; null if it has
// neither.
inline std::shared_ptr<const msg::TraceFields> trace_fields_of(const wire::Exchange& exchange) {
  const wire::RequestRecord& record = exchange.record();
  const uint32_t hops = wire::hops_of(exchange.request().fields);
  if (record.traceparent.empty() && hops == 0) return nullptr;
  auto out = std::make_shared<msg::TraceFields>(msg::TraceFields{record.traceparent, {}, hops});
  if (!record.traceparent.empty())
    out->tracestate = record.trace ? record.trace->state : wire::tracestate_of(exchange.request().fields);
  return out;
}

// Sets the fields of a Call that come from its caller: tenant, limiter and trace. If the request is traced, the Call
// gets room for the times of a pipeline's steps.
inline void set_caller(msg::Call& call, const wire::Exchange& exchange) {
  const wire::Request& request = exchange.request();
  call.tenant = tenant_of(request);
  if (request.identity) call.limiter = request.identity->limiter;
  call.trace = trace_fields_of(exchange);
  if (exchange.record().trace) call.steps = std::make_unique<msg::PipelineSteps>();
}

}  // namespace weir::marshal
