// Cases of a transcript in tests/data, and how a model answers in them. Grammar of the file, line by line:
//   == <title>          begins a case         # … and empty lines mean nothing
//   <key>: <value>      what a key means is the test's business, but for
//   model: <name>       whose Inbox is scripted (default: add)
//   answer: <tensors>   what the engine answers, as parse_tensors() reads it
//   fail: <code> <text> … or how it fails
#pragma once

#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/scripted_models.h"

namespace weir::support {

using Case = std::map<std::string, std::string>;

inline std::vector<Case> read_cases(const std::string& path) {
  std::vector<Case> cases;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line.starts_with("== ")) {
      cases.push_back({{"title", line.substr(3)}, {"model", "add"}});
      continue;
    }
    size_t colon = line.find(": ");
    if (cases.empty() || colon == line.npos) throw std::runtime_error("bad line: " + line);
    cases.back()[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return cases;
}

inline base::Code code_named(std::string_view name) {
  for (int c = 0; c <= 16; ++c)
    if (base::name(base::Code(c)) == name) return base::Code(c);
  throw std::runtime_error("no code " + std::string(name));
}

inline void script(ScriptedModels& models, const Case& c) {
  if (c.count("answer")) {
    models[c.at("model")].script.push_back(outputs(c.at("answer")));
  } else if (c.count("fail")) {
    const std::string& text = c.at("fail");
    size_t space = text.find(' ');
    models[c.at("model")].script.push_back(
        {msg::Failed{base::failure(code_named(text.substr(0, space)), text.substr(space + 1))}});
  }
}

}  // namespace weir::support
