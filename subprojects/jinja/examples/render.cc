// Renders a template: jinja_render TEMPLATE VARIABLES, the names of a file with the template and of a file with a JSON
// object. The chat template of a model is the member `chat_template` of its tokenizer_config.json.
#include "jinja/template.h"

#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

namespace {

std::string content(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: jinja_render TEMPLATE VARIABLES\n";
    return 2;
  }
  auto variables = nlohmann::ordered_json::parse(content(argv[2]), nullptr, false);
  if (!variables.is_object()) {
    std::cerr << argv[2] << ": expected a JSON object\n";
    return 1;
  }
  auto parsed = jinja::Template::parse(content(argv[1]));
  if (!parsed) {
    std::cerr << argv[1] << ": " << parsed.error().message << "\n";
    return 1;
  }
  auto text = (*parsed)->render(variables);
  if (!text) {
    std::cerr << argv[1] << ": " << text.error().message << "\n";
    return 1;
  }
  std::cout << *text;
}
