// Options of a forwarded model: who runs it, how they are spoken to, and how long they may take. From its model.yaml:
//
//   engine: forward
//   kind: oip-grpc                            # the protocol that the origins speak; or oip-rest, openai, weir
//   origins: [http://10.0.0.7:8001, https://triton.example:8001]    # or one; of a name, all its addresses; of kind
//                                             # openai with the path of the API, by default /v1; or
//                                             # cluster: the nodes that have it now (kind weir, src/cluster)
//   parameters:
//     model: resnet50                         # its name there; by default as here
//     version: "3"                            # by default the origin chooses
//     connect_timeout: 2s                     # of a connection, TLS included
//     answer_timeout: 60s                     # until the answer, or the next message of a stream; 0 = without end
//     check_interval: 2s                      # between questions whether the model is ready there
//     dns_interval: 30s                       # between look-ups of the origins' names; 0 = only when it is loaded
//     max_outstanding: 1024                   # calls that one origin has at once, of all shards
//     max_answer: 1GiB                        # bytes of one message
//     ca_file: /etc/weir/origins.pem          # who signs the origins' certificates; by default whom the system trusts
//     key_file: /etc/weir/origin.key          # its first line goes along as `authorization: Bearer …`, or as it is:
//     key_header: api-key                     # in a field of this name, which ends with key or token (Azure: api-key)
//     hedge_after: 50ms                       # a call that takes longer is sent to a second origin too: or p95, of how
//                                             # long calls take; only of tensors, where one answer comes; default:
//                                             never
//     load_report: orca                       # the origin's own load counts when one is chosen: orca = in its answers;
//                                             # metrics = its /metrics, asked for every check_interval (vLLM, Triton;
//                                             # kinds oip-rest and openai); default: none
//     binary_tensors: true                    # of kind oip-rest: tensors as bytes behind the JSON; by default where
//     the
//                                             # origin's /v2 lists binary_tensor_data; else as JSON, to 4 MiB of it
//     metrics_port: 8002                      # of /metrics, by default the origin's own
//     places: 16                              # with origins cluster: nodes that it may have at once
//
// A model of another engine has instances here, and origins beside them (sched/local_first.h):
//
//   engine: onnx                              # or none: as ever
//   origins: [http://10.0.0.8:8001]           # or cluster: the nodes that have it, too
//   kind: weir                                # by default weir with origins cluster. Of weirs that stand beside each
//                                             # other: weir, for that says that a call is not to be handed on again
//   origin_parameters: {model: resnet50, local_first: 8}    # those above, and:
//     local_first: 8                          # calls that the instances here have before an origin gets any; by
//                                             # default their batches
//
// Models of text, of kind openai (vLLM, SGLang, llama.cpp's server, weir) or weir:
//     tokenizer: /models/qwen                 # the folder with tokenizer.json; by default the model's version folder
//     api: chat                               # of kind openai: origins that have /v1/chat/completions alone. They get
//                                             # messages and tools as they are, a plain prompt as one message of the
//                                             # user; no tokenizer. Default: completions
//     api: embeddings                         # of kind openai: an encoder; origins that have /v1/embeddings. With
//                                             # `tokenizer` they get token ids, without it texts
//     api: rerank                             # of kind openai: a reranker; origins that have /v1/rerank, /rerank,
//                                             # /v2/rerank or /score
//     max_texts: 32                           # with api embeddings or rerank: texts of one request to an origin
//     vision: true                            # with api chat: it takes images. By default where the origin's list of
//                                             # models says so (weir, llama.cpp, Mistral, OpenRouter)
//     thinking: variables                     # with api chat: how a request that says whether to think tells it there:
//                                             # in chat_template_kwargs, by reasoning_effort (effort), or none. By
//                                             # default by the list's owned_by: variables for vllm, sglang, llamacpp
//                                             # and weir, effort for Ollama's library; else none
//     token_limit: max_completion_tokens      # with api chat: by which name a request says how long the answer may be,
//                                             # or max_tokens. By default this one, but for origins of OpenAI and Azure
//     max_length: 8192                        # positions; by default what the origin's list of models says
//     embedding_size: 1024                    # of kind openai: floats of an embedding; by default what that list says
//     tool_format: hermes                     # text/tool_format.h; by default by the chat template
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "msg/spec.h"
#include "net/url.h"

namespace weir::forward {

inline constexpr std::string_view kParameters[] = {"answer_timeout",  "api",
                                                   "binary_tensors",  "ca_file",
                                                   "check_interval",  "connect_timeout",
                                                   "dns_interval",    "embedding_size",
                                                   "hedge_after",     "key_file",
                                                   "key_header",      "kind",
                                                   "load_report",     "local_first",
                                                   "max_answer",      "max_length",
                                                   "max_outstanding", "max_texts",
                                                   "metrics_port",    "model",
                                                   "origins",         "places",
                                                   "thinking",        "token_limit",
                                                   "tokenizer",       "tool_format",
                                                   "version",         "vision"};

enum class OpenaiApi : uint8_t { kCompletions, kChat, kEmbeddings, kRerank };

// A chat's member that limits the answer.
enum class TokenLimit : uint8_t { kMaxTokens, kMaxCompletionTokens };

enum class LoadReports : uint8_t { kNone, kOrca, kMetrics };

enum class KindName : uint8_t { kWeir, kOipGrpc, kOipRest, kOpenai };

inline constexpr size_t kMostOrigins = 64;

struct Options {
  KindName kind = KindName::kOipGrpc;
  std::vector<net::Url> origins;  // 1 to kMostOrigins; their targets are "/", but for kOpenai (openai/api_path.h)
  bool members = false;           // in place of them: the nodes that the Directory names, of which `places` fit
  uint32_t places = 16;
  // The model has instances here: origins are beside them, and get calls once they are known to have the same model.
  bool beside_local = false;
  std::optional<uint32_t> local_first;
  std::string model, version;  // there; version "": the origin chooses
  base::Duration connect_timeout = std::chrono::seconds(2);
  base::Duration answer_timeout = std::chrono::seconds(60);  // 0: none
  base::Duration check_interval = std::chrono::seconds(2);
  base::Duration dns_interval = std::chrono::seconds(30);  // 0: never
  uint32_t max_outstanding = 1024;
  uint64_t max_answer = uint64_t(1) << 30;
  std::string ca_file, key_file, key_header = "authorization";
  OpenaiApi api = OpenaiApi::kCompletions;
  std::optional<bool> vision;                                   // nothing: as the origin says
  std::optional<msg::TextSpec::RemoteChat::Thinking> thinking;  // the same
  TokenLimit token_limit = TokenLimit::kMaxTokens;
  std::string tokenizer, tool_format;
  uint32_t embedding_size = 0;    // 0: as the origin says
  uint32_t max_length = 0;        // 0: as the origin says
  uint32_t max_texts = 32;        // of one request; as many as Text Embeddings Inference takes by default
  base::Duration hedge_after{0};  // 0: not by a time
  double hedge_quantile = 0;      // 0: not by a quantile; else below 1
  LoadReports load_reports = LoadReports::kNone;
  uint32_t metrics_port = 0;  // 0: the origin's own

  std::optional<bool> binary_tensors;  // nothing: as the origin says

  bool has_rows() const { return api == OpenaiApi::kEmbeddings || api == OpenaiApi::kRerank; }
  bool hedges() const { return hedge_after.count() > 0 || hedge_quantile > 0; }

  bool any_tls() const;
};

// From the parameters of the configuration. Errors: INVALID_ARGUMENT naming the parameter.
base::Result<Options> read_options(const msg::ModelSpec& wanted);

}  // namespace weir::forward
