// A check for options of the command line whose values are a few words.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>

namespace weir::app {

// For CLI::Option::transform(): the word becomes the enumerator that stands for it. Errors name the words: CLI11's own
// transformers show the enumerators, as numbers or not at all.
template <class T>
CLI::Validator one_of(std::map<std::string, T> words) {
  auto find = [words = std::move(words)](std::string& text) {
    if (auto at = words.find(text); at != words.end()) {
      text = std::to_string(static_cast<long>(at->second));
      return std::string();
    }
    std::string all;
    for (const auto& [word, value] : words) all += (all.empty() ? "" : ", ") + word;
    return "expected one of " + all + ", got '" + text + "'";
  };
  return CLI::Validator(std::move(find), "");
}

}  // namespace weir::app
