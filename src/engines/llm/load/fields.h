// ConfigFields: typed, bounded reading of a JSON object; the first thing that is wrong is kept.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"

namespace weir::llm {

class ConfigFields {
 public:
  ConfigFields(const nlohmann::json& object, base::Status& status, std::string place = {})
      : object_(object), status_(status), place_(std::move(place)) {}

  bool has(const char* name) const { return object_.is_object() && object_.contains(name) && !object_[name].is_null(); }
  const nlohmann::json& operator[](const char* name) const { return object_[name]; }

  uint32_t count(const char* name, uint32_t least, uint32_t most) { return whole(name, least, most); }
  uint32_t count_or(const char* name, uint32_t least, uint32_t most, uint32_t fallback) {
    return has(name) ? whole(name, least, most) : fallback;
  }
  double real_or(const char* name, double least, double most, double fallback) {
    if (!has(name)) return fallback;
    const auto& v = object_[name];
    if (v.is_number() && std::isfinite(v.get<double>()) && v.get<double>() >= least && v.get<double>() <= most)
      return v.get<double>();
    fail(name, "is out of range");
    return fallback;
  }
  bool flag_or(const char* name, bool fallback) {
    if (!has(name)) return fallback;
    if (object_[name].is_boolean()) return object_[name].get<bool>();
    fail(name, "is not true or false");
    return fallback;
  }
  std::string text_or(const char* name, std::string fallback) {
    if (!has(name)) return fallback;
    if (object_[name].is_string()) return object_[name].get<std::string>();
    fail(name, "is not a string");
    return fallback;
  }
  // One number or a list of them.
  std::vector<uint32_t> ids_or_none(const char* name, uint32_t most) {
    std::vector<uint32_t> ids;
    if (!has(name)) return ids;
    auto add = [&](const nlohmann::json& v) {
      if (v.is_number_unsigned() && v.get<uint64_t>() <= most)
        ids.push_back(uint32_t(v.get<uint64_t>()));
      else
        fail(name, "holds what is no token id");
    };
    if (object_[name].is_array() && object_[name].size() <= 1024)
      for (const auto& v : object_[name]) add(v);
    else
      add(object_[name]);
    return ids;
  }
  void fail(const std::string& name, const std::string& what, base::Code code = base::Code::kInvalidArgument) {
    fail(base::failure(code, place_ + "'" + name + "' " + what));
  }
  void fail(const base::Status& status) {
    if (status_.ok()) status_ = status;
  }

 private:
  uint32_t whole(const char* name, uint32_t least, uint32_t most) {
    if (has(name)) {
      const auto& v = object_[name];
      if (v.is_number_unsigned() && v.get<uint64_t>() >= least && v.get<uint64_t>() <= most)
        return uint32_t(v.get<uint64_t>());
    }
    fail(name, (has(name) ? "is not a whole number from " : "is missing: a whole number from ") +
                   std::to_string(least) + " to " + std::to_string(most));
    return least;
  }

  const nlohmann::json& object_;
  base::Status& status_;
  std::string place_;
};

}  // namespace weir::llm
