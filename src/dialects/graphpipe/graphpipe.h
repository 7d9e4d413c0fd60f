// GraphPipe: flatbuffers over HTTP, on the same models. One per shard, used on its thread.
//
//   POST /                                        the default model (or the one that `config` names)
//   POST {prefix}                                 the same
//   POST {prefix}/{model}[/versions/{version}]    that model
//   GET  {prefix}[/{model}[/versions/{version}]]  what is there: JSON, and a page for browsers
//   GET  …/control/is_ready, …/control/is_alive   as graphpipe-go's servers answer; … is nothing, or any address above:
//                                                 below a model's, ready means that this model is
//
// An error is HTTP 400 with an InferResponse that holds it: of the three known clients one looks at the status only,
// one prints the body of what is not 200, and one decodes every body, so all three notice.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/client.h"
#include "bus/bus.h"
#include "wire/router.h"

namespace weir::wire {
class Offload;
}

namespace weir::dialects {
class Dialect;
}

namespace weir::graphpipe {

struct GraphPipeOptions {
  std::string server_name = "weir";
  std::string server_version;
  std::string prefix = "/graphpipe";  // starts with a slash and does not end with one
  enum class RootPost : uint8_t { kOff, kOn };
  RootPost root_post = RootPost::kOn;
  uint64_t max_body = 64 << 20;      // of one HTTP request; also what it may denote with shared offsets
  std::function<bool()> ready;       // called on this shard's thread
  wire::Offload* offload = nullptr;  // reads long requests and writes long strings; null: the shard does
  base::ShareRule share;             // of slabs, for what the strings of a client's requests and answers are copied to
};

class GraphPipe {
 public:
  // Adds the routes. All borrowed; they and this outlive every Exchange of the router.
  GraphPipe(bus::Bus& bus, wire::Router& router, base::SlabSource& slabs, GraphPipeOptions options);
  ~GraphPipe();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// The protocol with its settings at their defaults.
std::unique_ptr<dialects::Dialect> make_dialect();

}  // namespace weir::graphpipe
