// ApiDocs: what the server answers, as OpenAPI and as a page; the whole server's, and each model's as MLServer has
// them.
//
//   GET /openapi.json, /v2/docs/dataplane.json     the document
//   GET /v2/docs                                   the page
//   GET /docs                                      the same for browsers; for others the manual (README.md)
//   GET /v2/models/{model}/docs[/dataplane.json]   of one model
//
// Made by a worker: the whole server's when it is first asked for, then kept; one model's for each request. One per
// shard, on its thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "bus/bus.h"
#include "wire/offload.h"
#include "wire/router.h"

namespace weir::ops {

class ApiDocs {
 public:
  // Adds the routes. `texts`: of the dialects that are on (Dialect::openapi), copied. All borrowed; they and this
  // outlive every Exchange of the router.
  ApiDocs(wire::Router& router, bus::Bus& bus, wire::Offload& offload, std::string_view version,
          std::vector<std::string> texts);
  ~ApiDocs();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace weir::ops
