// YamlReader: what readers of a Yaml share: values of one kind each, and maps by a function per key. What is wrong goes
// to `complaints_`, which names the place ("m/model.yaml:7:3"); reading goes on, so that all of it is told at once.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "models/yaml.h"

namespace weir::models {

class YamlReader {
 protected:
  explicit YamlReader(std::string_view place) : place_(place), complaints_(place_) {}

  struct Key {
    std::string_view name;
    std::function<void(const Yaml&)> take;
  };

  void map(const Yaml& node, std::string_view where, const std::vector<Key>& keys) {
    if (node.kind == Yaml::Kind::kNull) return;
    if (node.kind != Yaml::Kind::kMap) return complaints_.at(node, "expected a map of keys and values");
    std::vector<std::string_view> known;
    for (const auto& k : keys) known.push_back(k.name);
    for (const auto& entry : node.entries) {
      auto key = std::find_if(keys.begin(), keys.end(), [&](const Key& k) { return k.name == entry.key; });
      if (key == keys.end())
        complaints_.unknown_key(entry, where, known);
      else
        key->take(entry.value);
    }
  }

  bool scalar(const Yaml& node) {
    if (node.kind == Yaml::Kind::kScalar) return true;
    complaints_.at(node, "expected one value");
    return false;
  }
  template <class T, class Parsed>
  void take(const Yaml& node, Parsed parsed, T& out) {
    if (parsed)
      out = T(*parsed);
    else
      complaints_.at(node, parsed.error().text);
  }
  void text(const Yaml& node, std::string& out) {
    if (scalar(node)) out = node.scalar;
  }
  // One text, or a list of them.
  void texts(const Yaml& node, std::vector<std::string>& out) {
    if (node.kind != Yaml::Kind::kList) return text(node, out.emplace_back());
    for (const auto& item : node.items) text(item, out.emplace_back());
  }
  void count(const Yaml& node, uint32_t& out) {
    if (scalar(node)) take(node, base::parse_count(node.scalar, UINT32_MAX), out);
  }
  void bytes(const Yaml& node, uint64_t& out) {
    if (scalar(node)) take(node, base::parse_size(node.scalar), out);
  }
  void flag(const Yaml& node, bool& out) {
    if (scalar(node)) take(node, base::parse_switch(node.scalar), out);
  }
  void duration(const Yaml& node, base::Duration& out) {
    if (scalar(node)) take(node, base::parse_duration(node.scalar), out);
  }
  void counts(const Yaml& node, std::vector<uint32_t>& out) {
    out.clear();
    if (node.kind != Yaml::Kind::kList) return complaints_.at(node, "expected a list of numbers");
    for (const auto& item : node.items) count(item, out.emplace_back());
  }

  template <class T, size_t n>
  void choose(const Yaml& node, T& out, const std::pair<std::string_view, T> (&words)[n]) {
    std::string expected;
    for (const auto& [word, value] : words) {
      if (node.scalar == word) return void(out = value);
      expected += (expected.empty() ? "expected " : ", ") + std::string(word);
    }
    complaints_.at(node, expected + "; got '" + node.scalar + "'");
  }

  void real(const Yaml& node, double& out) {
    const auto& s = node.scalar;
    auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), out);
    if (s.empty() || error != std::errc() || end != s.data() + s.size() || !std::isfinite(out))
      complaints_.at(node, "expected a number, got '" + s + "'");
  }

  const std::string place_;
  Complaints complaints_;
};

}  // namespace weir::models
