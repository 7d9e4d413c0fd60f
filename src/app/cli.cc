#include "app/cli.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "app/commands.h"
#include "app/engine_child.h"
#include "app/gpus.h"
#include "app/key_commands.h"
#include "app/logs.h"
#include "app/memory.h"
#include "app/one_of.h"
#include "app/serve.h"
#include "app/settings.h"
#include "app/shortage.h"
#include "app/tools/commands.h"
#include "app/unknown_variables.h"
#include "app/version.h"
#include "base/text_file.h"
#include "base/units.h"
#include "default_config.h"
#include "models/gguf_files.h"
#include "net/signals.h"

namespace weir::app {
namespace {

using base::Setting;

constexpr const char* kFooter =
    "Every setting is also a key of the file and a variable: --max-body is limits.body and WEIR_LIMITS_BODY.\n"
    "`weir help config` prints them all.\n"
    "SIGHUP reads certificates, keys, models, log.level and log.format again; other settings need a restart.";

// The values of the subcommands' options.
struct Words {
  std::string target, config, model, engine, topic, timeout = "30s";
  std::map<std::string, std::vector<std::string>, std::less<>> flags;
  std::map<std::string, std::string> switches;  // empty = not given
  std::vector<std::string> inputs;
  Remote remote;
  KeyWords keys;
  bool json = false, settings_only = false;
};

// One flag per row of the table; the rare ones stay out of --help.
void add_settings(CLI::App& command, Words& words) {
  Config defaults;
  for (const auto& setting : settings(defaults)) {
    if (setting.form == Setting::ValueKind::kTree || setting.form == Setting::ValueKind::kReplaced) continue;
    const std::string& key = setting.key;
    CLI::Option* option = nullptr;
    if (setting.form == Setting::ValueKind::kFlag) {
      option = command.add_flag(setting.flag_name(), words.switches[key], setting.help);
    } else {
      option = command.add_option_function<std::vector<std::string>>(
          setting.flag_name(), [&words, key](const std::vector<std::string>& v) { words.flags[key] = v; },
          setting.help);
      option->type_name(setting.unit);
      option->expected(1)->take_all()->allow_extra_args(false);
      if (setting.form == Setting::ValueKind::kOne) option->take_last();
    }
    if (setting.shown == Setting::Shown::kInFileOnly) option->group("");
  }
}

// The argument of `weir serve` and `weir check`: a configuration, or models.
enum class Target : uint8_t { kConfig, kModels };

base::Result<Target> target_of(const std::string& path) {
  std::error_code error;
  if (path.ends_with(".yaml") || path.ends_with(".yml")) return Target::kConfig;
  const bool model = path.ends_with(".onnx") || models::is_gguf(path) || models::is_gguf_file(path);
  if (model || !std::filesystem::is_regular_file(path, error)) return Target::kModels;
  std::ifstream in(path, std::ios::binary);
  std::string head(4096, '\0');
  in.read(head.data(), std::streamsize(head.size()));
  head.resize(size_t(std::max<std::streamsize>(in.gcount(), 0)));
  if (head.find('\0') == std::string::npos) return Target::kConfig;
  return base::invalid("'" + path +
                       "' is neither a .yaml configuration nor a model that is one file (.onnx, .gguf); other "
                       "models are folders: weir serve --help");
}

base::Result<Config> configuration(Words words, base::Pipes pipes = base::Pipes::kRead) {
  Sources sources;
  sources.pipes = pipes;
  sources.file = words.config;
  sources.flags = std::move(words.flags);
  for (const auto& [key, value] : words.switches)
    if (!value.empty()) sources.flags[key] = {value};
  sources.environment = [](const char* name) -> const char* { return std::getenv(name); };
  if (!words.target.empty()) {
    auto target = target_of(words.target);
    if (!target) return target.error();
    if (*target == Target::kConfig && !sources.file.empty())
      return base::invalid("two configuration files: " + sources.file + " and " + words.target);
    if (*target == Target::kConfig)
      sources.file = words.target;
    else
      sources.flags["models.repository"] = {words.target};
  }
  if (const char* file = std::getenv("WEIR_CONFIG"); file && sources.file.empty() && words.target.empty())
    sources.file = file;
  return resolve(sources);
}

Exit usage(const std::string& text) {
  std::fprintf(stderr, "weir: %s\n", text.c_str());
  return Exit::kUsage;
}

Exit run_serve(const Words& words) {
  auto config = configuration(words);
  if (!config) return usage(config.error().text);
  set_up_logs(*config);
  for (const auto& text : unknown_variables(environ))
    base::log::warning("a variable of the environment is passed over", {{"reason", text}});
  LiveSettings live(*config, [&words] { return configuration(words, base::Pipes::kRefused); });
  fit_memory(*config);
  return serve(*config, live);
}

Exit run_check(const Words& words) {
  auto config = configuration(words);
  if (!config) return usage(config.error().text);
  std::fputs(show(*config).c_str(), stdout);
  std::fflush(stdout);
  for (const auto& text : unknown_variables(environ)) std::fprintf(stderr, "weir: warning: %s\n", text.c_str());
  return check(*config, words.settings_only ? CheckDepth::kSettings : CheckDepth::kModels);
}

Exit run_child(const Words& words) {
  auto config = configuration(words);
  return config ? run_engine_child(*config, words.engine) : usage(config.error().text);
}

Exit run_routes(const Words& words) {
  auto config = configuration(words);
  if (!config) return usage(config.error().text);
  return list_routes(*config, words.json ? RouteList::kJson : RouteList::kTable);
}

Exit run_version(const Words& words) {
  if (words.json) {
    device::Devices devices({});
    std::printf("{\"name\":\"weir\",\"version\":\"%s\",\"compiler\":\"%s\",\"cuda\":%s}\n", kVersion.data(),
                __VERSION__, cuda_json(devices).c_str());
  } else {
    std::printf("weir %s\n", kVersion.data());
  }
  return Exit::kOk;
}

Exit run_help(const Words& words) {
  if (words.topic != "config")
    return usage("the topic of help is 'config'; for the commands: weir --help, weir COMMAND --help");
  std::fwrite(kDefaultConfig.data(), 1, kDefaultConfig.size(), stdout);
  return Exit::kOk;
}

void add_remote(CLI::App& command, Words& words) { add_remote_options(command, words.remote, words.timeout); }

void add_output(CLI::App& command, Words& words) {
  std::map<std::string, Output> forms{{"table", Output::kTable}, {"json", Output::kJson}};
  command.add_option("-o,--output", words.remote.output, "table or json")->transform(one_of(forms))->type_name("FORM");
}

}  // namespace

namespace {

using Then = std::function<Exit(Words&)>;

struct Line {
  CLI::App& app;
  Words& words;
  Exit& exit;

  CLI::App& command(const char* name, const char* help, Then then) {
    CLI::App* sub = app.add_subcommand(name, help);
    sub->callback([this, then = std::move(then)] { exit = then(words); });
    return *sub;
  }
  // A command whose file of keys is its option's, or the configuration's.
  void key_command(CLI::App& group, const char* name, const char* help, Exit (*then)(const KeyWords&)) {
    CLI::App* sub = group.add_subcommand(name, help);
    sub->add_option("--keys-file", words.keys.file, "file of keys; without it, the configuration's")->type_name("FILE");
    sub->add_option("--config", words.config, "configuration file")->type_name("FILE");
    sub->callback([this, then] {
      auto config = words.keys.file.empty() ? configuration(words) : base::Result<Config>(Config());
      if (!config) return void(exit = usage(config.error().text));
      if (words.keys.file.empty()) words.keys.file = config->auth.keys_file;
      if (words.json) words.keys.output = Output::kJson;
      exit = then(words.keys);
    });
  }
  // A command that talks to a server.
  CLI::App& remote(const char* name, const char* help, Then then) {
    return command(name, help, [then = std::move(then)](Words& w) {
      auto timeout = base::parse_duration(w.timeout);
      if (!timeout) return usage("--timeout: " + timeout.error().text);
      w.remote.timeout = *timeout;
      return then(w);
    });
  }
};

void add_model(CLI::App& command, Words& words) {
  command.add_option("model", words.model, "its name")->required()->type_name("NAME");
}

void add_server_commands(Line& line) {
  auto& routes = line.command("routes", "List the routes that are served, and which of them read, infer or administer",
                              run_routes);
  routes.add_flag("--json", line.words.json, "as JSON");
  auto& check = line.command("check", "Check a configuration and its models, show what is in force", run_check);
  check.add_flag("--no-load", line.words.settings_only, "check settings, certificates and folders; load no model");
  CLI::App* subs[] = {&line.command("serve", "Serve a folder of models, or what a configuration file says", run_serve),
                      &check, &routes};
  for (auto* sub : subs) {
    sub->add_option("target", line.words.target, "model repository, an .onnx or .gguf model, or a .yaml configuration")
        ->type_name("DIR|FILE");
    sub->add_option("--config", line.words.config, "configuration file")->type_name("FILE");
    add_settings(*sub, line.words);
    sub->footer(kFooter);
  }
  auto& child = line.command(kEngineChild, "", run_child);  // what `isolation: process` starts
  child.group("");
  child.add_option("engine", line.words.engine)->required();
  child.add_option("model", line.words.model)->required();
  add_settings(child, line.words);
  auto& help = line.command("help", "Print the configuration file with every key and its default", run_help);
  help.add_option("topic", line.words.topic, "config")->type_name("TOPIC");
  line.command("version", "Print the version", run_version).add_flag("--json", line.words.json, "as JSON");
}

void add_key_commands(Line& line) {
  KeyWords& words = line.words.keys;
  CLI::App& group = *line.app.add_subcommand("key", "Make, list and revoke API keys");
  group.require_subcommand(1);
  line.key_command(group, "new", "Print a new key, once, and add its hash to the file of keys", new_key);
  line.key_command(group, "list", "List the keys of the file", list_keys);
  line.key_command(group, "revoke", "Take a key out of the file", revoke_key);
  CLI::App& fresh = *group.get_subcommand("new");
  for (auto* sub : {&fresh, group.get_subcommand("revoke")})
    sub->add_option("name", words.name, "the key's name")->required()->type_name("NAME");
  fresh.add_option("--roles", words.roles, "infer, admin, metrics; infer, unless it is given")
      ->delimiter(',')
      ->allow_extra_args(false);
  fresh.add_option("--models", words.models, "patterns of models; all, unless it is given")
      ->delimiter(',')
      ->allow_extra_args(false);
  fresh.add_option("--tenant", words.tenant, "whose it is; the name, unless it is given")->type_name("NAME");
  fresh.add_option("--expires", words.expires, "90d, 12h, or 2027-01-31T00:00:00Z; never, unless it is given")
      ->type_name("TIME");
  group.get_subcommand("list")->add_flag("--json", line.words.json, "as JSON");
}

void add_client_commands(Line& line) {
  Words& words = line.words;
  auto& models = line.remote("models", "List a server's models", [](Words& w) { return list_models(w.remote); });
  add_remote(models, words);
  add_output(models, words);
  auto& load = line.remote("load", "Load or reload a model", [](Words& w) { return load_model(w.remote, w.model); });
  auto& unload = line.remote("unload", "Unload a model", [](Words& w) { return unload_model(w.remote, w.model); });
  for (auto* sub : {&load, &unload}) {
    add_model(*sub, words);
    add_remote(*sub, words);
  }
  auto& ready = line.remote("ready", "Exit 0 when the server is ready, else 1: for health checks",
                            [](Words& w) { return ask_ready(w.remote, w.model); });
  ready.add_option("--model", words.model, "ask for one model")->type_name("NAME");
  add_remote(ready, words);
  auto& call = line.remote("infer", "Call a model once", [](Words& w) { return infer(w.remote, w.model, w.inputs); });
  add_model(call, words);
  auto* inputs = call.add_option("-i,--input", words.inputs,
                                 "NAME=[1,2,3], NAME=@file.npy, NAME=@picture.jpg, NAME=zeros, ones or random; with a "
                                 "shape NAME:1,3,224,224=random. Without any: what the model takes");
  inputs->type_name("NAME[:SHAPE]=VALUE")->expected(1)->take_all()->allow_extra_args(false);
  add_remote(call, words);
  add_output(call, words);
}

}  // namespace

int run(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "serve") net::hold_signals();  // before the line and the files are read
  end_in_words();
  Words words;
  Exit exit = Exit::kOk;
  CLI::App app("weir: one port for every inference protocol");
  app.require_subcommand(0, 1);
  app.footer(
      "weir COMMAND --help tells more. Exit codes: 0 ok, 1 failed, 2 usage, 3 cannot listen, 4 model failed, 5 GPU "
      "lost.");
  app.get_formatter()->column_width(30);
  app.set_version_flag("--version", "weir " + std::string(kVersion));
  Line line{app, words, exit};
  add_server_commands(line);
  add_key_commands(line);
  add_client_commands(line);
  add_tools(app, exit);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : int(Exit::kUsage);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", shortage(e).c_str());
    return int(Exit::kFailed);
  }
  if (app.get_subcommands().empty()) std::fputs(app.help().c_str(), stdout);
  return int(exit);
}

}  // namespace weir::app
