#include "cluster/node.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/encoding.h"

namespace weir::cluster {
namespace {

using base::invalid;
using base::Status;
using Makes = NodeModel::Makes;
using Phase = Node::Phase;

constexpr std::string_view kHead = "weir-node 1\n", kMac = "mac ";
constexpr size_t kLongestName = 128;
constexpr std::pair<std::string_view, Phase> kPhases[] = {
    {"serving", Phase::kServing}, {"draining", Phase::kDraining}, {"fenced", Phase::kFenced}};
constexpr std::pair<std::string_view, Makes> kMakes[] = {{"tensors", Makes::kTensors}, {"tokens", Makes::kTokens}};

std::string hmac(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> out;
  unsigned int size = 0;
  ::HMAC(EVP_sha256(), key.data(), int(key.size()), reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         out.data(), &size);
  return {reinterpret_cast<const char*>(out.data()), size};
}

template <class T, size_t N>
std::string_view word_of(const std::pair<std::string_view, T> (&all)[N], T value) {
  for (const auto& [word, its] : all)
    if (its == value) return word;
  return all[0].first;
}

template <class T, size_t N>
bool read_word(const std::pair<std::string_view, T> (&all)[N], std::string_view text, T& out) {
  for (const auto& [word, value] : all)
    if (word == text) return out = value, true;
  return false;
}

template <class T>
bool read_number(std::string_view text, T& out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// Printable bytes of an URL; what it means is for whoever calls it.
bool good_address(std::string_view text) {
  return text.size() <= kLongestAddress && (text.starts_with("http://") || text.starts_with("https://")) &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

bool read_model(std::string_view value, Node& out) {
  const size_t space = value.find(' ');
  NodeModel model;
  if (space == value.npos || !good_name(value.substr(0, space)) ||
      !read_word(kMakes, value.substr(space + 1), model.makes))
    return false;
  model.name = value.substr(0, space);
  out.models.push_back(std::move(model));
  return out.models.size() <= kMostModels;
}

// At most a day.
bool read_alone(std::string_view value, base::Duration& out) {
  uint32_t ms = 0;
  if (!read_number(value, ms) || ms > 86'400'000) return false;
  return out = std::chrono::milliseconds(ms), true;
}

bool read_fencer(std::string_view value, Node& out) {
  const size_t space = value.find(' ');
  uint64_t incarnation = 0;
  if (space == value.npos || !good_name(value.substr(0, space)) || !read_number(value.substr(space + 1), incarnation))
    return false;
  out.fencers.emplace_back(value.substr(0, space), incarnation);
  return out.fencers.size() <= kMostFencers;
}

bool read_line(std::string_view name, std::string_view value, Node& out) {
  if (name == "id") return out.id = value, good_name(value);
  if (name == "incarnation") return read_number(value, out.incarnation);
  if (name == "beat") return read_number(value, out.beat);
  if (name == "phase") return read_word(kPhases, value, out.phase);
  if (name == "address") return out.address = value, good_address(value);
  if (name == "load") return read_number(value, out.load);
  if (name == "model") return read_model(value, out);
  if (name == "alone") return read_alone(value, out.alone);
  if (name == "fencer") return read_fencer(value, out);
  return true;
}

// Cuts the last line off, which is the right MAC of the rest.
bool check_mac(std::string_view& text, std::string_view key) {
  const size_t at = text.rfind('\n', text.size() < 2 ? 0 : text.size() - 2);
  if (at == text.npos || !text.substr(at + 1).starts_with(kMac)) return false;
  const std::string_view mac = text.substr(at + 1 + kMac.size());
  text = text.substr(0, at + 1);
  return same_mac(mac, base::hex(hmac(key, text)) + '\n');
}

}  // namespace

Secrets Secrets::derive(std::string_view secret) {
  if (secret.empty()) return {};
  return {hmac(secret, "weir cluster entry"), base::hex(hmac(secret, "weir cluster call"))};
}

std::string mac_of(std::string_view key, std::string_view text) { return base::hex(hmac(key, text)); }

bool same_mac(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

bool good_name(std::string_view name) {
  auto good = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' ||
           c == '.';
  };
  return !name.empty() && name.size() <= kLongestName && name[0] != '.' && name.find("..") == name.npos &&
         std::all_of(name.begin(), name.end(), good);
}

std::string write_node(const Node& node, std::string_view entry_key) {
  std::string out(kHead);
  auto line = [&](std::string_view name, std::string_view value) {
    out.append(name).append(" ").append(value).append("\n");
  };
  line("id", node.id);
  line("incarnation", std::to_string(node.incarnation));
  line("beat", std::to_string(node.beat));
  line("phase", word_of(kPhases, node.phase));
  if (!node.address.empty()) line("address", node.address);
  line("load", std::to_string(node.load));
  if (node.alone > base::Duration(0))
    line("alone", std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(node.alone).count()));
  for (const auto& [id, incarnation] : node.fencers) line("fencer", id + ' ' + std::to_string(incarnation));
  for (size_t i = 0; i < std::min(node.models.size(), kMostModels); ++i)
    line("model", node.models[i].name + ' ' + std::string(word_of(kMakes, node.models[i].makes)));
  if (!entry_key.empty()) {
    const std::string mac = base::hex(hmac(entry_key, out));
    line("mac", mac);
  }
  return out;
}

base::Result<Node> read_node(std::string_view text, std::string_view entry_key) {
  if (text.size() > kLargestNode) return invalid("more than " + std::to_string(kLargestNode) + " bytes");
  if (!text.starts_with(kHead) || !text.ends_with('\n')) return invalid("no entry of a node");
  if (!entry_key.empty() && !check_mac(text, entry_key))
    return base::failure(base::Code::kPermissionDenied, "written without cluster.secret, or with another one");
  Node out;
  text.remove_prefix(kHead.size());
  for (size_t number = 2; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end, text.size() - 1) + 1);
    const size_t space = std::min(line.find(' '), line.size());
    if (!read_line(line.substr(0, space), line.substr(std::min(space + 1, line.size())), out))
      return invalid("line " + std::to_string(number) + ": '" + base::presentable(line, 80) + "'");
  }
  if (out.id.empty() || out.incarnation == 0) return invalid("without an id or an incarnation");
  return out;
}

}  // namespace weir::cluster
