// Ollama's and Anthropic's APIs are read as OpenAI's: a body of theirs becomes the JSON of a request that
// read_request() reads, so that every bound and every feature is that of one reader.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "dialects/openai/api_error.h"
#include "dialects/openai/request.h"

namespace weir::openai {

using OrderedJson = nlohmann::ordered_json;  // tools reach the model as the client wrote them

// The body as a document: an object whose size and depth are bounded. Any thread. Errors: 400.
ApiError parse_body(std::string_view body, OrderedJson& out);

// Reads the translated request; `request.translated` owns its text. Any thread. Errors: 400, in `request.names`.
ApiError read_translated(const OrderedJson& translated, Kind kind, Request& request);

// Says of what nlohmann's library threw which member is missing, or of which type one must be. `place`: what was being
// read; empty: the body.
ApiError wrong_shape(const nlohmann::json::exception& error, std::string_view param, std::string_view place);

// "messages: what is wrong" as "messages[3]: what is wrong", where the error is of that list as a whole.
ApiError at_place(std::string_view param, size_t index, ApiError error);

// Runs a translation of a part of the body, which may throw what nlohmann's library throws of values of another type.
// Its
// errors name `param`, and the element of that list.
template <class Read>
ApiError read_at(std::string_view param, size_t index, Read read) {
  try {
    return at_place(param, index, read());
  } catch (const nlohmann::json::exception& error) {
    return wrong_shape(error, param, std::string(param) + '[' + std::to_string(index) + ']');
  }
}

// The same of a whole body.
template <class Translate>
ApiError translate(std::string_view body, Translate translate_object) {
  OrderedJson object;
  if (ApiError bad = parse_body(body, object); !bad.ok()) return bad;
  try {
    return translate_object(object);
  } catch (const nlohmann::json::exception& error) {
    return wrong_shape(error, {}, {});
  }
}

// The members of an API's bodies, one list for each thing that is done with them.
struct MemberLists {
  std::span<const RenamedMember> carried;     // it is OpenAI's, under another name or the same
  std::span<const std::string_view> read;     // the translation reads it
  std::span<const std::string_view> ignored;  // it asks for nothing here: notes, and choices between equal things

  bool know(std::string_view name) const;
  // A member of that name is refused; a known one that is near is named.
  ApiError refuse_unknown(std::string_view name) const;
  void carry(const OrderedJson& body, OrderedJson& out) const;
};

// The member's value where it is there and not null, else null.
const OrderedJson* member(const OrderedJson& object, std::string_view name);
// Moves the member under its new name, where it is there and not null.
void carry(const OrderedJson& from, std::string_view name, OrderedJson& to, std::string_view new_name);

// The first member of an object within the body that is none of `known` and not null; empty: there is none.
std::string unknown_inside(const OrderedJson& object, std::span<const std::string_view> known);
// A member of the request is neither read nor known to change nothing.
ApiError unknown_member(std::string_view name);
// The same in an API whose clients send more with every version: the answer's head says that the member is ignored
// (tell_ignored()). A name that is not plain ASCII, or that comes behind many others, is not told.
void ignore_member(std::string_view name, Request& out);
void ignore_member(std::string_view name, std::string& ignored);
// The same of each member that is not null and that the lists do not know.
void ignore_unknown(const OrderedJson& body, const MemberLists& known, Request& out);

}  // namespace weir::openai
