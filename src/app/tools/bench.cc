#include "app/tools/bench.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <utility>

#include "app/tools/bench_loop.h"
#include "app/tools/bench_report.h"
#include "app/tools/bench_session.h"
#include "app/tools/bench_tensor.h"

namespace weir::app {
namespace {

using Requests = std::vector<BenchRequest>;

base::Result<std::vector<std::string>> prompts_of(const std::string& prompt) {
  if (!prompt.starts_with('@')) return std::vector{prompt};
  std::ifstream in(prompt.substr(1), std::ios::binary);
  if (!in) return base::invalid("--prompt: cannot read '" + prompt.substr(1) + "'");
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) out.push_back(line);
  if (out.empty()) return base::invalid("--prompt: '" + prompt.substr(1) + "' has no line");
  return out;
}

base::Result<BenchRequest> tensors_of(const BenchSignature& signature, const std::vector<std::string>& values,
                                      const BenchOptions& o) {
  auto tensors = bench_tensors(signature, values, o.seed);
  if (!tensors) return tensors.error();
  const bool lacks_bool = o.protocol == BenchProtocol::kGrps || o.protocol == BenchProtocol::kGraphPipe;
  if (signature.is_text() && lacks_bool)  // whose switches may be left out
    std::erase_if(*tensors, [](const auto& tensor) { return tensor.dtype == msg::DType::kBool; });
  if (o.protocol == BenchProtocol::kEvergreen) return evergreen_infer(o.model, *tensors);
  auto request = tensor_request(o.protocol, o.model, *tensors, o.form);
  if (!request) return request.error();
  return BenchRequest{{std::move(*request)}};
}

// A request that asks a model of text.
base::Result<BenchRequest> question_of(const Remote& remote, const BenchSignature& signature, const BenchOptions& o,
                                       const std::string& prompt) {
  if (o.protocol == BenchProtocol::kOpenAi) return BenchRequest{{chat_request(o.model, prompt, o.max_tokens)}};
  if (o.protocol == BenchProtocol::kEvergreen) return evergreen_generate(o.model, prompt, o.max_tokens);
  if (o.protocol == BenchProtocol::kSalience) {
    auto tokens = prompt_tokens(remote, o.model, prompt);
    if (!tokens) return tokens.error();
    return salience_session(o.model, *tokens, o.max_tokens);
  }
  const bool streams = o.protocol == BenchProtocol::kOipStream;
  const auto answers = streams ? BenchAnswers::kStreamed : BenchAnswers::kWhole;
  return tensors_of(signature, prompt_values(prompt, o.max_tokens, answers), o);
}

base::Result<Requests> requests_of(const Remote& remote, const BenchOptions& o) {
  const bool speaks_text = o.protocol == BenchProtocol::kOpenAi || o.protocol == BenchProtocol::kSalience;
  BenchSignature signature;
  if (!speaks_text) {
    auto found = bench_signature(remote, o.model);
    if (!found) return found.error();
    signature = std::move(*found);
  }
  Requests out;
  if (!speaks_text && (!signature.is_text() || !o.inputs.empty())) {
    auto request = tensors_of(signature, o.inputs, o);
    if (!request) return request.error();
    out.push_back(std::move(*request));
    return out;
  }
  auto prompts = prompts_of(o.prompt);
  if (!prompts) return prompts.error();
  for (const auto& prompt : *prompts) {
    auto request = question_of(remote, signature, o, prompt);
    if (!request) return request.error();
    out.push_back(std::move(*request));
  }
  return out;
}

base::Result<BenchPlan> plan_of(const Remote& remote, const BenchOptions& o) {
  const bool http2 = over_http2(o.protocol);
  auto where = find(remote, http2 ? net::TlsContext::Offer::kHttp2 : net::TlsContext::Offer::kHttp1);
  if (!where) return where.error();
  auto endpoints = net::resolve(where->address);
  if (!endpoints) return endpoints.error();
  auto requests = requests_of(remote, o);
  if (!requests) return requests.error();
  for (auto& request : *requests)
    for (auto& call : request.calls) {
      call.scheme = where->tls ? "https" : "http";
      call.authority = where->authority;
      for (const auto& [name, value] : where->fields) call.fields.add(name, value);
    }
  BenchPlan plan;
  plan.protocol = o.protocol;
  plan.requests = std::move(*requests);
  plan.connection.endpoints = std::move(*endpoints);
  plan.connection.http = http2 ? net::ClientConn::Http::k2 : net::ClientConn::Http::k1;
  plan.connection.tls = where->tls, plan.connection.tls_host = where->tls_host;
  plan.connection.connect_timeout = plan.timeout = remote.timeout;
  return plan;
}

// One request alone: what is wrong with all of them is said once, before the load.
std::string try_once(BenchPlan plan) {
  plan.most = plan.clients = plan.connections = plan.threads = 1;
  plan.duration = plan.timeout;
  const BenchRun run = run_bench(plan);
  return run.errors.empty() ? std::string() : run.errors.front();
}

}  // namespace

Exit bench(const Remote& remote, const BenchOptions& o) {
  constexpr uint32_t kClosed = 8, kOpen = 256, kStreams = 100;
  auto plan = plan_of(remote, o);
  if (!plan) return fail(plan.error().text);
  if (auto wrong = try_once(*plan); !wrong.empty()) return fail(wrong);
  plan->rate = o.rate, plan->most = o.requests;
  plan->clients = o.clients > 0 ? o.clients : o.rate > 0 ? kOpen : kClosed;
  plan->connections = o.connections > 0 ? o.connections : (plan->clients + kStreams - 1) / kStreams;
  plan->threads = std::clamp(o.threads, 1u, plan->clients);
  plan->warmup = o.warmup, plan->duration = o.duration;
  if (o.requests > 0) plan->warmup = base::Duration(0), plan->duration = std::chrono::hours(24 * 365);
  const BenchRun run = run_bench(*plan);
  std::fputs((remote.output == Output::kJson ? bench_json(run) : bench_table(run)).c_str(), stdout);
  if (!o.csv.empty()) {
    std::ofstream out(o.csv, std::ios::binary);
    if (!(out << bench_csv(run)) || !out.flush()) return fail("cannot write '" + o.csv + "'");
  }
  const bool any = std::any_of(run.samples.begin(), run.samples.end(), [](const auto& s) { return s.error == 0; });
  return any ? Exit::kOk : Exit::kFailed;
}

}  // namespace weir::app
