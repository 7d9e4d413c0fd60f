// evergreen.v2.SessionMessage, read and written by hand, so that content is neither copied nor multiplied: reading
// makes no object per fragment, and data is a slice of the message that brought it. Unknown fields are passed over, up
// to 64 KiB of them in a message. A fragment or an action has 16,384 fields at most, children among them.
//
//   SessionMessage { repeated NodeFragment node_fragments = 1; repeated Action actions = 2; }     proto/evergreen.proto
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "dialects/evergreen/graph/node.h"

namespace weir::wire {
class JsonForm;
}

namespace weir::evergreen {

// A google.protobuf.Any: the full name of the message's type, and the message.
struct Packed {
  std::string type, value;
};

struct NamedNode {
  std::string name, id;
};

struct ActionRequest {
  std::string name, target;
  std::vector<NamedNode> inputs, outputs;
  std::vector<Packed> configs;
  uint64_t read_steps = 0;  // of TurnBudget, that reading it took
};

class MessageSink {
 public:
  // `reference`: the chunk's URI, if it has one. A failure ends the reading.
  virtual base::Status on_fragment(Fragment& fragment, std::string_view reference) = 0;
  virtual base::Status on_action(ActionRequest&& action) = 0;
  // Asked after each of them: true means that it was not taken, and the reading stops before it.
  virtual bool holds() const { return false; }

 protected:
  ~MessageSink() = default;
};

// Reads from byte `at` on, and leaves there where to go on: the message's end, or a part that the sink did not take.
// Errors: INVALID_ARGUMENT (not this protobuf message, text that is no UTF-8), and what the sink says.
base::Status read_message(const base::Bytes& message, size_t& at, MessageSink& sink);

// Appends an experimental part to what `other` of a Metadata holds.
void put_any(std::string& other, const Packed& part);

// Whether more of the same follows.
enum class More : uint8_t { kYes, kNo };

// A fragment on its way to the client.
struct OutFragment {
  std::string_view node;
  int64_t seq = 0;
  bool continued = false;
  std::vector<std::string> children;
  bool has_chunk = false;
  bool has_metadata = false;
  Metadata metadata;
  base::Bytes data;
};

// Appends a SessionMessage of one fragment.
void append_binary(std::string& out, const OutFragment& fragment);
// A SessionMessage of one fragment: a head, and the data where there is any.
std::vector<base::Bytes> write_binary(const OutFragment& fragment);
// The same as proto3 JSON with lowerCamelCase names: the head, appended to `out`, the data in base64, the tail.
// Experimental parts of types that are not known here have no such form and are left out.
void write_json_head(std::string& out, const OutFragment& fragment, wire::JsonForm& json);
std::string_view json_tail(const OutFragment& fragment);

}  // namespace weir::evergreen
