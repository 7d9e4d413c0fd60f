#include "app/tools/commands.h"

#include <map>
#include <memory>
#include <string>

#include "app/one_of.h"
#include "app/tools/bench.h"
#include "app/tools/chat.h"
#include "app/tools/follow.h"
#include "app/tools/top.h"
#include "base/units.h"

namespace weir::app {
namespace {

// The values of the tools' options; durations as they are written.
struct ToolOptions {
  Remote remote;
  std::string timeout = "30s", interval = "1s", duration = "10s", warmup = "1s";
  bool once = false, json = false;
  TopOptions top;
  ChatOptions chat;
  BenchOptions bench;
  TailOptions tail;
  TraceOptions trace;
};
using Options = std::shared_ptr<ToolOptions>;
using Run = Exit (*)(ToolOptions&);

void add_secrets(CLI::App& command, Remote& remote, std::string& timeout) {
  command.add_option("--key", remote.key, "API key or token; without it WEIR_API_KEY is looked at")->type_name("KEY");
  command.add_option("--ca", remote.ca_file, "PEM: who may have signed an https server's certificate")
      ->type_name("FILE");
  command.add_option("--timeout", timeout, "longest wait for an answer, or for the next part of one that streams")
      ->type_name("TIME")
      ->capture_default_str();
}

CLI::App& add(CLI::App& app, Exit& exit, const Options& options, const char* name, const char* help, Run run) {
  CLI::App* sub = app.add_subcommand(name, help);
  sub->callback([options, run, &exit] { exit = run(*options); });
  return *sub;
}

// Reads a duration; says which option was wrong.
bool read(const char* option, const std::string& text, base::Duration& out) {
  auto parsed = base::parse_duration(text);
  if (parsed) out = *parsed;
  if (!parsed) fail(std::string(option) + ": " + parsed.error().text);
  return bool(parsed);
}

Exit run_top(ToolOptions& o) {
  if (!read("--timeout", o.timeout, o.remote.timeout) || !read("--interval", o.interval, o.top.interval))
    return Exit::kUsage;
  if (o.once) o.top.frames = 1;
  return top(o.remote, o.top);
}

Exit run_chat(ToolOptions& o) {
  return read("--timeout", o.timeout, o.remote.timeout) ? chat(o.remote, o.chat) : Exit::kUsage;
}

Exit run_bench(ToolOptions& o) {
  const bool good = read("--timeout", o.timeout, o.remote.timeout) &&
                    read("--duration", o.duration, o.bench.duration) && read("--warmup", o.warmup, o.bench.warmup);
  if (o.json) o.remote.output = Output::kJson;
  return good ? bench(o.remote, o.bench) : Exit::kUsage;
}

Exit run_tail(ToolOptions& o) {
  if (o.json) o.remote.output = Output::kJson;
  return read("--timeout", o.timeout, o.remote.timeout) ? tail(o.remote, o.tail) : Exit::kUsage;
}

Exit run_trace(ToolOptions& o) {
  if (o.json) o.remote.output = Output::kJson;
  return read("--timeout", o.timeout, o.remote.timeout) ? trace(o.remote, o.trace) : Exit::kUsage;
}

void add_top(CLI::App& app, Exit& exit, const Options& options) {
  auto& command =
      add(app, exit, options, "top", "Watch what a server does: requests, latency, queues, memory, models", run_top);
  add_remote_options(command, options->remote, options->timeout);
  command.add_option("--interval", options->interval, "between two looks")->type_name("TIME")->capture_default_str();
  command.add_flag("--once", options->once,
                   "print one table and end: so it is, too, where nothing but a file or a "
                   "pipe takes the output");
  command.add_option("-n,--frames", options->top.frames, "print so many tables, one below the other")->type_name("N");
  command.footer(
      "Asks for /metrics twice and shows what changed in between. Where keys are asked for, the key needs the role\n"
      "metrics. On a terminal it redraws until q is pressed.");
}

void add_chat(CLI::App& app, Exit& exit, const Options& options) {
  auto& command = add(app, exit, options, "chat", "Talk to a model on the terminal", run_chat);
  command.add_option("model", options->chat.model, "its name; without it the first one that /v1/models lists")
      ->type_name("MODEL");
  add_remote_options(command, options->remote, options->timeout);
  command.add_option("--system", options->chat.system, "the system message")->type_name("TEXT");
  command.add_option("--max-tokens", options->chat.max_tokens, "of one answer")->type_name("N")->capture_default_str();
  command.add_option("--temperature", options->chat.temperature, "0 = always the likeliest; else the server's default")
      ->type_name("NUMBER");
  command.footer(
      "Each line of the input is a message; answers go to standard output as they come: echo hi | weir chat.\n"
      "/help lists what else can be typed. Ctrl-C stops an answer; without one it leaves. The key needs the role "
      "infer.");
}

void add_bench_load(CLI::App& command, BenchOptions& bench) {
  using Protocol = BenchProtocol;
  const std::map<std::string, Protocol> protocols{
      {"oip-rest", Protocol::kOipRest},  {"oip-grpc", Protocol::kOipGrpc},    {"oip-stream", Protocol::kOipStream},
      {"salience", Protocol::kSalience}, {"evergreen", Protocol::kEvergreen}, {"openai", Protocol::kOpenAi},
      {"grps", Protocol::kGrps},         {"graphpipe", Protocol::kGraphPipe}};
  command
      .add_option("--protocol", bench.protocol,
                  "oip-rest, oip-grpc, oip-stream (ModelStreamInfer), openai (chat, streamed), grps (gRPC), graphpipe, "
                  "salience, evergreen (gRPC; of both a session for each request)")
      ->transform(one_of(protocols))
      ->type_name("NAME");
  auto* inputs = command.add_option("-i,--input", bench.inputs,
                                    "NAME=random (so is what is not given), random:4x16, zeros, @file.npy, or JSON");
  inputs->type_name("NAME=VALUE")->expected(1)->take_all()->allow_extra_args(false);
  const std::map<std::string, TensorForm> forms{{"binary", TensorForm::kBinary}, {"json", TensorForm::kJson}};
  command.add_option("--tensors", bench.form, "oip-rest: binary or json")->transform(one_of(forms))->type_name("FORM");
  command.add_option("--seed", bench.seed, "of what is random")->capture_default_str();
  command.add_option("--prompt", bench.prompt, "models of text: what is asked; @FILE: a prompt per line, in turns")
      ->type_name("TEXT");
  command.add_option("--max-tokens", bench.max_tokens, "models of text: length of an answer")
      ->type_name("N")
      ->capture_default_str();
}

void add_bench(CLI::App& app, Exit& exit, const Options& options) {
  auto& bench = options->bench;
  auto& command = add(app, exit, options, "bench", "Put load on a model and measure its answers", run_bench);
  command.add_option("model", bench.model, "its name")->required()->type_name("MODEL");
  add_remote_options(command, options->remote, options->timeout);
  add_bench_load(command, bench);
  command.add_option("-c,--concurrency", bench.clients, "requests in flight at most: 8; of an open loop 256")
      ->check(CLI::Range(1, 65535));
  command.add_option("--rate", bench.rate, "open loop: requests per second, by schedule")->check(CLI::PositiveNumber);
  command.add_option("--connections", bench.connections, "of HTTP/2: one for each 100 in flight")
      ->check(CLI::Range(1, 65535));
  command.add_option("--duration", options->duration, "of measuring")->type_name("TIME")->capture_default_str();
  command.add_option("--warmup", options->warmup, "before it")->type_name("TIME")->capture_default_str();
  command.add_option("-n,--requests", bench.requests, "end after so many, whatever the time; without a warm-up")
      ->type_name("N");
  command.add_option("--threads", bench.threads, "of bench itself")->check(CLI::Range(1, 64))->capture_default_str();
  command.add_option("--csv", bench.csv, "write the times of every request to a file")->type_name("FILE");
  command.add_flag("--json", options->json, "the result as JSON");
  command.footer(
      "Without --rate each of so many clients sends its next request when its last one is answered (closed loop). "
      "With\n"
      "it requests are due by a schedule, and latency counts from when they were due, however late they could be "
      "sent.\n"
      "Ctrl-C ends it early, with what there is. The key needs the role infer.");
}

void add_filters(CLI::App& command, RequestFilterOptions& filter) {
  command.add_option("--protocol", filter.protocol, "oip-rest, oip-grpc, openai, …")->type_name("NAME");
  command.add_option("--model", filter.model, "requests for that one alone")->type_name("NAME");
  command.add_option("--status", filter.status, "404, 4xx, a gRPC code such as NOT_FOUND, ok, or failed")
      ->type_name("STATUS");
}

void add_tail(CLI::App& app, Exit& exit, const Options& options) {
  auto& command = add(app, exit, options, "tail", "Follow the requests of a running server, live", run_tail);
  add_remote_options(command, options->remote, options->timeout);
  add_filters(command, options->tail.filter);
  command.add_option("--slow", options->tail.filter.slow, "requests that took as long, or longer")->type_name("TIME");
  command.add_option("-n,--lines", options->tail.count, "end after so many")->type_name("N");
  command.add_flag("--json", options->json, "the lines of the access log as they are");
  command.footer(
      "A line per request when it has ended, whether the server writes an access log or not; nothing of bodies. Where "
      "more\n"
      "comes than can be read, requests are left out, and a line says how many. The key needs the role metrics.");
}

void add_trace(CLI::App& app, Exit& exit, const Options& options) {
  auto& command = add(app, exit, options, "trace", "Show where a request spent its time", run_trace);
  command
      .add_option("id", options->trace.id, "the request's x-request-id, or its trace's; without it the last requests")
      ->type_name("ID");
  command.add_option("--url", options->remote.url, "server: HOST:PORT, http(s)://HOST:PORT or unix:PATH")
      ->type_name("URL")
      ->capture_default_str();
  add_secrets(command, options->remote, options->timeout);
  command.add_flag("--slow", options->trace.slow,
                   "the slowest requests that are kept, and where the first one's time went");
  command.add_option("-n", options->trace.count, "so many of them")
      ->check(CLI::Range(1, 200))
      ->type_name("N")
      ->capture_default_str();
  add_filters(command, options->trace.filter);
  command.add_flag("--json", options->json, "as JSON");
  command.footer(
      "The server keeps the times of its last requests, and longer of those that failed or were slow "
      "(console.timelines,\n"
      "console.slow). The key needs the role metrics.");
}

}  // namespace

void add_remote_options(CLI::App& command, Remote& remote, std::string& timeout) {
  command.add_option("url,--url", remote.url, "server: HOST:PORT, http(s)://HOST:PORT or unix:PATH")
      ->type_name("URL")
      ->capture_default_str();
  add_secrets(command, remote, timeout);
}

void add_tools(CLI::App& app, Exit& exit) {
  add_top(app, exit, std::make_shared<ToolOptions>());
  add_chat(app, exit, std::make_shared<ToolOptions>());
  add_bench(app, exit, std::make_shared<ToolOptions>());
  add_tail(app, exit, std::make_shared<ToolOptions>());
  add_trace(app, exit, std::make_shared<ToolOptions>());
}

}  // namespace weir::app
