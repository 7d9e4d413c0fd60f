// Console: the pages of web/console, and what they ask beside the public APIs. One per shard, on its thread.
//
//   GET  <console.path>/, <console.path>/{file}       the page and its parts
//   GET  /console/v1/batches?model=&version=&after=   the last batches of a model, those after number `after`
//   GET  /console/v1/config                           the settings in force, and where each comes from
//   GET  /console/v1/access                           what its user may do: {"observe":true,"admin":false,"why":"…"}
//   POST /console/v1/models/{model}/load, …/unload    what the page's buttons do
//
// The live data are in live_feed.h, ../request_feed.h and ../recent_requests.h. All of /console/v1 is there without the
// pages, too: weir tail, weir trace and others use it.
//
// What changes something wants the permission admin, the Origin of this server, and the field x-weir-console: no form,
// no link and no page of another origin can send those together.
#pragma once

#include <memory>
#include <string>

#include "base/bytes.h"
#include "bus/bus.h"
#include "dialects/dialect.h"
#include "wire/router.h"

namespace weir::ops {

struct ConsoleOptions {
  bool enabled = true;
  std::string path = "/console";
  std::string settings;  // JSON, as GET /console/v1/config answers
};

class Console {
 public:
  // Adds the routes. All are borrowed; they and this outlive every Exchange of the router.
  Console(wire::Router& router, bus::Bus& bus, base::Env& env, dialects::ServerControl& control,
          const ConsoleOptions& options);
  ~Console();

  // The page as it is at "/", to be sent by respond_console(); empty where the console is turned off, or was left out
  // of this build.
  base::Bytes page() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Answers with the page, which may load and ask what is this server's, and nothing else.
void respond_console(wire::Exchange& exchange, base::Bytes page);

}  // namespace weir::ops
