#include "dialects/evergreen/prompt.h"

#include <algorithm>
#include <cstring>

#include <nlohmann/json.hpp>

#include "base/encoding.h"
#include "dialects/evergreen/tensor_chunk.h"
#include "marshal/json_cursor.h"
#include "text/completion.h"
#include "wire/text.h"

namespace weir::evergreen {
namespace {

using base::invalid;
using base::Status;
using Json = nlohmann::ordered_json;

// Stands for an image in the template's output: two noncharacters, which append_plain() removes from clients' text.
constexpr std::string_view kImageMark = "\xEF\xBF\xBE\xEF\xBF\xBF";

// Appends a client's text. Of each mark in it, also of one that two chunks form together, the first half is removed: a
// client cannot forge an image.
void append_plain(std::string& to, std::string_view text) {
  constexpr size_t kHalf = kImageMark.size() / 2;
  size_t done = to.size() - std::min(to.size(), kImageMark.size() - 1);  // read up to here; what is kept ends at `end`
  size_t end = done;
  to += text;
  for (size_t at; (at = to.find(kImageMark, done)) != to.npos; done = at + kHalf) {
    std::memmove(to.data() + end, to.data() + done, at - done);
    end += at - done;
  }
  std::memmove(to.data() + end, to.data() + done, to.size() - done);
  to.resize(end + to.size() - done);
}

// The role as chat templates spell it. It is a client's text like any other, and must not contain a mark.
std::string role_of(std::string_view role) {
  if (role.empty()) return "user";
  for (std::string_view known : {"user", "assistant", "system", "tool"})
    if (wire::same_text(role, known)) return std::string(known);
  if (wire::same_text(role, "model")) return "assistant";
  std::string plain;
  append_plain(plain, role);
  return plain;
}

std::string where(std::string_view leaf) { return "node '" + std::string(leaf) + "': "; }
std::string where(const Node& leaf) { return where(leaf.id()); }

// Members are in alphabetical order: templates that print a message as JSON show the order.
Json messages_of(const std::vector<Turn>& turns) {
  auto messages = Json::array();
  for (const Turn& turn : turns) {
    Json content;
    bool images = std::any_of(turn.parts.begin(), turn.parts.end(), [](const auto& p) { return !p.image.empty(); });
    if (!images) {
      std::string text;
      for (const auto& p : turn.parts) text += p.text;
      content = std::move(text);
    } else {
      content = Json::array();
      for (const auto& p : turn.parts)
        content.push_back(p.image.empty() ? Json{{"text", p.text}, {"type", "text"}} : Json{{"type", "image"}});
    }
    messages.push_back({{"content", std::move(content)}, {"role", turn.role}});
  }
  return messages;
}

std::string raw_text(const std::vector<Turn>& turns) {
  std::string out;
  for (const Turn& turn : turns)
    for (const auto& p : turn.parts) p.image.empty() ? out += p.text : out += kImageMark;
  return out;
}

// Encodes `text`. Where it begins with the text of a transcript, the longest such transcript's ids are used, so that
// the engine's prefix cache finds them.
void encode(const std::shared_ptr<const msg::TextSpec>& spec, std::string_view text, msg::AddSpecial add,
            const TranscriptList& transcripts, const msg::TextBudget& budget, std::vector<uint32_t>& ids) {
  const Transcript* best = nullptr;
  for (const auto& t : transcripts)
    if (t->model == spec && text.starts_with(t->text) && (!best || t->text.size() > best->text.size())) best = t.get();
  if (best) {
    ids = best->ids;
    text.remove_prefix(best->text.size());
    add = msg::AddSpecial::kNo;
  }
  if (text.empty()) return;
  auto rest = spec->codec->encode(text, add, budget.cancelled);
  ids.insert(ids.end(), rest.begin(), rest.end());
}

Status place_images(const msg::TextSpec& spec, const std::vector<Turn>& turns, msg::AddSpecial add,
                    const msg::TextBudget& budget, Prompt& prompt) {
  std::string_view rest = prompt.text;
  auto append = [&](std::string_view text) {
    auto ids = spec.codec->encode(text, add, budget.cancelled);
    prompt.ids.insert(prompt.ids.end(), ids.begin(), ids.end());
    add = msg::AddSpecial::kNo;
  };
  for (const Turn& turn : turns) {
    for (const auto& part : turn.parts) {
      if (part.image.empty()) continue;
      size_t at = rest.find(kImageMark);
      if (at == rest.npos) return invalid("the model's chat template leaves an image out");
      append(rest.substr(0, at));
      rest.remove_prefix(at + kImageMark.size());
      auto pads = spec.vision->features(part.image.view(), part.text);
      if (!pads) {
        Status s = std::move(pads).error();
        s.text = where(part.leaf) + s.text;
        return s;
      }
      msg::Image image{part.image, part.text, uint32_t(prompt.ids.size()), 0};
      prompt.ids.push_back(spec.vision->start_id);
      prompt.ids.insert(prompt.ids.end(), *pads, spec.vision->pad_id);
      prompt.ids.push_back(spec.vision->end_id);
      image.end = uint32_t(prompt.ids.size());
      prompt.images.push_back(std::move(image));
    }
  }
  if (!rest.empty()) append(rest);
  return {};
}

}  // namespace

Turn& Conversation::current_turn() {
  if (turns_.empty() || ended_ || turns_.back().role != role_) turns_.push_back({role_, {}});
  ended_ = false;
  return turns_.back();
}

Status Conversation::open_leaf(const Node& leaf, const msg::TextSpec& spec) {
  const Metadata& m = *leaf.metadata();
  leaf_ = &leaf;
  mimetype_ = m.mimetype;
  id_ = leaf.id();
  constexpr size_t kLongestRole = 64;
  if (m.role.size() > kLongestRole)
    return invalid(where(leaf) + "a role has at most " + std::to_string(kLongestRole) + " bytes");
  role_ = role_of(m.role);
  std::string_view type = base_type(mimetype_);
  image_ = {};
  joined_.clear();
  unsupported_bytes_ = 0;
  if (is_text(type)) {
    kind_ = Kind::kText;
    Status s = check_charset(mimetype_);
    if (!s.ok()) return s.text = where(leaf) + s.text, s;
  } else if (wire::same_text(type, "application/x-protobuf") && type_parameter(mimetype_, "type") == "EndOfTurn") {
    kind_ = Kind::kEndOfTurn;
  } else if (wire::same_text(type.substr(0, 6), "image/") && spec.vision) {
    kind_ = Kind::kImage;
  } else {
    kind_ = Kind::kUnsupported;
  }
  return {};
}

bool is_text(std::string_view base_type) {
  constexpr std::string_view kApplication = "application/";
  if (base_type.empty() || wire::same_text(base_type.substr(0, 5), "text/")) return true;
  if (!wire::same_text(base_type.substr(0, kApplication.size()), kApplication)) return false;
  std::string_view subtype = base_type.substr(kApplication.size());
  if (wire::same_text(subtype, "x-latex")) return true;
  std::string_view syntax = subtype.substr(subtype.rfind('+') + 1);  // of "json" and of "geo+json"
  return wire::same_text(syntax, "json") || wire::same_text(syntax, "xml") || wire::same_text(syntax, "yaml");
}

Status check_charset(std::string_view mimetype) {
  constexpr size_t kShown = 40;
  const std::string_view charset = type_parameter(mimetype, "charset");
  if (charset.empty()) return {};
  for (std::string_view known : {"utf-8", "utf8", "us-ascii", "ascii", "iso-8859-", "latin", "windows-125"})
    if (wire::same_text(charset.substr(0, known.size()), known)) return {};
  return invalid("text must be UTF-8, not '" + std::string(base::cut_text(charset, kShown)) + "'");
}

uint64_t max_prompt_bytes(const msg::TextSpec& spec) {
  constexpr uint64_t kBytesPerToken = 64, kSlack = 64 << 10;
  return spec.max_length * kBytesPerToken + kSlack;
}

Status Conversation::add_chunk(const Node& leaf, const base::Bytes& data, const msg::TextSpec& spec) {
  if (leaf_ != &leaf || kind_ == Kind::kNone)
    if (Status s = open_leaf(leaf, spec); !s.ok()) return s;
  if (kind_ == Kind::kImage) return add_image(data);
  if (kind_ == Kind::kText) return add_text(data.view(), spec);
  if (kind_ == Kind::kUnsupported) unsupported_bytes_ += data.size();
  return {};
}

Status Conversation::add_text(std::string_view more, const msg::TextSpec& spec) {
  if ((text_bytes_ += more.size()) > max_prompt_bytes(spec))
    return invalid(where(*leaf_) + "the prompt is too long for the model");
  Turn& t = current_turn();
  if (t.parts.empty() || !t.parts.back().image.empty()) {
    t.parts.emplace_back();
    ++parts_;
  }
  append_plain(t.parts.back().text, more);
  return {};
}

Status Conversation::add_image(const base::Bytes& data) {
  constexpr uint64_t kMostImages = 16 << 20;
  if ((image_bytes_ += data.size()) > kMostImages)
    return invalid(where(*leaf_) + "the images of a prompt have at most " + std::to_string(kMostImages) + " bytes");
  if (data.empty()) return {};
  if (image_.empty() && joined_.empty()) {
    image_ = data;
    return {};
  }
  joined_bytes_ += data.size();
  if (joined_.empty()) {
    joined_ = image_.view();
    joined_bytes_ += image_.size();
    image_ = {};
  }
  joined_ += data.view();
  return {};
}

Status Conversation::end_leaf(const msg::TextSpec& spec) {
  constexpr size_t kShown = 80;
  Status s;
  if (kind_ == Kind::kEndOfTurn) ended_ = true;
  if (!joined_.empty()) image_ = base::Bytes::adopt(std::exchange(joined_, {}));
  if (!image_.empty()) {
    current_turn().parts.push_back({mimetype_, std::exchange(image_, {}), id_});
    joined_bytes_ += id_.size();
    ++parts_;
  }
  if (unsupported_bytes_ > 0)
    s = add_text(
        "[" + std::string(base::cut_text(mimetype_, kShown)) + ", " + std::to_string(unsupported_bytes_) + " bytes]",
        spec);
  kind_ = Kind::kNone;
  leaf_ = nullptr;
  unsupported_bytes_ = 0;
  return s;
}

uint64_t Conversation::size() const {
  constexpr uint64_t kTextCost = 64;  // the mimetype of a part, the role of a turn
  if (turns_.empty()) return joined_bytes_;
  return text_bytes_ + joined_bytes_ + parts_ * (sizeof(Turn::Part) + sizeof(Turn) + 2 * kTextCost);
}

namespace {

// A template replaces bytes that are no UTF-8, and the model would answer what it puts there.
bool is_utf8(const std::vector<Turn>& turns) {
  for (const Turn& turn : turns)
    for (const Turn::Part& part : turn.parts)
      if (!marshal::valid_utf8(part.text)) return false;
  return true;
}

}  // namespace

base::Result<Prompt> make_prompt(const std::shared_ptr<const msg::TextSpec>& spec, const std::vector<Turn>& turns,
                                 Templating templating, const TranscriptList& transcripts,
                                 const msg::TextBudget& budget) {
  if (!is_utf8(turns)) return invalid("the prompt is not UTF-8");
  Prompt prompt;
  auto add = msg::AddSpecial::kYes;
  if (templating == Templating::kChat && spec->codec->has_chat_template()) {
    if (turns.empty()) return invalid("the prompt is empty");
    msg::ChatOptions options;
    options.image_text = kImageMark;
    options.budget = budget;
    auto text = spec->codec->render_chat(messages_of(turns), Json::object(), options);
    if (!text) return std::move(text).error();
    prompt.text = std::move(*text);
    if (!text::check_prompt(prompt.text, spec->max_length).ok()) return invalid("the prompt is too long for the model");
    add = msg::AddSpecial::kNo;  // the template has put them in
  } else {
    prompt.text = raw_text(turns);
  }
  if (prompt.text.size() > budget.bytes) return base::failure(base::Code::kAborted, "the prompt is longer");
  if (!marshal::valid_utf8(prompt.text)) return invalid("the prompt is not UTF-8");
  bool images = std::any_of(turns.begin(), turns.end(), [](const Turn& t) {
    return std::any_of(t.parts.begin(), t.parts.end(), [](const auto& p) { return !p.image.empty(); });
  });
  if (images) {
    if (Status s = place_images(*spec, turns, add, budget, prompt); !s.ok()) return s;
  } else {
    encode(spec, prompt.text, add, transcripts, budget, prompt.ids);
  }
  if (budget.stopped()) return base::failure(base::Code::kCancelled, "cancelled");
  if (prompt.ids.empty()) return invalid("the prompt is empty");
  if (prompt.ids.size() >= spec->max_length)
    return invalid("the prompt has " + std::to_string(prompt.ids.size()) + " tokens; the model's context has " +
                   std::to_string(spec->max_length));
  return prompt;
}

}  // namespace weir::evergreen
