#include "app/commands.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/infer_request.h"
#include "base/encoding.h"

namespace weir::app {
namespace {

using nlohmann::json;

Exit load_or_unload(const Remote& remote, const std::string& model, const std::string& verb) {
  auto reply = ask(remote, "POST", "/v2/repository/models/" + base::percent_encode(model) + '/' + verb, "{}");
  if (auto wrong = complaint(reply); !wrong.empty()) return fail(wrong);
  return Exit::kOk;
}

// For a terminal: the server may be anybody's.
std::string text_of(const json& row, const char* key) {
  auto found = row.find(key);
  return found != row.end() && found->is_string() ? printable(found->get<std::string>()) : std::string();
}

std::string dump_of(const json& row, const char* key) {
  auto found = row.find(key);
  return found != row.end() ? printable(found->dump()) : "null";
}

void print_outputs(const json& answer) {
  for (const auto& output : answer["outputs"])
    std::printf("%s %s%s %s\n", text_of(output, "name").c_str(), text_of(output, "datatype").c_str(),
                dump_of(output, "shape").c_str(), dump_of(output, "data").c_str());
}

}  // namespace

Exit list_models(const Remote& remote) {
  auto reply = ask(remote, "POST", "/v2/repository/index", "{}");
  if (auto wrong = complaint(reply); !wrong.empty()) return fail(wrong);
  auto rows = json::parse(reply->body, nullptr, false);
  auto has_name = [](const json& row) { return !text_of(row, "name").empty(); };
  if (!rows.is_array() || !std::all_of(rows.begin(), rows.end(), has_name))
    return fail("the server's index is no list of models");
  if (remote.output == Output::kJson) {
    std::printf("%s\n", rows.dump(2).c_str());
    return Exit::kOk;
  }
  size_t wide = 5;
  for (const auto& row : rows) wide = std::max(wide, text_of(row, "name").size());
  std::printf("%-*s  %-8s %-12s %s\n", int(wide), "MODEL", "VERSION", "STATE", "REASON");
  for (const auto& row : rows)
    std::printf("%-*s  %-8s %-12s %s\n", int(wide), text_of(row, "name").c_str(), text_of(row, "version").c_str(),
                text_of(row, "state").c_str(), text_of(row, "reason").c_str());
  return Exit::kOk;
}

Exit load_model(const Remote& remote, const std::string& model) { return load_or_unload(remote, model, "load"); }
Exit unload_model(const Remote& remote, const std::string& model) { return load_or_unload(remote, model, "unload"); }

Exit ask_ready(const Remote& remote, const std::string& model) {
  auto reply = ask(remote, "GET", model.empty() ? "/readyz" : model_path(model, "/ready"));
  if (auto wrong = complaint(reply); !wrong.empty()) return fail("not ready: " + wrong);
  std::printf("ready\n");
  return Exit::kOk;
}

Exit infer(const Remote& remote, const std::string& model, const std::vector<std::string>& inputs) {
  auto body = make_infer_request(remote, model, inputs);
  if (!body) return fail(body.error().text);
  auto client = connect_to(remote);
  if (!client) return fail(client.error().text);
  auto reply = client->request("POST", model_path(model, "/infer"), body->fields, body->bytes);
  if (auto wrong = complaint(reply); !wrong.empty()) return fail(wrong);
  auto answer = json::parse(reply->body, nullptr, false);
  if (!answer.is_object() || !answer["outputs"].is_array()) return fail("the server's answer is no JSON");
  if (remote.output == Output::kJson)
    std::printf("%s\n", answer.dump(2).c_str());
  else
    print_outputs(answer);
  return Exit::kOk;
}

}  // namespace weir::app
