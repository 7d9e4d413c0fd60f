#include "app/tools/commands.h"

#include <memory>
#include <string>

#include "app/tools/chat.h"
#include "app/tools/top.h"
#include "base/units.h"

namespace weir::app {
namespace {

// The values of the tools' options; durations as they are written.
struct ToolOptions {
  Remote remote;
  std::string timeout = "30s", interval = "1s";
  bool once = false;
  TopOptions top;
  ChatOptions chat;
};
using Options = std::shared_ptr<ToolOptions>;
using Run = Exit (*)(ToolOptions&);

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

}  // namespace

void add_remote_options(CLI::App& command, Remote& remote, std::string& timeout) {
  command.add_option("url,--url", remote.url, "server: HOST:PORT, http(s)://HOST:PORT or unix:PATH")
      ->type_name("URL")
      ->capture_default_str();
  command.add_option("--key", remote.key, "API key or token; without it WEIR_API_KEY is looked at")->type_name("KEY");
  command.add_option("--ca", remote.ca_file, "PEM: who may have signed an https server's certificate")
      ->type_name("FILE");
  command.add_option("--timeout", timeout, "longest wait for an answer, or for the next part of one that streams")
      ->type_name("TIME")
      ->capture_default_str();
}

void add_tools(CLI::App& app, Exit& exit) {
  add_top(app, exit, std::make_shared<ToolOptions>());
  add_chat(app, exit, std::make_shared<ToolOptions>());
}

}  // namespace weir::app
