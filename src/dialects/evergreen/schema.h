// The table of actions: each one's inputs, outputs and configuration. A request is checked against it before its action
// begins, and LIST_ACTIONS shows it to clients.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "base/status.h"
#include "dialects/evergreen/message.h"

namespace weir::evergreen {

class Action;
class Session;
struct EvergreenState;

inline constexpr std::string_view kStatus = "status";  // an output that every action has
inline constexpr std::string_view kAnyName = "*";

struct Parameter {
  std::string_view name;   // or kAnyName
  std::string_view alias;  // a second name for it, or nothing
  std::string_view types;  // of its leaves: mimetypes, a comma between two
  bool required = false;
  std::string_view description;

  bool is(std::string_view other) const {
    return name == kAnyName || other == name || (!alias.empty() && other == alias);
  }
};

struct Schema {
  // All but kAtOnce work on a model, for a while, and the session has Options::max_actions of those at once: kText on a
  // model that makes tokens, kTokens on one that takes text (encoders do, too), kEmbeddings on one of these that is no
  // classifier, kTensors on one of tensors.
  enum class Works : uint8_t { kAtOnce, kText, kTokens, kEmbeddings, kTensors };

  std::string_view name;
  Works works;
  std::string_view description;
  std::span<const Parameter> inputs, outputs;  // without kStatus
  std::string_view config;                     // the full name of a message, or nothing
  std::unique_ptr<Action> (*make)(Session&, ActionRequest&&);
};

std::span<const Schema> schemas();
// False: the action is for sessions that are kept, which this server has none of.
bool offered(const Schema& schema, const EvergreenState& state);
// It is over at once, and the session may have more room then.
bool makes_room(const Schema& schema);
// Null: there is none of that name.
const Schema* find_schema(std::string_view name);
// Errors: INVALID_ARGUMENT for an input or output that the action does not have, an output that is named twice, or a
// configuration of another type.
base::Status check_names(const Schema& schema, const ActionRequest& request);

}  // namespace weir::evergreen
