#include "app/cli.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "app/commands.h"
#include "app/serve.h"
#include "app/settings.h"
#include "app/version.h"
#include "base/units.h"

namespace weir::app {
namespace {

constexpr const char* kFooter =
    "Every setting is also a key of the file and a variable: --max-body is limits.body and WEIR_LIMITS_BODY.\n"
    "conf/weir.yaml lists them all.";

// What the subcommands' options are stored in.
struct Words {
  std::string target, config, model, timeout = "30s";
  std::map<std::string, std::vector<std::string>, std::less<>> flags;
  std::vector<std::string> inputs;
  Remote remote;
  bool json = false;
};

// One flag per row of the table; the rare ones stay out of --help.
void add_settings(CLI::App& command, Words& words) {
  for (const auto& setting : settings()) {
    std::string key(setting.key);
    CLI::Option* option = nullptr;
    if (setting.form == Setting::Form::kFlag) {
      option = command.add_flag_function(
          setting.flag_name() + "{true}", [&words, key](int64_t) {}, std::string(setting.help));
      option->each([&words, key](const std::string& value) { words.flags[key] = {value}; });
    } else {
      option = command.add_option_function<std::vector<std::string>>(
          setting.flag_name(), [&words, key](const std::vector<std::string>& v) { words.flags[key] = v; },
          std::string(setting.help));
      option->type_name(std::string(setting.unit));
      option->expected(1)->take_all();
      if (setting.form == Setting::Form::kOne) option->take_last();
    }
    if (setting.shown == Setting::Shown::kInFileOnly) option->group("");
  }
}

bool is_config_file(const std::string& path) {
  std::error_code error;
  return path.ends_with(".yaml") || path.ends_with(".yml") || std::filesystem::is_regular_file(path, error);
}

base::Result<Config> configuration(Words words) {
  Sources sources;
  sources.file = words.config;
  sources.flags = std::move(words.flags);
  sources.environment = [](const char* name) -> const char* { return std::getenv(name); };
  if (!words.target.empty() && is_config_file(words.target)) {
    if (!sources.file.empty())
      return base::invalid("two configuration files: " + sources.file + " and " + words.target);
    sources.file = words.target;
  } else if (!words.target.empty()) {
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
  return config ? serve(*config) : usage(config.error().text);
}

Exit run_check(const Words& words) {
  auto config = configuration(words);
  if (!config) return usage(config.error().text);
  std::fputs(show(*config).c_str(), stdout);
  std::fflush(stdout);
  return check_models(*config);
}

Exit run_version(const Words& words) {
  if (words.json)
    std::printf("{\"name\":\"weir\",\"version\":\"%s\",\"compiler\":\"%s\"}\n", kVersion.data(), __VERSION__);
  else
    std::printf("weir %s\n", kVersion.data());
  return Exit::kOk;
}

void add_remote(CLI::App& command, Words& words, bool url_positional) {
  if (url_positional)
    command.add_option("url", words.remote.url, "server, 127.0.0.1:8080 or unix:PATH")->capture_default_str();
  else
    command.add_option("--url", words.remote.url, "server, 127.0.0.1:8080 or unix:PATH")->capture_default_str();
  command.add_option("--timeout", words.timeout, "longest wait")->capture_default_str();
}

void add_output(CLI::App& command, Words& words) {
  std::map<std::string, Output> forms{{"table", Output::kTable}, {"json", Output::kJson}};
  command.add_option("-o,--output", words.remote.output, "table or json")
      ->transform(CLI::Transformer(forms).description(""))
      ->type_name("FORM");
}

}  // namespace

int run(int argc, char** argv) {
  Words words;
  Exit exit = Exit::kOk;
  CLI::App app("weir: one port for every inference protocol");
  app.require_subcommand(1);
  app.footer("weir COMMAND --help tells more. Exit codes: 0 ok, 1 failed, 2 usage, 3 cannot listen, 4 model failed.");
  app.get_formatter()->column_width(30);
  app.set_version_flag("--version", std::string("weir ") + std::string(kVersion));
  auto command = [&](const char* name, const char* help, auto then) {
    CLI::App* sub = app.add_subcommand(name, help);
    sub->callback([&words, &exit, then] { exit = then(words); });
    return sub;
  };
  auto remote = [](auto then) {
    return [then](Words& w) {
      auto timeout = base::parse_duration(w.timeout);
      if (!timeout) return usage("--timeout: " + timeout.error().text);
      w.remote.timeout = *timeout;
      return then(w);
    };
  };

  auto* serve = command("serve", "Serve a folder of models, or what a configuration file says", run_serve);
  auto* check = command("check", "Check a configuration and its models, show what is in force", run_check);
  for (auto* sub : {serve, check}) {
    sub->add_option("target", words.target, "model repository, or a .yaml file")->type_name("DIR|FILE");
    sub->add_option("--config", words.config, "configuration file")->type_name("FILE");
    add_settings(*sub, words);
    sub->footer(kFooter);
  }

  auto* models = command("models", "List a server's models", remote([](Words& w) { return list_models(w.remote); }));
  add_remote(*models, words, true);
  add_output(*models, words);
  auto* load =
      command("load", "Load or reload a model", remote([](Words& w) { return load_model(w.remote, w.model); }));
  auto* unload = command("unload", "Unload a model", remote([](Words& w) { return unload_model(w.remote, w.model); }));
  for (auto* sub : {load, unload}) {
    sub->add_option("model", words.model, "its name")->required()->type_name("NAME");
    add_remote(*sub, words, true);
  }
  auto* ready = command("ready", "Exit 0 when the server is ready, else 1: for health checks",
                        remote([](Words& w) { return ask_ready(w.remote, w.model); }));
  ready->add_option("--model", words.model, "ask for one model")->type_name("NAME");
  add_remote(*ready, words, true);
  auto* infer_command =
      command("infer", "Call a model once", remote([](Words& w) { return infer(w.remote, w.model, w.inputs); }));
  infer_command->add_option("model", words.model, "its name")->required()->type_name("NAME");
  infer_command->add_option("-i,--input", words.inputs, "NAME=[1,2,3], NAME=@file.npy, NAME=zeros")
      ->type_name("NAME=VALUE")
      ->required()
      ->expected(1)
      ->take_all();
  add_remote(*infer_command, words, true);
  add_output(*infer_command, words);
  auto* version = command("version", "Print the version", run_version);
  version->add_flag("--json", words.json, "as JSON");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    int code = app.exit(e);
    return code == 0 ? 0 : int(Exit::kUsage);
  }
  return int(exit);
}

}  // namespace weir::app
