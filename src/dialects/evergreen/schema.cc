#include "dialects/evergreen/schema.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "dialects/evergreen/action.h"
#include "dialects/evergreen/tensor_chunk.h"

namespace weir::evergreen {
namespace {

using base::Status;
using Works = Schema::Works;

constexpr std::string_view kAnything = "*/*";

constexpr std::array kPrompt{
    Parameter{"prompt", "text",
              "text/*,application/json,application/xml,application/yaml,application/x-latex,image/*,"
              "application/x-protobuf;type=EndOfTurn",
              true,
              "A conversation. A leaf's role says whose turn it belongs to; images where the model sees them. Types "
              "of application/ that end with +json, +xml or +yaml are text, too. Of other content the model reads its "
              "type and size."}};
constexpr std::array kAnswer{
    Parameter{"response", "text", "text/plain", false,
              "The model's answer, as it comes; with details per token a node of one leaf per token."},
    Parameter{"usage", "", "application/json", false, "How many tokens it took, and why it ended."}};
constexpr std::array kTensorsIn{
    Parameter{kAnyName, "", kTensorType, false, "A tensor of the model's, by its name; or a node of several."}};
constexpr std::array kTensorsOut{Parameter{"outputs", "", kTensorType, false,
                                           "A node of a leaf <id>/<tensor> for each tensor that the model gives."},
                                 Parameter{kAnyName, "", kTensorType, false, "A tensor of the model's, by its name."}};
constexpr std::array kText{
    Parameter{"prompt", "text", "text/*,application/json,application/xml,application/yaml,application/x-latex", true,
              "The text. Types of application/ that end with +json, +xml or +yaml are text, too."}};
constexpr std::array kEmbedding{Parameter{
    "embedding", "", kTensorType, false,
    "FP32 [hidden size]: of a model that makes tokens the mean of the last hidden states, of an encoder its row."}};
constexpr std::array kTokens{Parameter{"tokens", "", kTensorType, false, "UINT32 [n]: the text's token ids."}};
constexpr std::array kEchoed{Parameter{kAnyName, "", kAnything, false, "Any node."}};
constexpr std::array kEchoes{Parameter{kAnyName, "", kAnything, false,
                                       "What the input of that name brings; the one output is the one input's."}};
constexpr std::array kDropped{
    Parameter{"node", "", kAnything, false, "A node, of which only the content goes; any number of times."},
    Parameter{"tree", "", kAnything, false, "A node, with what only it holds; any number of times."}};
constexpr std::array kCancelled{
    Parameter{"output", "", kAnything, false, "A node that an action makes: that action ends; any number of times."}};
constexpr std::array kActionList{Parameter{"actions", "", "application/json", false,
                                           "This list, and a weir.evergreen.v1.ActionList in its metadata."}};

constexpr std::array kKept{Parameter{"session", "", "text/plain", false, "The session's id, for RESUME."}};
constexpr std::array kResumed{
    Parameter{"session", "", "text/plain", false, "The session's id again."},
    Parameter{"nodes", "", "application/json", false, "The ids of the nodes that are there, as an array."}};

constexpr std::array<Schema, 11> kSchemas{{
    {"GENERATE", Works::kText, "A model's answer to a conversation.", kPrompt, kAnswer,
     "weir.evergreen.v1.GenerateConfig", make_generate},
    {"INFER", Works::kTensors, "A model's output tensors for input tensors.", kTensorsIn, kTensorsOut, "", make_infer},
    {"EMBED", Works::kEmbeddings, "A text as one vector.", kText, kEmbedding, "", make_embed},
    {"TOKENIZE", Works::kTokens, "A text as the model's tokens.", kText, kTokens, "", make_tokenize},
    {"ECHO", Works::kAtOnce, "What comes in goes out, as it comes.", kEchoed, kEchoes, "", make_echo},
    {"DROP", Works::kAtOnce, "Forgets nodes.", kDropped, {}, "", make_drop},
    {"SET_TTL",
     Works::kAtOnce,
     "Forgets nodes after a time.",
     kDropped,
     {},
     "weir.evergreen.v1.TtlConfig",
     make_set_ttl},
    {"CANCEL", Works::kAtOnce, "Ends actions; what they have said stands.", kCancelled, {}, "", make_cancel},
    {"KEEP", Works::kAtOnce, "Keeps the session: any node of the cluster can go on with it.", {}, kKept, "", make_keep},
    {"RESUME",
     Works::kAtOnce,
     "Goes on with a session that was kept. It comes first.",
     {},
     kResumed,
     "weir.evergreen.v1.ResumeConfig",
     make_resume},
    {"LIST_ACTIONS",
     Works::kAtOnce,
     "The actions that there are; with a target, those of that model.",
     {},
     kActionList,
     "",
     make_list_actions},
}};

std::string listed(std::span<const Parameter> parameters) {
  std::string out;
  auto add = [&](std::string_view name) {
    if (!name.empty()) out += (out.empty() ? "" : ", ") + std::string(name);
  };
  for (const Parameter& p : parameters) add(p.name), add(p.alias);
  return out;
}

bool among(std::string_view name, std::span<const Parameter> parameters) {
  return std::any_of(parameters.begin(), parameters.end(), [&](const Parameter& p) { return p.is(name); });
}

// A name and its alias are the same output.
Status check_once(const std::vector<NamedNode>& outputs, std::span<const Parameter> parameters) {
  std::vector<std::string_view> names;
  for (const NamedNode& out : outputs) {
    auto aliased = [&](const Parameter& p) { return !p.alias.empty() && p.is(out.name); };
    auto p = std::find_if(parameters.begin(), parameters.end(), aliased);
    names.push_back(p == parameters.end() ? std::string_view(out.name) : p->name);
  }
  std::sort(names.begin(), names.end());
  auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return {};
  std::string text = "output '" + std::string(*twice) + "' is named twice";
  for (const Parameter& p : parameters)
    if (p.name == *twice && !p.alias.empty()) text += "; '" + std::string(p.alias) + "' is the same one";
  return base::invalid(text);
}

}  // namespace

std::span<const Schema> schemas() { return kSchemas; }

bool offered(const Schema& schema, const EvergreenState& state) {
  return state.options.handover || (schema.make != make_keep && schema.make != make_resume);
}

bool makes_room(const Schema& schema) {
  return schema.make == make_drop || schema.make == make_set_ttl || schema.make == make_cancel;
}

const Schema* find_schema(std::string_view name) {
  auto found = std::find_if(kSchemas.begin(), kSchemas.end(), [&](const Schema& s) { return s.name == name; });
  return found == kSchemas.end() ? nullptr : &*found;
}

Status check_names(const Schema& schema, const ActionRequest& request) {
  std::string inputs = listed(schema.inputs), outputs = listed(schema.outputs);
  for (const auto& in : request.inputs)
    if (!among(in.name, schema.inputs))
      return base::invalid("no input '" + in.name + "'; there are: " + (inputs.empty() ? "none" : inputs));
  for (const auto& out : request.outputs)
    if (out.name != kStatus && !among(out.name, schema.outputs))
      return base::invalid("no output '" + out.name + "'; there are: " + outputs + (outputs.empty() ? "" : ", ") +
                           std::string(kStatus));
  if (Status s = check_once(request.outputs, schema.outputs); !s.ok()) return s;
  for (const auto& c : request.configs)
    if (c.type != schema.config)
      return base::invalid("takes no configuration of type '" + c.type + "'" +
                           (schema.config.empty() ? "" : "; it takes " + std::string(schema.config)));
  return {};
}

}  // namespace weir::evergreen
