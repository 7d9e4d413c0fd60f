#include "app/config.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/otel_variables.h"
#include "app/settings.h"
#include "base/text_file.h"
#include "models/yaml.h"

namespace weir::app {
namespace {

using base::Complaints;
using base::Setting;
using base::Yaml;

// "limits" of "limits.body" below "".
std::string_view next_part(std::string_view key, std::string_view prefix) {
  std::string_view rest = key.substr(prefix.size());
  return rest.substr(0, rest.find('.'));
}

class FileReading {
 public:
  FileReading(const std::string& file, Config& config)
      : settings_(settings(config)),
        file_(std::filesystem::path(file).filename().string()),
        folder_(std::filesystem::path(file).parent_path()),
        complaints_(file),
        config_(config) {}

  base::Status read(const Yaml& root) {
    section(root, "");
    return complaints_.status();
  }

 private:
  void section(const Yaml& node, const std::string& prefix) {
    if (node.kind == Yaml::Kind::kNull) return;
    if (node.kind != Yaml::Kind::kMap) return complaints_.at(node, "expected a map of keys and values");
    for (const auto& entry : node.entries) {
      std::string key = prefix + entry.key;
      bool branch = false;
      const Setting* leaf = nullptr;
      for (const auto& s : settings_) {
        if (s.key == key) leaf = &s;
        branch = branch || s.key.starts_with(key + ".");
      }
      if (leaf)
        value(*leaf, entry);
      else if (branch)
        section(entry.value, key + ".");
      else
        unknown(entry, prefix);
    }
  }

  void unknown(const Yaml::Member& entry, const std::string& prefix) {
    std::vector<std::string_view> known;
    for (const auto& s : settings_)
      if (s.key.starts_with(prefix))
        if (auto part = next_part(s.key, prefix); known.empty() || known.back() != part) known.push_back(part);
    complaints_.unknown_key(entry, prefix.empty() ? "" : prefix.substr(0, prefix.size() - 1), known);
  }

  void value(const Setting& setting, const Yaml::Member& entry) {
    const Yaml& node = entry.value;
    if (setting.form == Setting::ValueKind::kTree) return setting.read(node, complaints_);
    if (setting.form == Setting::ValueKind::kReplaced)
      return complaints_.at(entry.line, entry.column, setting.key + ' ' + setting.help);
    if (node.kind == Yaml::Kind::kNull) return;  // "key:" and nothing else: the default
    Setting::Values values;
    if (node.kind == Yaml::Kind::kScalar) values.push_back(node.scalar);
    for (const auto& item : node.items) {
      if (item.kind != Yaml::Kind::kScalar) return complaints_.at(item, setting.key + ": expected one value");
      values.push_back(item.scalar);
    }
    if (node.kind == Yaml::Kind::kMap || (node.kind == Yaml::Kind::kList && setting.form != Setting::ValueKind::kList))
      return complaints_.at(node, setting.key + (setting.form == Setting::ValueKind::kList ? ": expected a list"
                                                                                           : ": expected one value"));
    if (setting.path)
      for (auto& v : values) v = beside_file(v);
    if (auto s = setting.set(values); !s.ok())
      complaints_.at(node, setting.key + ": " + s.text);
    else
      config_.origins[setting.key] = file_ + ':' + std::to_string(entry.line);
  }

  std::string beside_file(const std::string& path) const {
    if (path.empty() || path == "-" || path[0] == '/' || is_switch(path)) return path;
    return (folder_ / path).lexically_normal().string();
  }

  const std::vector<Setting> settings_;
  std::string file_;
  std::filesystem::path folder_;
  Complaints complaints_;
  Config& config_;
};

Setting::Values split(std::string_view text) {
  Setting::Values out;
  for (;;) {
    size_t comma = text.find(',');
    out.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return out;
    text.remove_prefix(comma + 1);
  }
}

// Whether commas part the values of its flag, as they do in its variable: files and what stands behind = may have
// commas of their own, secrets too.
bool parts_at_commas(const Setting& s) {
  return s.form == Setting::ValueKind::kList && !s.path && !s.unit.ends_with("=VALUE") && s.unit != "SECRET";
}

Setting::Values flag_values(const Setting& setting, const Setting::Values& given) {
  if (!parts_at_commas(setting)) return given;
  Setting::Values out;
  for (const auto& each : given)
    for (auto& value : split(each)) out.push_back(std::move(value));
  return out;
}

void add_line(std::string& text, const std::string& line) { text += (text.empty() ? "" : "\n") + line; }

// Rules between settings.
void cross_check(const Config& config, std::string& wrong) {
  if (config.tls.certificate.empty() != config.tls.key.empty())
    add_line(wrong, "tls.certificate and tls.key go together: only one of them is set");
  if (config.tls.certificate.empty() && (config.tls.required || !config.tls.client_ca.empty()))
    add_line(wrong, "tls.required and tls.client_ca need tls.certificate and tls.key");
  const auto& c = config.cluster;
  const bool nodes_tls = !c.tls.certificate.empty();
  if (nodes_tls != !c.tls.key.empty() || nodes_tls != !c.tls.ca.empty() || nodes_tls != !c.listen.empty())
    add_line(wrong, "cluster.listen, cluster.tls.certificate, cluster.tls.key and cluster.tls.ca go together");
  else if (nodes_tls && c.nats.empty())
    add_line(wrong, "cluster.tls needs cluster.nats");
  else if (nodes_tls && !c.address.empty() && !c.address.starts_with("https://"))
    add_line(wrong, "cluster.address: expected an URL of cluster.listen, which begins with https:// for cluster.tls");
  if (config.listen.empty()) add_line(wrong, "listen: at least one address is needed");
  if (config.limits.header_bytes > config.limits.header_bytes_hard)
    add_line(wrong, "limits.header_bytes is larger than limits.header_bytes_hard");
  if (config.limits.header_fields > config.limits.header_fields_hard)
    add_line(wrong, "limits.header_fields is larger than limits.header_fields_hard");
  if (config.slab_budget < 2 * config.limits.body || config.slab_budget < 2 * config.limits.message)
    add_line(wrong, "limits.slab_budget must be at least twice limits.body and limits.message");
  const auto& o = config.overload;
  if (o.shrink > o.close || o.close > o.refuse || o.refuse > o.stop)
    add_line(wrong,
             "overload: shrink, close, refuse and stop are steps of one ladder, each no lower than the one before");
  using models::Control;
  const bool chosen = config.models.control == Control::kExplicit || config.models.control == Control::kDemand;
  if (!chosen && !config.models.startup.empty())
    add_line(wrong, "models.startup (--load) needs models.control: explicit or demand; everything is loaded otherwise");
  if (config.models.control != Control::kDemand && config.models.memory > 0)
    add_line(wrong, "models.memory needs models.control: demand; nothing leaves memory otherwise");
}

}  // namespace

Config::Config() { models.batching.dynamic = true; }

std::vector<dialects::Dialect*> Config::served() const {
  std::vector<dialects::Dialect*> out;
  for (const auto& each : dialects)
    if (each.on) out.push_back(each.dialect.get());
  return out;
}

base::Status read_file_text(std::string_view text, const std::string& file, Config& config) {
  auto tree = models::parse_yaml(text, file);
  if (!tree) return tree.error();
  return FileReading(file, config).read(*tree);
}

base::Result<Config> resolve(const Sources& sources) {
  Config config;
  std::string wrong;
  if (!sources.file.empty()) {
    auto text = base::read_text_file(sources.file, sources.pipes);
    if (!text) return base::failure(base::Code::kNotFound, "configuration file " + text.error().text);
    if (auto s = read_file_text(*text, sources.file, config); !s.ok()) wrong = s.text;
  }
  const std::vector<Setting> rows = settings(config);
  if (sources.environment)
    for (const auto& s : read_otel_variables(rows, sources.environment, config)) add_line(wrong, s.text);
  for (const auto& setting : rows) {
    if (setting.form == Setting::ValueKind::kTree) continue;
    std::string name = setting.environment_name();
    const char* value = sources.environment ? sources.environment(name.c_str()) : nullptr;
    if (value && *value) {
      auto values = setting.form == Setting::ValueKind::kList ? split(value) : Setting::Values{value};
      if (auto s = setting.set(values); !s.ok()) add_line(wrong, name + ": " + s.text);
      config.origins[setting.key] = name;
    }
    if (auto flag = sources.flags.find(setting.key); flag != sources.flags.end()) {
      if (auto s = setting.set(flag_values(setting, flag->second)); !s.ok())
        add_line(wrong, setting.flag_name() + ": " + s.text);
      config.origins[setting.key] = "flag";
    }
  }
  if (wrong.empty()) cross_check(config, wrong);
  if (!wrong.empty()) return base::invalid(std::move(wrong));
  return config;
}

std::string show(const Config& config) {
  std::string out;
  std::vector<std::string> open;                                       // sections that are open
  for (const auto& setting : settings(const_cast<Config&>(config))) {  // which are only shown
    if (setting.form == Setting::ValueKind::kReplaced) continue;
    if (setting.form == Setting::ValueKind::kTree) {
      out += setting.show();
      continue;
    }
    std::vector<std::string> parts;
    std::string_view rest = setting.key;
    for (size_t dot; (dot = rest.find('.')) != std::string_view::npos; rest.remove_prefix(dot + 1))
      parts.emplace_back(rest.substr(0, dot));
    size_t same = 0;
    while (same < std::min(open.size(), parts.size()) && open[same] == parts[same]) ++same;
    for (size_t i = same; i < parts.size(); ++i) out += std::string(2 * i, ' ') + parts[i] + ":\n";
    open = parts;
    std::string line = std::string(2 * parts.size(), ' ') + std::string(rest) + ": ";
    auto values = setting.get();
    if (setting.form == Setting::ValueKind::kList) {
      line += '[';
      for (size_t i = 0; i < values.size(); ++i) line += (i ? ", " : "") + base::yaml_scalar(values[i]);
      line += ']';
    } else {
      line += base::yaml_scalar(values.at(0));
    }
    auto origin = config.origins.find(setting.key);
    if (origin != config.origins.end()) line += "  # " + origin->second;
    out += line + '\n';
  }
  return out;
}

std::string show_json(const Config& config) {
  auto rows = nlohmann::ordered_json::array();
  for (const auto& setting : settings(const_cast<Config&>(config))) {  // which are only shown
    if (setting.form == Setting::ValueKind::kReplaced) continue;
    const bool tree = setting.form == Setting::ValueKind::kTree;
    auto origin = config.origins.find(setting.key);
    rows.push_back({{"key", setting.key},
                    {"value", tree ? Setting::Values{setting.show()} : setting.get()},
                    {"origin", origin == config.origins.end() ? "" : origin->second},
                    {"flag", tree ? "" : setting.flag_name()},
                    {"variable", tree ? "" : setting.environment_name()},
                    {"help", setting.help}});
  }
  const nlohmann::ordered_json document{{"settings", std::move(rows)}};
  return document.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

}  // namespace weir::app
