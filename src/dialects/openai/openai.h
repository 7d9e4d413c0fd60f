// Openai: the OpenAI API's text endpoints over HTTP, with what vLLM's clients add. One per shard, used on its thread.
//
//   POST {prefix}/chat/completions, {prefix}/completions, {prefix}/embeddings, {prefix}/responses
//   GET {prefix}/responses: a WebSocket
//   POST {prefix}/rerank, /rerank, /v2/rerank, {prefix}/score, /score, /classify
//   {prefix}/files, {prefix}/batches (batches/batches.h), {prefix}/uploads (batches/uploads.h)
//   POST {…/openai}/deployments/{model}/chat/completions, …: Azure OpenAI's
//   GET {prefix}/models[/{id}]     POST /tokenize, /detokenize     GET /version, /health, /ping, /load
// Reference: platform.openai.com/docs/api-reference, docs.vllm.ai ("OpenAI-Compatible Server"). What is beyond the two
// is in README.md.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bus/bus.h"
#include "wire/limits.h"
#include "wire/router.h"

namespace weir::wire {
class BodyMemory;
class Offload;
}  // namespace weir::wire

namespace weir::jobs {
class ShardJobs;
}

namespace weir::dialects {
class Dialect;
class ServerControl;
}  // namespace weir::dialects

namespace weir::session {
class SharedRecords;
}

namespace weir::openai::responses {
class BackgroundResponses;
class StoredResponses;
}  // namespace weir::openai::responses

namespace weir::openai {

struct Options {
  std::string server_version;
  std::vector<std::string> prefixes{"/v1", "/openai/v1", "/openai", "/v3"};
  uint64_t max_body = 4 << 20;                           // of one request
  std::function<bool()> ready;                           // the server takes requests; what /health says
  wire::Offload* offload = nullptr;                      // reads long bodies; null: the shard does
  jobs::ShardJobs* jobs = nullptr;                       // files and batches; null: there are none
  const wire::Limits* limits = nullptr;                  // for uploads; null: none
  responses::StoredResponses* stored = nullptr;          // of all shards; null: nothing is stored
  responses::BackgroundResponses* background = nullptr;  // of all shards; null: none are made in the background
  base::SlabSource* slabs = nullptr;  // for messages of WebSockets, as the next; null: there are none
  wire::BodyMemory* bodies = nullptr;
  base::Duration websocket_age = std::chrono::minutes(60);
  session::SharedRecords* records = nullptr;   // those of all nodes; null: this node is alone
  dialects::ServerControl* control = nullptr;  // loads adapters; null: none are loaded
  base::ShardId shard{};
};

// The counters that all shards share. Any thread.
struct LoadCounters {
  std::atomic<int64_t> running{0};       // requests for text under way
  std::atomic<uint64_t> cache_epoch{0};  // how often the cache of prompts was flushed
};

class Openai {
 public:
  // All borrowed; they outlive every Exchange of the router. `load` is shared by all shards.
  Openai(bus::Bus& bus, wire::Router& router, LoadCounters& load, Options options);
  ~Openai();
  // The server is going: WebSockets end, each once the response is over that is being made.
  void drain();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// The protocol with its settings at their defaults.
std::unique_ptr<dialects::Dialect> make_dialect();

}  // namespace weir::openai
