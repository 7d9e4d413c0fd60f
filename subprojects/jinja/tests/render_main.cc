// Renders templates for the comparison with python3-jinja2 (golden_template_test.py): each line of the standard
// input is {"template", "variables"}, each line of the output {"text"} or {"error"}.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "jinja/template.h"

int main() {
  using Json = nlohmann::ordered_json;
  std::string line;
  while (std::getline(std::cin, line)) {
    auto job = Json::parse(line);
    Json answer;
    auto parsed = jinja::Template::parse(job["template"].get<std::string>());
    if (!parsed) {
      answer["error"] = parsed.error().message;
    } else if (auto text = (*parsed)->render(job["variables"])) {
      answer["text"] = *text;
    } else {
      answer["error"] = text.error().message;
    }
    std::cout << answer.dump() << "\n";
  }
}
