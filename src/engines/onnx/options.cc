#include "engines/onnx/options.h"

#include <charconv>
#include <iterator>
#include <utility>

namespace weir::onnx {
namespace {

constexpr std::string_view kParameters[] = {"intra_op_threads",
                                            "intra_op_thread_count",
                                            "inter_op_threads",
                                            "inter_op_thread_count",
                                            "graph_optimization",
                                            "memory_arena",
                                            "enable_mem_arena",
                                            "spinning",
                                            "session.intra_op.allow_spinning",
                                            "max_batch",
                                            "providers",
                                            "device",
                                            "in_flight",
                                            "pinned"};

base::Status wrong(const std::string& key, const std::string& value, const char* expected) {
  return base::invalid("parameter '" + key + "' is \"" + value + "\": expected " + expected);
}

base::Status read_threads(const std::string& key, const std::string& value, uint32_t& out) {
  uint32_t n = 0;
  auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
  if (error != std::errc() || end != value.data() + value.size() || n > 1024)
    return wrong(key, value, "a whole number from 0 to 1024");
  out = n;
  return {};
}

template <class Switch>
base::Status read_switch(const std::string& key, const std::string& value, Switch& out) {
  if (value == "on" || value == "true" || value == "1")
    out = Switch::kOn;
  else if (value == "off" || value == "false" || value == "0")
    out = Switch::kOff;
  else
    return wrong(key, value, "on or off");
  return {};
}

base::Status read_optimization(const std::string& key, const std::string& value, Optimization& out) {
  constexpr std::pair<const char*, Optimization> kLevels[] = {{"disable", Optimization::kDisable},
                                                              {"basic", Optimization::kBasic},
                                                              {"extended", Optimization::kExtended},
                                                              {"all", Optimization::kAll}};
  for (auto [text, level] : kLevels)
    if (value == text) return out = level, base::Status();
  return wrong(key, value, "disable, basic, extended or all");
}

base::Status read_one(const std::string& key, const std::string& value, SessionOptions& out) {
  if (key == "intra_op_threads" || key == "intra_op_thread_count")
    return read_threads(key, value, out.intra_op_threads);
  if (key == "inter_op_threads" || key == "inter_op_thread_count")
    return read_threads(key, value, out.inter_op_threads);
  if (key == "graph_optimization") return read_optimization(key, value, out.optimization);
  if (key == "memory_arena" || key == "enable_mem_arena") return read_switch(key, value, out.arena);
  if (key == "spinning" || key == "session.intra_op.allow_spinning") return read_switch(key, value, out.spinning);
  return {};
}

}  // namespace

std::vector<std::string_view> parameter_names() {
  auto names = provider_parameters();
  names.insert(names.end(), std::begin(kParameters), std::end(kParameters));
  return names;
}

std::string SessionOptions::text() const {
  std::string out = std::to_string(intra_op_threads) + ',' + std::to_string(inter_op_threads) + ',' +
                    std::to_string(int(optimization)) + ',' + std::to_string(int(arena)) + ',' +
                    std::to_string(int(spinning)) + ',' + std::to_string(int(rows));
  for (const std::string& library : custom_ops) out += ',' + library;
  for (const auto& provider : providers) {
    out += ";" + std::to_string(int(provider.kind));
    for (const auto& [key, value] : provider.options) out += ',' + key + '=' + value;
  }
  for (const auto& [key, value] : entries) out += ';' + key + '=' + value;
  return out + '@' + std::to_string(placement.gpu);
}

base::Result<SessionOptions> session_options(const std::map<std::string, std::string>& parameters,
                                             const SessionOptions& defaults) {
  SessionOptions out = defaults;
  for (const auto& [key, value] : parameters)
    if (auto s = read_one(key, value, out); !s.ok()) return s;
  const auto device = parameters.find("device");
  auto providers = read_providers(parameters, device == parameters.end() ? "" : device->second);
  if (!providers) return providers.error();
  auto entries = read_entries(parameters);
  if (!entries) return entries.error();
  out.providers = std::move(*providers), out.entries = std::move(*entries);
  return out;
}

}  // namespace weir::onnx
