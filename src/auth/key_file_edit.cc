#include "auth/key_file_edit.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>

#include "base/check.h"

namespace weir::auth {
namespace {

using base::Code;
using base::failure;
using base::Yaml;

constexpr std::string_view kKeyPrefix = "weir_";
constexpr size_t kRandomDigits = 43;  // 62^43 > 2^256
constexpr size_t kCheckDigits = 6;    // 62^6 > 2^32
constexpr std::string_view kBase62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

// CRC-32 of IEEE 802.3, bit by bit: keys are made seldom.
std::string checksum_of(std::string_view text) {
  uint32_t crc = ~0u;
  for (unsigned char c : text) {
    crc ^= c;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0);
  }
  crc = ~crc;
  std::string out(kCheckDigits, '0');
  for (size_t i = kCheckDigits; i-- > 0; crc /= 62) out[i] = kBase62[crc % 62];
  return out;
}

// The lines of a text, without their ends, as a list to cut from and to add to.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const auto& line : lines) (out += line) += '\n';
  return out;
}

bool is_blank(const std::string& line) {
  size_t at = line.find_first_not_of(" \t\r");
  return at == line.npos || line[at] == '#';
}

// Where the keys stand in the lines; places are from 0, ends are behind the last line.
struct KeyList {
  size_t head = 0;  // the line of "keys:"
  size_t end = 0;   // of the last key
  size_t indent = 2;
  std::vector<std::pair<size_t, size_t>> items;
};

base::Status not_editable() {
  return failure(
      Code::kFailedPrecondition,
      "the file of keys cannot be edited: expected 'keys:' with a list of which each key begins with '- ' on "
      "a line of its own");
}

// The end of what begins before `next`: blank lines and comments above the next one belong to that.
size_t end_before(const std::vector<std::string>& lines, size_t next) {
  while (next > 0 && is_blank(lines[next - 1])) --next;
  return next;
}

base::Result<KeyList> find_keys(const std::vector<std::string>& lines, const Yaml& root) {
  KeyList out;
  const Yaml* list = nullptr;
  size_t next = lines.size();
  for (const auto& member : root.entries) {
    if (list) {
      next = member.line - 1;
      break;
    }
    if (member.key == "keys") list = &member.value, out.head = member.line - 1;
  }
  out.end = end_before(lines, next);
  if (!list || list->items.empty()) return out;
  for (const auto& item : list->items) {
    size_t line = item.line - 1;
    size_t dash = line < lines.size() ? lines[line].find_first_not_of(' ') : std::string::npos;
    if (dash == std::string::npos || lines[line][dash] != '-' || line <= out.head) return not_editable();
    out.indent = dash;
    if (!out.items.empty()) out.items.back().second = end_before(lines, line);
    out.items.emplace_back(line, out.end);
  }
  return out;
}

std::string list_text(const std::vector<std::string>& words) {
  std::string out = "[";
  for (const auto& word : words) (out += out.size() > 1 ? ", " : "") += base::yaml_scalar(word);
  return out + "]";
}

std::vector<std::string> item_lines(const NewKey& key, size_t indent) {
  const std::string first(indent, ' '), rest(indent + 2, ' ');
  std::vector<std::string> out{first + "- name: " + base::yaml_scalar(key.name), rest + "hash: \"" + key.hash + '"'};
  if (!key.tenant.empty()) out.push_back(rest + "tenant: " + base::yaml_scalar(key.tenant));
  if (!key.roles.empty()) out.push_back(rest + "roles: " + list_text(key.roles));
  if (!key.models.empty()) out.push_back(rest + "models: " + list_text(key.models));
  if (key.expires) out.push_back(rest + "expires: \"" + show_time(*key.expires) + '"');
  return out;
}

// The line of "keys:", after which a list may follow or, with "[]", none.
base::Status set_head(std::string& line, std::string_view wanted) {
  size_t colon = line.find(':');
  std::string after = colon == line.npos ? line : line.substr(colon + 1);
  after.erase(std::remove(after.begin(), after.end(), ' '), after.end());
  bool known = after.empty() || after == "[]" || after == "null" || after == "~" || after.front() == '#';
  if (colon == line.npos || !known) return not_editable();
  line = line.substr(0, colon + 1) + std::string(wanted) +
         (after.starts_with('#') ? "  " + line.substr(line.find('#')) : "");
  return {};
}

const Yaml* key_named(const Yaml& root, std::string_view name) {
  const Yaml* keys = root.find("keys");
  if (!keys) return nullptr;
  for (const auto& item : keys->items)
    if (const Yaml* its = item.find("name"); its && its->scalar == name) return &item;
  return nullptr;
}

}  // namespace

// Bytes from 248 on are thrown away, so that each digit is as likely as any other.
std::string make_key() {
  std::string digits;
  while (digits.size() < kRandomDigits) {
    std::array<unsigned char, 64> bytes;
    ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
    base::check(got == ssize_t(bytes.size()) || (got < 0 && errno == EINTR), "the kernel gives random bytes");
    for (ssize_t i = 0; i < got && digits.size() < kRandomDigits; ++i)
      if (bytes[size_t(i)] < 62 * 4) digits += kBase62[bytes[size_t(i)] % 62];
  }
  return std::string(kKeyPrefix) + digits + checksum_of(digits);
}

bool is_key(std::string_view text) {
  if (!text.starts_with(kKeyPrefix)) return false;
  text.remove_prefix(kKeyPrefix.size());
  if (text.size() != kRandomDigits + kCheckDigits || text.find_first_not_of(kBase62) != text.npos) return false;
  return checksum_of(text.substr(0, kRandomDigits)) == text.substr(kRandomDigits);
}

base::Result<std::string> add_key(const std::string& text, const Yaml& root, const NewKey& key) {
  if (key_named(root, key.name))
    return failure(Code::kAlreadyExists, "there is a key with the name '" + key.name + "' already");
  std::vector<std::string> lines = lines_of(text);
  const bool has_list = root.find("keys") != nullptr;
  if (!has_list) lines.push_back("keys:");
  auto list = find_keys(lines, root);
  if (!list) return list.error();
  if (!has_list) list->head = lines.size() - 1, list->end = lines.size();
  if (list->items.empty()) {
    if (auto s = set_head(lines[list->head], ""); !s.ok()) return s;
    list->end = list->head + 1;
  }
  auto fresh = item_lines(key, list->indent);
  lines.insert(lines.begin() + ptrdiff_t(list->end), fresh.begin(), fresh.end());
  return joined(lines);
}

base::Result<std::string> remove_key(const std::string& text, const Yaml& root, std::string_view name) {
  const Yaml* item = key_named(root, name);
  if (!item) return failure(Code::kNotFound, "there is no key with the name '" + std::string(name) + "'");
  std::vector<std::string> lines = lines_of(text);
  auto list = find_keys(lines, root);
  if (!list) return list.error();
  auto [begin, end] = list->items[size_t(item - root.find("keys")->items.data())];
  lines.erase(lines.begin() + ptrdiff_t(begin), lines.begin() + ptrdiff_t(end));
  if (list->items.size() == 1)
    if (auto s = set_head(lines[list->head], " []"); !s.ok()) return s;
  return joined(lines);
}

std::string show_time(base::WallTime at) {
  using namespace std::chrono;
  const auto seconds_since = floor<seconds>(at);
  const auto day = floor<days>(seconds_since);
  const year_month_day date{day};
  const hh_mm_ss time{seconds_since - day};
  char text[40];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02dZ", int(date.year()), unsigned(date.month()),
                unsigned(date.day()), int(time.hours().count()), int(time.minutes().count()),
                int(time.seconds().count()));
  return text;
}

}  // namespace weir::auth
